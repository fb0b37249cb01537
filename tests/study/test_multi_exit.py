"""Scores by exit: every layer's, those at the quarters of the depth, half-depth models."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from run_folders import collect_results, finish_run, read_layout, write_task

from acl_bert.study.figures import write_figures
from acl_bert.study.grids import Grid, latex, markdown
from acl_bert.study.layout import Layout
from acl_bert.study.multi_exit import (
    layer_scores,
    multi_exit_grids,
    multi_exit_table,
    quarter_exits,
)
from acl_bert.study.results import Results
from acl_bert.study.tables import study_tables, write_tables

SEEDS = (1, 2)
TASKS = {"mrpc": "MRPC", "rte": "RTE"}
ENCODERS = {"base": "google-bert/bert-base-uncased", "distil": "distilbert"}
METHODS = {
    "ce": "CE",
    "static": "CE, 6 layers",
    "short": "Short",
    "long": "Long",
    "jt": "JT",
    "acl_cl": "ACL-CL",
}
TEACHERS = {"short": "acl_cl", "long": "ce", "acl_cl": "ce"}
CELLS = [
    ("mrpc", "base", "ce"),
    ("rte", "base", "ce"),
    ("mrpc", "base", "static"),
    ("rte", "base", "static"),
    ("mrpc", "distil", "ce"),
    ("rte", "distil", "ce"),
    ("rte", "base", "short"),  # students that end after 5 and 7 layers of 12
    ("rte", "base", "long"),
    ("mrpc", "base", "jt"),
    ("rte", "base", "jt"),
    ("rte", "base", "acl_cl"),  # on one task alone
]
DEPTHS = {("base", "static"): 6, ("distil", "ce"): 6, ("base", "short"): 5, ("base", "long"): 7}
SECONDS = {"ce": 100.0, "jt": 200.0, "acl_cl": 300.0}


def value(method: str, seed: int, exit: int) -> float:
    return exit / 16 + {"acl_cl": 0.01}.get(method, 0.0) + seed / 256


def finish(study: Path, task: str, encoder: str, method: str, seed: int) -> None:
    depth = DEPTHS.get((encoder, method), 12)
    names = ["accuracy", "f1"] if task == "mrpc" else ["accuracy"]
    exits = range(1, depth + 1) if method in ("jt", "acl_cl") else [depth]
    finish_run(
        study,
        task=task,
        encoder=encoder,
        method=method,
        seed=seed,
        exits={exit: dict.fromkeys(names, value(method, seed, exit)) for exit in exits},
        degenerate=(task, method) in (("rte", "jt"), ("rte", "static")) and seed == 2,
        degenerate_exits={"jt": (3, 4, 6), "acl_cl": (4,)}.get(method, ()) if task == "rte" else (),
        train_seconds=SECONDS.get(method, 5.0) + seed,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_task(folder, "mrpc", "MRPC", ["accuracy", "f1"], "f1", stand_in="generated rows")
    write_task(folder, "rte", "RTE", ["accuracy"], "accuracy", train_rows=1024)
    for cell in CELLS:
        for seed in SEEDS if cell != ("mrpc", "distil", "ce") else (1,):
            finish(folder, *cell, seed)
    return folder


@pytest.fixture(scope="module")
def results(study: Path) -> Results:
    return collect_results(study, layout_of(study))


@pytest.fixture(scope="module")
def layout(study: Path) -> Layout:
    return layout_of(study)


def layout_of(study: Path, extra: tuple[tuple[str, str, str], ...] = ()) -> Layout:
    cells = [*CELLS, *extra]
    return read_layout(study, TASKS, ENCODERS, METHODS, SEEDS, cells, ["jt", "acl_cl"], TEACHERS)


def printed(results: Results, layout: Layout, render: Callable[[str, list[Grid]], str]) -> str:
    table = multi_exit_table(results.exits, layout)
    grids = multi_exit_grids(table, layout, results.exits, results.timings)
    return render("Exits: a_b", grids)


@pytest.mark.parametrize(
    ("depth", "exits"),
    [(12, [3, 6, 9, 12]), (6, [2, 3, 5, 6]), (24, [6, 12, 18, 24]), (5, [2, 3, 4, 5]), (2, [1, 2])],
)
def test_quarters_are_rounded_up(depth: int, exits: list[int]) -> None:
    assert quarter_exits(depth) == exits


def test_layer_scores_have_every_exit_of_every_run(results: Results, layout: Layout) -> None:
    table = layer_scores(results.exits, layout)
    assert ",".join(table.columns) == "task,encoder,method,exit,metric,n,mean,sd"
    rte = table[table["task"] == "rte"].drop(columns="task")
    assert rte[["encoder", "method", "exit"]].agg(tuple, axis=1).tolist() == [
        ("base", "ce", 12),
        ("base", "static", 6),
        ("base", "short", 5),
        ("base", "long", 7),
        *(("base", "jt", exit) for exit in range(1, 13)),
        *(("base", "acl_cl", exit) for exit in range(1, 13)),
        ("distil", "ce", 6),
    ]
    mrpc = table[(table["task"] == "mrpc") & (table["method"] == "jt")]
    assert mrpc["metric"].tolist() == ["accuracy"] * 12 + ["f1"] * 12
    third = rte[(rte["method"] == "jt") & (rte["exit"] == 3)].iloc[0]
    percent = [100 * value("jt", seed, 3) for seed in SEEDS]
    assert third["n"] == 2
    assert (third["mean"], third["sd"]) == pytest.approx(
        (statistics.mean(percent), statistics.stdev(percent))
    )
    one_run = table[(table["task"] == "mrpc") & (table["encoder"] == "distil")]
    assert one_run["n"].tolist() == [1, 1] and one_run["sd"].isna().all()


def test_the_table_has_quarters_half_depth_students_and_static_models(
    results: Results, layout: Layout
) -> None:
    table = multi_exit_table(results.exits, layout)
    assert ",".join(table.columns) == "kind,task,encoder,method,exit,depth,metric,n,mean,sd"
    keys = table.loc[table["task"] == "rte", ["kind", "encoder", "method", "exit", "depth"]]
    assert keys.agg(tuple, axis=1).tolist() == [
        *(("quarter", "base", "jt", exit, 12) for exit in (3, 6, 9, 12)),
        *(("quarter", "base", "acl_cl", exit, 12) for exit in (3, 6, 9, 12)),
        ("half_depth", "base", "jt", 6, 12),
        ("half_depth", "base", "acl_cl", 6, 12),
        ("student", "base", "short", 5, 5),
        ("student", "base", "long", 7, 7),
        ("static", "base", "static", 6, 6),  # but not base's whole ce
        ("static", "distil", "ce", 6, 6),
    ]
    half = table[(table["kind"] == "half_depth") & (table["method"] == "acl_cl")].iloc[0]
    assert half["mean"] == pytest.approx(
        statistics.mean(100 * value("acl_cl", seed, 6) for seed in SEEDS)
    )


def test_a_cell_without_runs_is_missing_at_the_exits_of_its_encoder(
    study: Path, results: Results
) -> None:
    layout = layout_of(
        study,
        extra=(("mrpc", "base", "acl_cl"), ("rte", "distil", "jt"), ("rte", "distil", "short")),
    )
    table = multi_exit_table(results.exits, layout)
    absent = table[(table["task"] == "mrpc") & (table["method"] == "acl_cl")]
    assert absent["exit"].tolist() == [3, 6, 9, 12] * 2 + [6, 6]
    assert absent["n"].eq(0).all() and absent["mean"].isna().all()
    distil = table[(table["encoder"] == "distil") & (table["method"] == "jt")]
    assert distil["exit"].tolist() == [2, 3, 5, 6, 3]
    # Where a student would end is not known.
    assert table[(table["encoder"] == "distil") & (table["method"] == "short")].empty


def test_markdown_has_a_section_an_encoder_and_task(results: Results, layout: Layout) -> None:
    parts = printed(results, layout, markdown).split("## ")[1:]
    found = {part.splitlines()[0]: part.splitlines()[1:] for part in parts}
    assert list(found) == [
        "MRPC: base (google-bert/bert-base-uncased), 12 layers",
        "RTE: base (google-bert/bert-base-uncased), 12 layers",
        "Half depth",
    ]
    mrpc, rte, half = found.values()
    assert mrpc[1:6] == [
        "| method | exit 3 | exit 6 | exit 9 | exit 12 |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| *acc* |  |  |  |  |",
        "| JT | 19.3 ± 0.3 | 38.1 ± 0.3 | 56.8 ± 0.3 | 75.6 ± 0.3 |",
        "| *F1* |  |  |  |  |",
    ]
    assert rte[3] == "| *acc* |  |  |  |  |"
    assert rte[4] == "| JT | 19.3 ± 0.3† | 38.1 ± 0.3† | 56.8 ± 0.3 | 75.6 ± 0.3† |"
    best = "| ACL-CL | **20.3 ± 0.3** | **39.1 ± 0.3** | **57.8 ± 0.3** | **76.6 ± 0.3** |"
    assert best in rte
    assert half[1:11] == [
        "| method | MRPC acc | MRPC F1 | RTE acc |",
        "| --- | ---: | ---: | ---: |",
        "| *base* |  |  |  |",
        "| JT, exit 6 of 12 | 38.1 ± 0.3 | 38.1 ± 0.3 | 38.1 ± 0.3† |",
        "| ACL-CL, exit 6 of 12 | – | – | **39.1 ± 0.3** |",
        "| Short, 5 layers | – | – | 31.8 ± 0.3 |",
        "| *Static* |  |  |  |",
        "| base, CE, 6 layers | **38.1 ± 0.3** | **38.1 ± 0.3** | **38.1 ± 0.3†** |",
        "| distil, CE | 37.9 (n=1) | 37.9 (n=1) | **38.1 ± 0.3** |",
        "",
    ]
    assert "- MRPC: generated rows." in half
    assert "- RTE: subset, 1,024 of 2,490 training rows." in half
    flagged = [line for line in half if "degenerate" in line]
    assert [line.split(" degenerate")[0] for line in flagged] == [
        "- † RTE, base, JT: 2 of 2 runs at exit 3, 2 of 2 runs at exit 6, 1 of 2 runs at exit 12",
        "- † RTE, base, JT: 2 of 2 runs at exit 6",
        "- † RTE, base, CE, 6 layers: 1 of 2 runs at exit 6",
    ]
    assert any(line.startswith("- Static: ") for line in half)


def test_training_times_have_the_teachers_in_them(results: Results, layout: Layout) -> None:
    mrpc, rte, half = printed(results, layout, latex).split(r"\begin{table}")[1:]
    said = "seconds of training, mean over runs, with those of its teachers: "
    assert f"MRPC, base, {said}JT 201.5." in mrpc
    assert f"RTE, base, {said}JT 201.5; ACL-CL 403.0 (of which CE 101.5)." in rte
    assert said not in half
    # Without its teacher's runs, a method's time is not known.
    some = results.timings[results.timings["method"] != "ce"]
    table = multi_exit_table(results.exits, layout)
    notes = multi_exit_grids(table, layout, results.exits, some)[1].notes
    assert f"RTE, base, {said}JT 201.5." in notes


def test_the_half_depth_grid_explains_the_rows_it_has(results: Results, layout: Layout) -> None:
    for kinds, explained in (
        (("multi_exit", "plain"), ["Static"]),
        (("multi_exit", "student"), ["So many layers"]),
        (("multi_exit",), []),
    ):
        part = layout.part(*kinds)
        table = multi_exit_table(results.exits, part)
        *_, half = multi_exit_grids(table, part, results.exits, results.timings)
        found = [note for note in half.notes if note.startswith(("Static", "So many layers"))]
        assert len(found) == len(explained)
        assert all(note.startswith(start) for note, start in zip(found, explained, strict=True))


def test_a_students_depth_is_said_once(results: Results, layout: Layout) -> None:
    titled = replace(layout, methods={**METHODS, "short": "Short, 5 layers"})
    assert "| Short, 5 layers | – |" in printed(results, titled, markdown)


def test_latex_has_a_table_a_section_with_its_own_notes(results: Results, layout: Layout) -> None:
    mrpc, rte, half = printed(results, layout, latex).split(r"\begin{table}")[1:]
    assert r"\caption{Exits: a\_b. MRPC: base (google-bert/bert-base-uncased), 12 layers.}" in mrpc
    assert "generated rows" in mrpc and "generated rows" not in rte
    assert "subset" in rte and "subset" in half
    assert r"\multicolumn{5}{l}{\emph{F1}} \\" in mrpc
    assert all(part.isascii() and part.count("{") == part.count("}") for part in (mrpc, rte, half))


def test_the_fine_tuning_table_has_single_exit_methods_alone(
    study: Path, results: Results, layout: Layout
) -> None:
    paths = write_tables(study_tables(results, layout, {}), results, layout, study / "tables")
    assert [path.name for path in paths] == [
        "layer_scores.csv",
        *(
            f"{name}.{ending}"
            for name in ("finetuning", "multi_exit", "quality_speed", "claims")
            for ending in ("csv", "md", "tex")
        ),
    ]
    finetuning = pd.read_csv(study / "tables" / "finetuning.csv")
    assert set(finetuning["method"]) == {"ce", "static"}
    text = (study / "tables" / "finetuning.md").read_text()
    assert "JT" not in text and "Short" not in text
    assert "CE, 6 layers" not in text.split("## distil")[1].split("\n\n")[1]
    table = pd.read_csv(study / "tables" / "multi_exit.csv")
    pd.testing.assert_frame_equal(table, multi_exit_table(results.exits, layout), check_dtype=False)
    assert math.isnan(table.loc[table["n"] == 1, "sd"].iloc[0])


def test_a_study_of_multi_exit_methods_alone_has_no_fine_tuning_table(
    tmp_path: Path, results: Results, layout: Layout
) -> None:
    multi = layout.part("multi_exit")
    paths = write_tables(study_tables(results, multi, {}), results, multi, tmp_path)
    assert not [path.name for path in paths if path.name.startswith("finetuning")]


def test_students_alone_have_a_table_of_exits_and_no_early_exiting(
    tmp_path: Path, results: Results, layout: Layout
) -> None:
    students = layout.part("student")
    tables = write_tables(study_tables(results, students, {}), results, students, tmp_path)
    assert {path.stem for path in tables} == {"layer_scores", "multi_exit", "claims"}
    assert "| Short, 5 layers | 31.8 ± 0.3 |" in (tmp_path / "multi_exit.md").read_text()
    figures = write_figures(results, students, tmp_path)
    assert {path.stem for path in figures} == {"layer_scores"}
