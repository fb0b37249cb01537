"""What the parts of a method bring: the table, its grids, the figure."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_folders import read_layout, write_task
from scipy import stats

from acl_bert.study.analyses.ablation import (
    ablation_figure,
    ablation_grids,
    ablation_table,
    interval,
)
from acl_bert.study.collect import EXITS_COLUMNS
from acl_bert.study.grids import markdown
from acl_bert.study.layout import Layout

SEEDS = (1, 2, 3)
TASKS = {"mrpc": "MRPC", "rte": "RTE"}
METHODS = {
    "ce": "CE",
    "acl_embed": "ACL-Embed",
    "acl": "ACL",
    "acl_cl": "ACL-CL",
    "acl_cl_no_gate": "ACL-CL, no gate",
}
MULTI = ("acl_cl", "acl_cl_no_gate")
ABLATION = {"acl": ("ce", "acl_embed"), "acl_cl": ("acl_cl_no_gate",)}
# Full less other, of seeds 1, 2 and 3.
LESS = {"ce": (0.01, 0.02, 0.06), "acl_embed": (-0.02, 0.0, 0.02), "acl_cl_no_gate": (0.01,) * 3}
DEPTH = 12


def layout_of(study: Path) -> Layout:
    write_task(study, "mrpc", "MRPC", ["accuracy", "f1"], "f1")
    write_task(study, "rte", "RTE", ["accuracy"], "accuracy", stand_in="generated rows")
    cells = [("rte", "tiny", method) for method in METHODS]
    cells += [("mrpc", "tiny", method) for method in ("ce", "acl")]
    return read_layout(
        study, TASKS, {"tiny": "x"}, METHODS, SEEDS, cells, MULTI, {}, ablation=ABLATION
    )


def invented_exits(depth: int = DEPTH, without: tuple[tuple[str, int], ...] = ()) -> pd.DataFrame:
    """RTE alone; the full methods have seed / 100 + exit / 2 / depth."""
    rows = []
    for method in METHODS:
        for seed in SEEDS:
            for exit in range(1, depth + 1) if method in MULTI else [depth]:
                value = seed / 100 + exit / 2 / depth - LESS.get(method, (0,) * 3)[seed - 1]
                degenerate = (method, exit) == ("ce", depth) and seed == 1
                row = ("rte", "tiny", method, seed, exit, depth, "accuracy", value, degenerate, "h")
                if (method, seed) not in without:
                    rows.append(row)
    return pd.DataFrame(rows, columns=pd.Index(EXITS_COLUMNS))


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    table = ablation_table(invented_exits(without=(("ce", 2),)), layout_of(tmp_path))
    assert ",".join(table.columns) == (
        "task,encoder,full,method,exit,depth,metric,n,mean,sd,pairs,difference,low,high"
    )
    rte = table[table["task"] == "rte"]
    assert list(rte[["full", "method", "exit"]].itertuples(index=False, name=None)) == [
        ("acl", "acl", 12),
        ("acl", "ce", 12),
        ("acl", "acl_embed", 12),
        *(("acl_cl", method, exit) for method in MULTI for exit in (3, 6, 12)),
    ]
    by = rte.set_index(["method", "exit"])
    ce = by.loc[("ce", 12)]
    assert (ce["n"], ce["pairs"]) == (2, 2)
    assert ce["mean"] == pytest.approx((50 + 1 - 1 + 50 + 3 - 6) / 2)
    assert ce["difference"] == pytest.approx((1 + 6) / 2)
    embed = by.loc[("acl_embed", 12)]
    assert embed["difference"] == pytest.approx(0) and embed["pairs"] == 3
    expected = stats.t.interval(0.95, 2, 0, stats.sem([-2, 0, 2]))
    assert (embed["low"], embed["high"]) == pytest.approx(expected)
    gate = by.loc[("acl_cl_no_gate", 3)]
    assert (gate["difference"], gate["low"], gate["high"]) == pytest.approx((1, 1, 1))
    full = by.loc[("acl", 12)]
    assert full["pairs"] == 0 and full[["difference", "low", "high"]].isna().all()
    mrpc = table[table["task"] == "mrpc"]  # its depth is known from the other task
    assert mrpc["method"].tolist() == ["acl", "ce"] and mrpc["metric"].eq("f1").all()
    assert mrpc["n"].eq(0).all() and mrpc["difference"].isna().all()


def test_a_full_method_without_runs_is_as_deep_as_its_encoder(tmp_path: Path) -> None:
    exits = invented_exits(without=tuple(("acl", seed) for seed in SEEDS))
    table = ablation_table(exits, layout_of(tmp_path)).set_index(["task", "full", "method"])
    assert table.loc[("rte", "acl", "acl"), ["exit", "n"]].tolist() == [12, 0]
    assert table.loc[("rte", "acl", "ce"), ["n", "pairs"]].tolist() == [3, 0]


@pytest.mark.parametrize(("depth", "exits"), [(6, [2, 3, 6]), (2, [1, 2]), (1, [1])])
def test_exits_are_at_quarters_of_the_depth(tmp_path: Path, depth: int, exits: list[int]) -> None:
    layout = layout_of(tmp_path)
    table = ablation_table(invented_exits(depth), layout)
    assert table.loc[table["method"] == "acl_cl", "exit"].tolist() == exits
    assert len(ablation_figure(table, layout).axes[2].collections) == len(exits)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], (math.nan, math.nan)),
        ([1.0], (math.nan, math.nan)),
        ([2.0, 2.0], (2.0, 2.0)),
        ([1.0, 3.0], (2 - 12.7062, 2 + 12.7062)),  # t at 97.5 % of 1 degree of freedom
    ],
)
def test_the_interval_of_a_mean(differences: list[float], expected: tuple[float, float]) -> None:
    assert interval(np.array(differences)) == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_the_grid_has_scores_and_differences(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    exits = invented_exits(without=(("acl_embed", 3),))
    grids = ablation_grids(ablation_table(exits, layout), layout, exits)
    assert [grid.heading for grid in grids] == [
        "ACL: tiny (x), exit 12 of 12",
        *(f"ACL-CL: tiny (x), exit {exit} of 12" for exit in (3, 6, 12)),
    ]
    lines = markdown("Ablation", grids).splitlines()
    start = lines.index("## ACL: tiny (x), exit 12 of 12")
    assert lines[start + 2 : start + 10] == [
        "| method | MRPC | RTE |",
        "| --- | ---: | ---: |",
        "| ACL | – | 52.0 ± 1.0 |",
        "| CE | – | 49.0 ± 1.7† |",
        "| ACL-Embed | – | **52.5 ± 0.7 (n=2)** |",
        "| *ACL less …* |  |  |",
        "| CE | – | 3.0 ± 6.6 |",
        "| ACL-Embed | – | -1.0 ± 12.7 (n=2) |",
    ]
    assert "- RTE: generated rows." in lines
    (degenerate,) = [line for line in lines if line.startswith("- †")]
    assert degenerate.startswith("- † RTE, tiny, CE: 1 of 3 runs at exit 12 degenerate")


def test_a_dot_is_a_difference_and_its_bar_the_interval(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    table = ablation_table(invented_exits(), layout)
    figure = ablation_figure(table, layout)
    assert "generated rows" in figure.get_suptitle()
    mrpc, rte, exits, hidden = figure.axes
    assert [panel.get_title() for panel in (mrpc, rte, exits)] == [
        "MRPC · tiny",
        "RTE · tiny",
        "RTE · tiny",
    ]
    assert not hidden.get_visible()
    assert [text.get_text() for text in mrpc.texts] == ["no finished run"]
    assert mrpc.get_ylabel() == "ACL less" and exits.get_ylabel() == "ACL-CL less"
    assert [label.get_text() for label in mrpc.get_yticklabels()] == ["CE", "ACL-Embed"]
    dots, zero = rte.lines
    assert list(dots.get_xdata()) == pytest.approx([3, 0]) and list(dots.get_ydata()) == [0, 1]
    assert list(zero.get_xdata()) == [0, 0]
    bars = [np.asarray(path.vertices) for path in rte.collections[0].get_paths()]
    embed = table[(table["method"] == "acl_embed")].iloc[0]
    assert bars[1] == pytest.approx(np.array([[embed["low"], 1], [embed["high"], 1]]))
    lanes = [list(line.get_ydata()) for line in exits.lines[:-1]]
    assert lanes == [[-0.25], [0.0], [0.25]]  # exits 3, 6 and 12
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "first quarter's exit",
        "middle exit",
        "last exit",
    ]


def test_one_seed_has_no_interval_and_no_run_no_numbers(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    one = invented_exits(without=tuple((method, seed) for method in METHODS for seed in (2, 3)))
    table = ablation_table(one, layout)
    ce = table[(table["method"] == "ce") & (table["task"] == "rte")].iloc[0]
    assert ce["pairs"] == 1 and ce["difference"] == pytest.approx(1) and math.isnan(ce["low"])
    assert "| CE | – | 1.0 (n=1) |" in markdown("", ablation_grids(table, layout, one))
    dots = ablation_figure(table, layout).axes[1].lines[0]
    assert list(dots.get_xdata()) == pytest.approx([1, -2])
    none = pd.DataFrame(columns=pd.Index(EXITS_COLUMNS))
    empty = ablation_table(none, layout)
    assert empty.empty and not ablation_grids(empty, layout, none)
    panels = ablation_figure(empty, layout).axes[:3]
    assert [text.get_text() for panel in panels for text in panel.texts] == ["no finished run"] * 3
