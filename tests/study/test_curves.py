"""early_exit.csv, and the table of scores at a speed-up that is made of it."""

import math
from pathlib import Path

import pandas as pd
import pytest
from run_folders import collect_results, finish_run, invented_logits, read_layout, write_task

from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import sweep
from acl_bert.runs.files import LOGITS, RunFolder
from acl_bert.study.collect import EXITS_COLUMNS
from acl_bert.study.curves import CURVES, CURVES_COLUMNS, write_curves
from acl_bert.study.grids import markdown
from acl_bert.study.layout import Layout
from acl_bert.study.quality_speed import quality_speed_grids, quality_speed_table

SEEDS = (1, 2, 10)
METHODS = {"ce": "CE", "jt": "JT", "acl_cl": "ACL-CL"}
DEV_SETS = {"dev": "", "dev_mm": "_mm"}
ROWS = {"dev": 8, "dev_mm": 6}


def layout_of(study: Path, dev_sets: dict[str, str] | None = None) -> Layout:
    write_task(study, "rte", "RTE", ["accuracy", "f1"], "accuracy", dev_sets, "generated rows")
    cells = [("rte", "tiny", method) for method in METHODS]
    multi_exit = ["jt", "acl_cl"]
    return read_layout(study, {"rte": "RTE"}, {"tiny": "x"}, METHODS, SEEDS, cells, multi_exit, {})


def finish(study: Path, method: str, seed: int, depth: int = 3) -> Path:
    exits = range(1, depth + 1) if method != "ce" else [depth]
    return finish_run(
        study,
        method=method,
        seed=seed,
        exits={exit: {"accuracy": 0.5, "f1": 0.5} for exit in exits},
        logits={
            name: invented_logits(len(exits), rows) for name, rows in (("dev", 8), ("dev_mm", 6))
        },
    )


def test_every_multi_exit_run_is_swept_by_its_main_metric_on_each_dev_set(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, DEV_SETS)
    folders = [
        finish(tmp_path, method, seed) for method, seed in (("jt", 10), ("ce", 1), ("jt", 2))
    ]
    write_curves(map(RunFolder, folders), layout, tmp_path)
    curves = pd.read_csv(tmp_path / CURVES)
    assert ",".join(curves.columns) == (
        "task,encoder,method,seed,criterion,threshold,layers,speedup,metric,value,run_hash"
    )
    assert curves[["method", "seed"]].drop_duplicates().agg(tuple, axis=1).tolist() == [
        ("jt", 2),
        ("jt", 10),
    ]
    assert set(curves["criterion"]) == {"entropy", "max_probability", "patience", "fixed"}
    assert set(curves["metric"]) == {"accuracy", "accuracy_mm"}
    some = curves[(curves["seed"] == 2) & (curves["criterion"] == "entropy")]
    for name, suffix in DEV_SETS.items():
        dev = invented_logits(3, ROWS[name])
        expected = sweep("entropy", *dev, [1, 2, 3], ["accuracy"], suffix)
        found = some[some["metric"] == f"accuracy{suffix}"].iloc[:, 4:-1]
        assert [tuple(row) for row in found.itertuples(index=False)] == expected


def test_a_study_without_multi_exit_runs_has_no_curves(tmp_path: Path) -> None:
    write_curves(map(RunFolder, [finish(tmp_path, "ce", 1)]), layout_of(tmp_path), tmp_path)
    assert (tmp_path / CURVES).read_text() == ",".join(CURVES_COLUMNS) + "\n"


def test_a_run_without_its_logits_is_named(tmp_path: Path) -> None:
    folder = finish(tmp_path, "jt", 1)
    (folder / LOGITS).unlink()
    with pytest.raises(InputError, match=rf"{folder.name}/logits\.safetensors"):
        write_curves(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)


def invented(curves: dict[tuple[str, int], list[tuple[float, float]]]) -> pd.DataFrame:
    """Of (method, seed): speed-ups and scores under the entropy criterion."""
    rows = [
        ("rte", "tiny", method, seed, "entropy", 0.5, 3 / speedup, speedup, "accuracy", value, "h")
        for (method, seed), points in curves.items()
        for speedup, value in points
    ]
    return pd.DataFrame(rows, columns=pd.Index(CURVES_COLUMNS))


JT = {
    ("jt", 1): [(1.0, 0.9), (2.0, 0.7), (3.0, 0.5)],
    ("jt", 2): [(1.0, 0.8), (2.0, 0.6)],
    ("acl_cl", 1): [(1.0, 0.95), (3.0, 0.55)],
}


def table_of(layout: Layout) -> pd.DataFrame:
    exits = [
        ("rte", "tiny", method, seed, 3, 3, "accuracy", 0.5, False, "a") for method, seed in JT
    ]
    return quality_speed_table(invented(JT), pd.DataFrame(exits, columns=EXITS_COLUMNS), layout)


def test_scores_are_read_off_each_seeds_curve(tmp_path: Path) -> None:
    table = table_of(layout_of(tmp_path))
    assert ",".join(table.columns) == "task,encoder,method,criterion,metric,reading,n,mean,sd"
    assert len(table) == 2 * 4 * 4  # methods, criteria, readings; not the single-exit method
    jt = table[(table["method"] == "jt") & (table["criterion"] == "entropy")].set_index("reading")
    assert jt.loc["at_1.5", "mean"] == pytest.approx((80 + 70) / 2)
    assert jt.loc["at_1.5", "sd"] == pytest.approx(math.sqrt(50))
    assert jt.loc["at_2", "mean"] == pytest.approx((70 + 60) / 2)
    assert jt["n"].tolist() == [2, 2, 1, 2]  # one seed never gets to 3×
    assert jt.loc["at_3", "mean"] == pytest.approx(50) and math.isnan(jt.loc["at_3", "sd"])
    # Over the fraction of layers: 1/3 to 1/2 to 1, of which the second seed's holds its end.
    first = (60 * (1 / 6) + 80 * (1 / 2)) / (2 / 3)
    second = (60 * (1 / 6) + 70 * (1 / 2)) / (2 / 3)
    assert jt.loc["area", "mean"] == pytest.approx((first + second) / 2)
    absent = table[table["criterion"] == "patience"]
    assert absent["n"].eq(0).all() and absent["mean"].isna().all()


def test_markdown_says_how_many_seeds_get_there(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    lines = markdown("Early exit", quality_speed_grids(table_of(layout), layout)).splitlines()
    start = lines.index("## RTE: tiny (x), entropy")
    assert lines[start + 2 : start + 7] == [
        "| method | 1.5× | 2× | 3× | area |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| *acc* |  |  |  |  |",
        "| JT | 75.0 ± 7.1 (n=2) | 65.0 ± 7.1 (n=2) | 50.0 (n=1) | 71.2 ± 5.3 (n=2) |",
        "| ACL-CL | **85.0 (n=1)** | **75.0 (n=1)** | **55.0 (n=1)** | **75.0 (n=1)** |",
    ]
    assert "## RTE: tiny (x), max probability" in lines
    assert "- RTE: generated rows." in lines


def test_two_dev_sets_have_a_block_each(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, DEV_SETS)
    for seed in SEEDS:
        finish(tmp_path, "jt", seed)
    results = collect_results(tmp_path, layout)
    table = quality_speed_table(results.curves, results.exits, layout)
    for grid in quality_speed_grids(table, layout):
        assert [block.title for block in grid.blocks] == ["acc", "acc (mm)"]
    whole = table[(table["method"] == "jt") & (table["reading"] == "area")]
    assert whole["n"].eq(3).all() and whole["sd"].eq(0).all()
