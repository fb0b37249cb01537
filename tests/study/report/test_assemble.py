"""What the report says of a study: whole, half finished, with failed runs, with one seed."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folders import finish_run, name_run, read_layout, start_run, write_task
from study.report.pages import Page, write_png

from acl_bert.files import read_json, write_json, write_text
from acl_bert.runs.files import CONFIG, TIMINGS, RunKey, find_names, name_path
from acl_bert.runs.store import Store
from acl_bert.study.claims.claims import Claim, Part
from acl_bert.study.claims.ledger import LEDGER_COLUMNS
from acl_bert.study.collect import RUNS, collect
from acl_bert.study.finetuning import finetuning_grids, finetuning_table, published
from acl_bert.study.grids import Block, Cell, Grid, Row
from acl_bert.study.layout import Layout, World
from acl_bert.study.report.assemble import study_report
from acl_bert.study.report.report import (
    ClaimView,
    Facts,
    FigureView,
    Notes,
    Report,
    TableView,
    write_report,
)
from acl_bert.study.report.report import Part as TablePart
from acl_bert.study.report.runs import study_runs
from acl_bert.study.report.sections import Material
from acl_bert.study.report.sections.all_runs import Mirror
from acl_bert.study.report.sections.claims import claim_views
from acl_bert.study.report.sections.overview import duration
from acl_bert.study.tables import Table

ENCODERS = {"base": "google-bert/bert-base-uncased"}
METHODS = {"ce": "CE", "acl": "ACL"}
SEEDS = (1, 2)

BEGUN = "Runs that began and have no result in this study ({})"
WHOLE = "A stand-in: no verdict on the paper comes from this study."
STAND_IN = "1 of 2 claims are measured on what is not the paper's."
NOT_RUN = "1 of 2 claims are not run."


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "study"
    write_task(folder, "rte", "RTE", ["accuracy"], "accuracy")
    return folder


def layout_of(study: Path, seeds: Sequence[int] = SEEDS, **more: Any) -> Layout:
    cells = [("rte", "base", method) for method in METHODS]
    return read_layout(
        study, {"rte": "RTE"}, ENCODERS, METHODS, seeds, cells, multi_exit=(), teachers={}, **more
    )


def planned(layout: Layout) -> list[tuple[str, str, str, int]]:
    return [(*cell, seed) for cell, seed in product(layout.in_order(), layout.seeds)]


def finish(study: Path, method: str, seed: int, **more: Any) -> Path:
    values = {"accuracy": 0.60 + seed / 100}
    name = f"{method}{seed}".ljust(64, "0")
    return finish_run(study, name, "rte", "base", method, seed, values, **more)


def report_of(
    study: Path,
    layout: Layout | None = None,
    tables: Sequence[Table] = (),
    left_out: Mapping[RunKey, str] | None = None,
    claims: Mapping[str, Claim] | None = None,
    deviations: Sequence[str] = (),
    mirror: Mirror | None = None,
) -> Report:
    layout, store, left_out = layout or layout_of(study), Store.beside(study), left_out or {}
    names = {run: name_path(study, *run) for run in planned(layout) if run not in left_out}
    finished = {run: store.named(name) for run, name in names.items() if name.is_file()}
    runs = study_runs(study, planned(layout), finished, left_out)
    by_name = {table.name: table for table in tables}
    material = Material(study, layout, runs, by_name, claims or {})
    return study_report(material, deviations, mirror)


def blocks(report: Report, name: str) -> list[Any]:
    (section,) = [section for section in report.sections if section.name == name]
    return list(section.blocks)


def texts(report: Report, name: str) -> str:
    """All sentences of a section."""
    return " ".join(
        t for block in blocks(report, name) if isinstance(block, Notes) for t in block.texts
    )


def tables_of(report: Report, name: str) -> dict[str, list[list[str]]]:
    """By heading: each row's texts."""
    views = [block for block in blocks(report, name) if isinstance(block, TableView)]
    return {
        view.heading: [[entry.text for entry in row] for group in view.groups for row in group.rows]
        for view in views
    }


def facts(report: Report) -> dict[str, list[str]]:
    (found,) = [block for block in blocks(report, "ran") if isinstance(block, Facts)]
    return {term: list(lines) for term, lines in found.of.items()}


def log(study: Path, method: str, seed: int, text: str) -> None:
    write_text(study / "logs" / "finetune" / f"rte.base.{method}.{seed}.log", text)


def finish_all(study: Path) -> None:
    for method, seed in product(METHODS, SEEDS):
        finish(study, method, seed)


def finetuning_of(study: Path, layout: Layout) -> Table:
    collect(map(Store.beside(study).named, find_names(study)), study)
    runs = pd.read_csv(study / RUNS)
    frame = finetuning_table(runs, layout, published())
    return Table("finetuning", "Fine-tuning", frame, finetuning_grids(frame, layout, runs))


def test_sections_come_in_their_order(study: Path) -> None:
    assert [section.name for section in report_of(study).sections] == [
        "ran", "claims", "missing", "tables", "figures", "published", "deviations", "audit",
        "choices", "runs",
    ]  # fmt: skip


def test_what_was_run(study: Path) -> None:
    finish(study, "ce", 1, started="2026-01-01T10:00:00+01:00", seconds=3000.0)
    finish(study, "acl", 1, started="2026-01-01T11:00:00+01:00", seconds=4260.0)
    report = report_of(study)
    said = facts(report)
    assert said["Runs"] == ["2 of 4 runs finished, 2 not run"]
    assert said["Dates"] == ["2026-01-01 09:00 to 2026-01-01 11:11 UTC"]
    assert said["Time"] == ["2 h 01 min in all runs together"]
    assert said["Commits"] == ["c" * 40]
    assert said["Hardware"] == ["cpu, float32, 1 thread"]
    assert said["Methods"] == ["CE, ACL"] and said["Seeds"] == ["1, 2"]
    tables = tables_of(report, "ran")
    assert tables["Tasks"] == [["RTE", "glue", "2,241", "249", "277", "–"]]
    assert tables["Encoders"] == [["base", ENCODERS["base"], "–", "6", "2"]]
    assert report.warning is None


def test_a_study_ends_where_its_last_run_ended(study: Path) -> None:
    """One that was interrupted ends later than its seconds say."""
    folder = finish(study, "ce", 1, started="2026-01-01T10:00:00+00:00", seconds=60.0)
    ended = {"ended": "2026-01-02T12:30:00+01:00"}
    write_json(folder / TIMINGS, read_json(folder / TIMINGS) | ended)
    name_run(study, folder, encoder="base", method="ce")
    assert facts(report_of(study))["Dates"] == ["2026-01-01 10:00 to 2026-01-02 11:30 UTC"]


def test_rows_that_are_not_the_papers_are_warned_of(study: Path) -> None:
    write_task(study, "rte", "RTE", ["accuracy"], "accuracy", stand_in="generated", train_rows=100)
    report = report_of(study)
    assert report.warning is not None and "no verdict" in report.warning
    assert report.reasons[0] == "RTE: generated." and "100 of 2,490" in report.reasons[1]
    assert "generated; subset" in tables_of(report, "ran")["Tasks"][0][-1]


def test_nothing_is_missing_of_a_whole_study(study: Path) -> None:
    finish_all(study)
    report = report_of(study)
    assert "No run is missing: all 4" in texts(report, "missing")
    assert not tables_of(report, "missing")
    assert len(tables_of(report, "runs")["Finished runs (4)"]) == 4


def test_each_run_without_a_result_is_named_with_what_became_of_it(study: Path) -> None:
    finish(study, "ce", 1)
    start_run(study, "b" * 64, encoder="base", method="ce", seed=2)
    log(study, "ce", 2, "rte · ce\nepoch 1/3: loss 0.7\n\n")
    start_run(study, "d" * 64, encoder="base", method="acl", seed=1)
    log(study, "acl", 1, "Traceback …\n  File …\ntorch.OutOfMemoryError: CUDA <b>\nnot mirrored\n")
    report = report_of(study)
    found = tables_of(report, "missing")
    assert found["Unfinished configurations (2 of 2)"] == [
        ["CE", "RTE", "base", "1 of 2", "–", "2", "–", "–"],
        ["ACL", "RTE", "base", "0 of 2", "1", "–", "–", "2"],
    ]
    assert found[BEGUN.format(2)] == [
        ["CE", "RTE", "base", "2", "unfinished", "epoch 1/3: loss 0.7"],
        ["ACL", "RTE", "base", "1", "failed", "torch.OutOfMemoryError: CUDA <b>"],
    ]
    said = "1 of 4 runs finished, 1 unfinished, 1 failed, 1 not run."
    assert said in report.summary and said in texts(report, "missing")


def test_a_run_of_other_settings_is_missing(study: Path) -> None:
    finish_all(study)
    run = ("rte", "base", "acl", 2)
    report = report_of(study, left_out={run: "trained with another method"})
    assert "3 of 4 runs finished, 1 left out" in report.summary
    found = tables_of(report, "missing")
    assert found["Unfinished configurations (1 of 2)"] == [
        ["ACL", "RTE", "base", "1 of 2", "–", "–", "2", "–"]
    ]
    assert found[BEGUN.format(1)] == [
        ["ACL", "RTE", "base", "2", "left out", "trained with another method"]
    ]
    view = blocks(report, "missing")[2]
    assert view.groups[0].rows[0][4].path == name_path(study, *run)
    done = tables_of(report, "runs")["Finished runs (3)"]
    assert [[row[0], row[3]] for row in done] == [["CE", "1"], ["CE", "2"], ["ACL", "1"]]


@pytest.mark.parametrize(("count", "is_open"), [(20, True), (21, False)])
def test_a_long_list_of_what_is_missing_is_folded(study: Path, count: int, is_open: bool) -> None:
    layout = layout_of(study, range(1, count + 1))
    finish(study, "acl", 1)
    left_out = {("rte", "base", "ce", seed): "torn" for seed in layout.seeds}
    views = blocks(report_of(study, layout, left_out=left_out), "missing")
    shown = {view.heading: view.open for view in views if isinstance(view, TableView)}
    assert shown[BEGUN.format(count)] is is_open and shown["Unfinished configurations (2 of 2)"]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("error: the teacher, acl, has no finished run", "failed"),
        ("ValueError: bad", "failed"),
        ("acl_bert.errors.InputError: bad", "failed"),
        ("KeyboardInterrupt", "unfinished"),  # stopped, to be taken up again
        ("Exception ignored in: <function f>", "unfinished"),
        ("no error: all is well", "unfinished"),
    ],
)
def test_how_a_log_ends_tells_a_failure(study: Path, said: str, state: str) -> None:
    start_run(study, "b" * 64, encoder="base", method="ce", seed=2)
    log(study, "ce", 2, f"rte\n{said}\n")
    (row,) = tables_of(report_of(study), "missing")[BEGUN.format(1)]
    assert row[-2:] == [state, said]


def test_a_run_that_began_without_a_log_is_unfinished(study: Path) -> None:
    """One started by hand writes none."""
    start_run(study, "b" * 64, encoder="base", method="ce", seed=2)
    (row,) = tables_of(report_of(study), "missing")[BEGUN.format(1)]
    assert row[3:] == ["2", "unfinished", ""]


def test_a_log_left_by_a_run_that_was_removed_tells_nothing(study: Path) -> None:
    log(study, "ce", 2, "dev, epoch 1: accuracy 0.7\n")
    assert facts(report_of(study))["Runs"] == ["0 of 4 runs finished, 4 not run"]


def test_a_study_without_any_run_gives_a_report(study: Path, tmp_path: Path) -> None:
    report = report_of(study)
    assert "0 of 4 runs finished, 4 not run." in texts(report, "missing")
    assert texts(report, "tables") == texts(report, "figures") == "None yet."
    write_report(report, tmp_path / "report.html")
    assert not Page((tmp_path / "report.html").read_text("utf-8")).faults


def test_one_seed_is_said_to_be_one(study: Path) -> None:
    finish(study, "ce", 1)
    assert "One seed" in texts(report_of(study, layout_of(study, [1])), "missing")
    assert "One seed" not in texts(report_of(study), "missing")


def test_degenerate_runs_are_listed(study: Path) -> None:
    finish_all(study)
    finish(study, "ce", 2, degenerate=True)
    report = report_of(study)
    found = tables_of(report, "missing")["Degenerate runs (1 of 4)"]
    assert found == [["CE", "RTE", "base", "2", "yes", "6"]]
    assert "counts" not in texts(report, "missing")
    marks = [row[-1] for row in tables_of(report, "runs")["Finished runs (4)"]]
    assert marks == ["–", "degenerate", "–", "–"]


def test_a_method_without_a_term_has_no_weight(study: Path) -> None:
    path = finish(study, "ce", 1) / CONFIG
    config = read_json(path)
    write_json(path, config | {"method": config["method"] | {"contrastive": "none"}})
    name_run(study, path.parent, encoder="base", method="ce")
    finish(study, "acl", 1)
    rows = tables_of(report_of(study), "runs")["Finished runs (2)"]
    assert [row[7] for row in rows] == ["–", "0.5"]


def test_a_run_is_found_in_mlflow_by_its_tag(study: Path) -> None:
    finish_all(study)
    report = report_of(study, mirror=Mirror("acl.run_hash", "make ui"))
    command, query, _ = blocks(report, "runs")
    assert command.line == "make ui"
    assert query.line == "tags.`acl.run_hash` LIKE 'ce1000000000%'"
    (row, *_) = tables_of(report, "runs")["Finished runs (4)"]
    assert row[:6] == ["CE", "RTE", "base", "1", "acc", "61.0"] and row[10] == "ce1000000000"


def test_tables_and_figures_have_captions_and_files(study: Path) -> None:
    finish_all(study)
    layout = layout_of(study)
    tables = [finetuning_of(study, layout)]
    write_text(study / "tables" / "finetuning.csv", "")
    write_png(study / "figures" / "finetuning.png")
    write_text(study / "figures" / "finetuning.pdf", "")
    report = report_of(study, layout, tables)
    (part,) = [b for b in blocks(report, "tables") if isinstance(b, TablePart) and b.files]
    assert part.title == "Fine-tuning" and part.caption.startswith("Mean ± sd over seeds on dev")
    (figure,) = [block for block in blocks(report, "figures") if isinstance(block, FigureView)]
    assert figure.title == "Fine-tuning" and figure.caption.startswith("Every seed on dev")
    assert [str(path.relative_to(study)) for path in figure.files] == [
        "figures/finetuning.png", "figures/finetuning.pdf", "runs.csv", "tables/finetuning.csv"
    ]  # fmt: skip


def grid_table(grids: list[Grid], name: str = "finetuning") -> Table:
    return Table(name, "Numbers", pd.DataFrame(), grids)


def test_a_grid_is_shown_as_it_is_printed(study: Path) -> None:
    cells = [
        Cell(64.06, 2.0, best=True),
        Cell(1.0, 0.5, 2, degenerate=True),
        Cell(),
        Cell(text="a"),
    ]
    rows = [Row("ACL", cells)]
    grid = Grid("minilm", list("abcd"), [Block(rows), Block(rows, "F1")], ["A note."], "method")
    (part,) = blocks(report_of(study, tables=[grid_table([grid])]), "tables")
    (view,) = part.tables
    assert [entry.text for entry in view.groups[0].rows[0]] == [
        "ACL", "64.1 ± 2.0", "1.0 ± 0.5 (n=2)†", "–", "a"
    ]  # fmt: skip
    assert [entry.best for entry in view.groups[0].rows[0]] == [False, True, False, False, False]
    assert [group.title for group in view.groups] == [None, "F1"]
    assert view.columns[0] == "method" and view.notes == ["A note."]


def test_notes_of_all_grids_are_said_once_and_later_grids_are_folded(study: Path) -> None:
    grids = [Grid(str(n), [], [], ["Shared.", f"Note {n}."]) for n in range(4)]
    (part,) = blocks(report_of(study, tables=[grid_table(grids)]), "tables")
    assert part.notes == ["Shared."]
    assert [view.notes for view in part.tables] == [[f"Note {n}."] for n in range(4)]
    assert [view.open for view in part.tables] == [True, True, False, False]


def test_published_numbers_stand_beside_ours(study: Path) -> None:
    finish_all(study)
    layout = layout_of(study)
    tables = [finetuning_of(study, layout)]
    (rows,) = tables_of(report_of(study, layout, tables), "published").values()
    assert rows[0][:8] == ["CE", "RTE acc", "61.5 ± 0.7", "2", "65.3", "−3.8", "69.3", "−7.8"]
    assert rows[0][8] == "[1]"
    assert rows[1][4:] == ["66.2", "−4.7", "–", "–", "–"]
    (view,) = blocks(report_of(study, layout, tables), "published")
    assert any(note.startswith("[1] transformers") for note in view.notes)


def test_where_nothing_is_published_it_is_said(study: Path) -> None:
    assert "No number is published" in texts(report_of(study), "published")


def test_open_choices_are_listed_with_what_was_tried(study: Path) -> None:
    world = World("temperature", "τ", "0.3", "0.1", {"acl": "acl@temperature=0.1"})
    own = World("mine", "my choice", "so", "otherwise", {"acl": "acl@reduction=sum"})
    layout = layout_of(study, audit=(world, own))
    audit = grid_table(
        [Grid("Choices", ["default"], [Block([Row("τ", [Cell(text="0.3")])])])], "audit"
    )
    report = report_of(study, layout, [audit])
    (rows,) = tables_of(report, "choices").values()
    assert rows[0] == ["τ", "0.3", "0.1, 0.05, 0.5", "0.1"]
    assert rows[-1] == ["my choice", "so", "–", "otherwise"]
    assert [part.title for part in blocks(report, "audit")] == ["Numbers"]
    assert texts(report, "tables") == "None yet."
    assert "no audit" in texts(report_of(study), "audit")


def test_deviations_are_listed(study: Path) -> None:
    assert texts(report_of(study, deviations=["lr 1e-4."]), "deviations") == "lr 1e-4."
    assert "None" in texts(report_of(study), "deviations")


def claim(**parts: str) -> Claim:
    made = {
        name: Part(short=short, statistic="mean", method="acl", baselines=("ce",),
                   margin=0, side="above")
        for name, short in parts.items()
    }  # fmt: skip
    return Claim(title="ACL is better", section="1.2", parts=made)


def ledger_row(claim: str, part: str, short: str, own: str, verdict: str, reason: str) -> list[Any]:
    numbers = [0.8, 0.1, 1.4, "points", 0.0, "above", 0.0004, math.nan, 1.1, 5, 7]
    return [claim, part, short, *numbers, own, verdict, reason]


def test_a_claim_gives_the_reasons_of_the_parts_that_decide_it(study: Path) -> None:
    claims = {"better": claim(a="at 3", b="at 6", c="at 9")}
    rows = [
        ledger_row("better", "a", "at 3", "supported", "stand-in", "p < 0.05"),
        ledger_row("better", "b", "at 6", "stand-in", "stand-in", "generated rows"),
        ledger_row("better", "c", "at 9", "stand-in", "stand-in", "generated rows"),
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(LEDGER_COLUMNS))
    (view,) = claim_views(frame, claims)
    assert (view.title, view.verdict, view.reason) == (
        "ACL is better",
        "stand-in",
        "generated rows",
    )
    assert len(view.rows) == len(view.details) == 3 and len(view.rows[0]) == len(view.columns)
    said = dict(zip(view.columns, view.rows[0], strict=True))
    assert (said["effect"], said["p"], said["p, Holm"]) == ("0.80", "< 0.001", "–")
    assert view.details[0] == "at 3: supported. p < 0.05"

    grid = Grid("Claims", [], [], ["What p is."])
    report = report_of(study, tables=[Table("claims", "Claims", frame, [grid])], claims=claims)
    assert [b for b in blocks(report, "claims") if isinstance(b, ClaimView)] == [view]
    assert texts(report, "claims") == "Of 1: 1 stand-in. What p is."
    assert report.warning and report.reasons == [
        "1 of 1 claims are measured on what is not the paper's."
    ]
    assert texts(report, "tables") == "None yet."


@pytest.mark.parametrize(
    ("verdicts", "limited", "warning", "reasons"),
    [
        (["stand-in", "not run"], False, WHOLE, [STAND_IN, NOT_RUN]),
        (["not run", "not run"], True, WHOLE, ["RTE: generated.", "2 of 2 claims are not run."]),
        (["stand-in", "supported"], False, "1 of 2 claims have no verdict.", [STAND_IN]),
        (
            ["stand-in", "not run", "contradicted"],
            True,
            "2 of 3 claims have no verdict.",
            ["RTE: generated.", STAND_IN.replace("2", "3"), NOT_RUN.replace("2", "3")],
        ),
        (["supported", "inconclusive"], True, None, []),
        (["supported", "not run"], False, None, []),
        (["not run", "not run"], False, None, []),
    ],
)
def test_the_warning_is_of_the_claims_without_a_verdict(
    study: Path, verdicts: list[str], limited: bool, warning: str | None, reasons: list[str]
) -> None:
    if limited:
        write_task(study, "rte", "RTE", ["accuracy"], "accuracy", stand_in="generated")
    names = [f"claim {place}" for place, _ in enumerate(verdicts)]
    rows = [
        ledger_row(name, "a", "at 3", verdict, verdict, "")
        for name, verdict in zip(names, verdicts, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(LEDGER_COLUMNS))
    tables = [Table("claims", "Claims", frame, [])]
    report = report_of(study, tables=tables, claims={name: claim(a="at 3") for name in names})
    assert (report.warning, report.reasons) == (warning, reasons)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
