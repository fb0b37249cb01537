"""The fine-tuning table: statistics, published numbers, marks, and its three spellings."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest
from run_folders import collect_results, finish_run, read_layout, write_task

from acl_bert.errors import InputError
from acl_bert.study.finetuning import finetuning_grids, finetuning_table, published
from acl_bert.study.grids import Grid, latex, markdown
from acl_bert.study.layout import Layout
from acl_bert.study.results import read_results
from acl_bert.study.tables import study_tables, write_tables

ENCODERS = {"small": "package:some_package", "base": "google-bert/bert-base-uncased"}
METHODS = {"ce": "CE", "acl": "ACL"}
SEEDS = (1, 2, 3)
VALUES = {("rte", "base", "acl"): (0.60, 0.65, 0.67), ("rte", "base", "ce"): (0.61, 0.62, 0.66)}


def table_of(study: Path) -> pd.DataFrame:
    layout = layout_of(study)
    return finetuning_table(collect_results(study, layout).runs, layout, published())


def printed(study: Path, layout: Layout, render: Callable[[str, list[Grid]], str]) -> str:
    """The fine-tuning table as Markdown or LaTeX."""
    runs = collect_results(study, layout).runs
    grids = finetuning_grids(finetuning_table(runs, layout, published()), layout, runs)
    return render(f"Fine-tuning: {layout.study}", grids)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study_1"
    write_task(folder, "rte", "RTE", ["accuracy"], "accuracy", train_rows=1024)
    write_task(
        folder,
        "mnli",
        "MNLI",
        ["accuracy"],
        "accuracy",
        dev_sets={"dev": "", "dev_mm": "_mm"},
        stand_in="generated stand-in data",
    )
    for (task, encoder, method), values in VALUES.items():
        for seed, value in zip(SEEDS, values, strict=True):
            finish_run(
                folder,
                task=task,
                encoder=encoder,
                method=method,
                seed=seed,
                values={"accuracy": value},
                degenerate=(method, seed) == ("ce", 3),
            )
    finish_run(
        folder,
        task="mnli",
        encoder="small",
        method="acl",
        values={"accuracy": 0.5, "accuracy_mm": 0.25},
    )
    return folder


TASKS = {"rte": "RTE", "mnli": "MNLI"}
CELLS = list(itertools.product(TASKS, ENCODERS, METHODS))


def layout_of(study: Path, cells: Iterable[tuple[str, str, str]] = CELLS) -> Layout:
    return read_layout(study, TASKS, ENCODERS, METHODS, SEEDS, cells, [], {})


def cell(table: pd.DataFrame, *key: str) -> pd.Series:
    found = table.set_index(["task", "encoder", "method", "metric"]).loc[[key]]
    assert len(found) == 1
    return found.iloc[0]


def test_columns_and_order_are_those_of_the_study(study: Path) -> None:
    table = table_of(study)
    assert ",".join(table.columns) == (
        "task,encoder,method,metric,n,mean,sd,median,min,max,paper,reference,reference_source"
    )
    assert table[["task", "encoder", "method", "metric"]].agg(" ".join, axis=1).tolist() == [
        "rte small ce accuracy",
        "rte small acl accuracy",
        "rte base ce accuracy",
        "rte base acl accuracy",
        "mnli small ce accuracy",
        "mnli small ce accuracy_mm",
        "mnli small acl accuracy",
        "mnli small acl accuracy_mm",
        "mnli base ce accuracy",
        "mnli base ce accuracy_mm",
        "mnli base acl accuracy",
        "mnli base acl accuracy_mm",
    ]


def test_statistics_over_seeds_in_percent(study: Path) -> None:
    table = table_of(study)
    acl = cell(table, "rte", "base", "acl", "accuracy")
    percent = [60.0, 65.0, 67.0]
    assert acl["n"] == 3
    assert acl["mean"] == pytest.approx(statistics.mean(percent))
    assert acl["sd"] == pytest.approx(statistics.stdev(percent))
    assert (acl["median"], acl["min"], acl["max"]) == pytest.approx((65.0, 60.0, 67.0))


def test_one_run_has_no_sd_and_no_run_has_nothing(study: Path) -> None:
    table = table_of(study)
    single = cell(table, "mnli", "small", "acl", "accuracy_mm")
    assert (single["n"], single["mean"]) == (1, 25.0)
    assert math.isnan(single["sd"])
    absent = cell(table, "mnli", "base", "acl", "accuracy")
    assert absent["n"] == 0
    assert absent[["mean", "sd", "median", "min", "max"]].isna().all()


def test_published_numbers_stand_where_they_were_published(study: Path) -> None:
    table = table_of(study)
    ce = cell(table, "rte", "base", "ce", "accuracy")
    assert (ce["paper"], ce["reference"]) == (65.3, 69.3)
    assert ce["reference_source"].startswith("transformers, distillation README")
    acl = cell(table, "rte", "base", "acl", "accuracy")
    assert acl["paper"] == 66.2
    assert math.isnan(acl["reference"])
    assert cell(table, "mnli", "base", "ce", "accuracy")["reference"] == 84.7
    assert table.loc[table["encoder"] == "small", ["paper", "reference"]].isna().all(axis=None)


def test_the_paper_has_three_known_cells_and_references_are_percent() -> None:
    numbers = published().set_index(["method", "task", "metric"])
    assert numbers["paper"].dropna().to_dict() == {
        ("ce", "rte", "accuracy"): 65.3,
        ("ce_scl", "rte", "accuracy"): 65.8,
        ("acl", "rte", "accuracy"): 66.2,
    }
    roberta = numbers.loc[numbers["path"] == "FacebookAI/roberta-base", "reference"].dropna()
    assert len(roberta) == 7
    assert roberta["ce", "cola", "matthews"] == 63.6
    assert numbers["reference"].dropna().between(10, 100).all()


def test_the_csv_is_the_table(study: Path) -> None:
    layout = layout_of(study)
    results = collect_results(study, layout)
    paths = write_tables(study_tables(results, layout, {}), results, layout, study / "tables")
    assert [path.name for path in paths] == [
        "layer_scores.csv",
        "finetuning.csv",
        "finetuning.md",
        "finetuning.tex",
        "claims.csv",
        "claims.md",
        "claims.tex",
    ]
    pd.testing.assert_frame_equal(pd.read_csv(paths[1]), table_of(study), check_dtype=False)
    rows = paths[1].read_text().splitlines()
    assert "mnli,small,acl,accuracy_mm,1,25,,25,25,25,,," in rows
    assert "mnli,base,acl,accuracy,0,,,,,,,," in rows


def test_markdown_shows_best_missing_and_marks(study: Path) -> None:
    text = printed(study, layout_of(study), markdown)
    lines = text.splitlines()
    base = lines[lines.index("## base (google-bert/bert-base-uncased)") :]
    assert "| method | RTE acc | MNLI acc | MNLI acc (mm) |" in base
    assert "| CE | 63.0 ± 2.6† | – | – |" in base
    assert "| ACL | **64.0 ± 3.6** | – | – |" in base
    after = base[base.index("| *Published numbers* |  |  |  |") :]
    assert "| CE, published | 69.3 | 84.7 | – |" in after
    assert "| ACL | – | 50.0 (n=1) | 25.0 (n=1) |" in lines  # alone in its column: no best
    assert "- RTE: subset, 1,024 of 2,490 training rows." in lines
    assert "- MNLI: generated stand-in data." in lines
    assert any(line.startswith("- † RTE, base, CE: 1 of 3 runs degenerate") for line in lines)


def test_equal_means_share_the_bold(study: Path) -> None:
    for seed, value in zip(SEEDS, VALUES["rte", "base", "acl"], strict=True):
        finish_run(study, encoder="base", method="ce", seed=seed, values={"accuracy": value})
    text = printed(study, layout_of(study), markdown)
    assert text.count("**64.0 ± 3.6**") == 2


def test_latex_is_escaped_and_balanced(study: Path) -> None:
    text = printed(study, layout_of(study), latex)
    assert r"ACL & \textbf{64.0 $\pm$ 3.6} & -- & -- \\" in text
    assert r"CE & 63.0 $\pm$ 2.6\textsuperscript{\textdagger} & -- & -- \\" in text
    assert r"\multicolumn{4}{l}{\emph{Published numbers}} \\" in text
    assert r"study\_1" in text and r"package:some\_package" in text
    assert r"RTE: subset, 1,024 of 2,490 training rows." in text
    assert text.isascii()
    assert text.count("{") == text.count("}")
    for name in ("toprule", "midrule", "bottomrule", "begin{tabular}", "end{tabular}"):
        assert text.count("\\" + name) >= 2


def test_cells_that_the_study_has_not_are_missing_and_rows_without_any_left_out(
    study: Path,
) -> None:
    layout = layout_of(study, [cell for cell in CELLS if cell[1:] != ("small", "ce")][:-1])
    table = finetuning_table(collect_results(study, layout).runs, layout, published())
    assert len(table) == 12 - 3 - 2  # metrics of ce with small, and of acl with base on MNLI
    text = printed(study, layout, markdown)
    small, base = text.split("## ")[1:]
    assert "| CE |" not in small and "| ACL |" in small
    assert "| ACL | **64.0 ± 3.6** | – | – |" in base


def test_a_run_that_is_not_of_the_study_is_named(study: Path) -> None:
    finish_run(study, encoder="base", method="jt")
    with pytest.raises(InputError, match="rte · base · jt · accuracy"):
        collect_results(study, layout_of(study))


def test_collected_files_of_other_columns_are_refused(study: Path) -> None:
    layout = layout_of(study)
    collect_results(study, layout)
    (study / "exits.csv").write_text("task,value\nrte,0.5\n")
    with pytest.raises(InputError, match=r"exits\.csv: columns are task, value"):
        read_results(study, layout)
    (study / "exits.csv").unlink()
    with pytest.raises(InputError, match=r"exits\.csv: no such file"):
        read_results(study, layout)


def test_an_unprepared_task_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rte/task\.json"):
        read_layout(tmp_path, {"rte": "RTE"}, ENCODERS, METHODS, SEEDS, [], [], {})


def test_whole_data_has_no_marks(tmp_path: Path) -> None:
    write_task(tmp_path, "rte", "RTE", ["accuracy"], "accuracy")
    assert read_layout(tmp_path, {"rte": "RTE"}, ENCODERS, METHODS, SEEDS, [], [], {}).notes() == []
