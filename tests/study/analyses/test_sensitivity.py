"""Scores over λ and τ: the table, the spread, the figure."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_folders import read_layout, write_task

from acl_bert.study.analyses.sensitivity import (
    sensitivity_figure,
    sensitivity_grids,
    sensitivity_spread,
    sensitivity_table,
)
from acl_bert.study.collect import RUNS_COLUMNS
from acl_bert.study.grids import markdown
from acl_bert.study.layout import Layout, Point

GRID = {"lambda": (0.1, 0.5, 0.9), "temperature": (0.1, 0.3)}
OWN = {"ce_scl": "convex", "acl": "additive"}
TITLES = {"ce_scl": "CE+SCL", "acl": "ACL"}
TASKS = {"mrpc": "MRPC", "rte": "RTE"}


def points() -> list[dict[str, Any]]:
    return [
        {
            "of": of,
            "combination": form,
            "key": key,
            "value": value,
            "method": of
            if form == OWN[of] and (key, value) in (("lambda", 0.5), ("temperature", 0.3))
            else f"{of}@{form},{key}={value:g}",
        }
        for of, form, key in itertools.product(TITLES, ("convex", "additive"), GRID)
        for value in GRID[key]
    ]


def layout_of(study: Path, seeds: tuple[int, ...] = (1, 2)) -> Layout:
    write_task(study, "mrpc", "MRPC", ["accuracy", "f1"], "f1")
    write_task(study, "rte", "RTE", ["accuracy"], "accuracy", stand_in="generated rows")
    methods = {point["method"]: point["method"] for point in points()} | TITLES
    variants = [name for name in methods if "@" in name]
    cells = {("rte", "tiny", method) for method in methods}
    # On the other task λ alone, of one method under one form.
    cells |= {("mrpc", "tiny", m) for m in methods if m.startswith("acl@convex,lambda")}
    places = {("rte", "tiny"), ("mrpc", "tiny")}
    return read_layout(
        *(study, TASKS, {"tiny": "x"}, methods, seeds, cells, [], {}),
        variants=frozenset(variants),
        sensitivity=tuple(Point(**point) for point in points()),
        sensitivity_places=frozenset(places),
    )


def score(of: str, form: str, key: str, value: float, seed: int) -> float:
    slope = {"ce_scl": 0.2, "acl": 0.05}[of] * (1 if form == OWN[of] else 2)
    default = {"lambda": 0.5, "temperature": 0.3}[key]
    return 0.7 + slope * (value - default) + seed / 100


def invented_runs(seeds: tuple[int, ...] = (1, 2), without: str = "nothing") -> pd.DataFrame:
    scores = {
        (point["method"], seed): score(*list(point.values())[:4], seed)
        for point in points()
        for seed in seeds
        if without not in point["method"]
    }
    rows = [
        ("rte", "tiny", method, seed, "accuracy", value, 0.5, 1, method.startswith("ce_scl@c"), "h")
        for (method, seed), value in scores.items()
    ]
    return pd.DataFrame(rows, columns=pd.Index(RUNS_COLUMNS))


def test_each_value_has_the_runs_that_stand_for_it(tmp_path: Path) -> None:
    table = sensitivity_table(invented_runs(), layout_of(tmp_path))
    assert ",".join(table.columns) == (
        "task,encoder,of,combination,key,value,method,metric,n,mean,sd"
    )
    assert len(table) == 3 + 2 * 2 * 5  # the other task's points, and all
    line = table[
        (table["of"] == "ce_scl") & (table["combination"] == "convex") & (table["key"] == "lambda")
    ]
    assert line["value"].tolist() == [0.1, 0.5, 0.9]
    assert line["method"].tolist()[1] == "ce_scl"
    assert line["mean"].tolist() == pytest.approx([63.5, 71.5, 79.5])
    assert line["sd"].tolist() == pytest.approx([math.sqrt(0.5)] * 3)
    other = table[table["task"] == "mrpc"]
    assert other["metric"].eq("f1").all() and other["n"].eq(0).all() and other["mean"].isna().all()


def test_a_task_of_another_analysis_has_no_rows(tmp_path: Path) -> None:
    """Though the audit may run some of the same variants there."""
    layout = replace(layout_of(tmp_path), sensitivity_places=frozenset({("rte", "tiny")}))
    assert set(sensitivity_table(invented_runs(), layout)["task"]) == {"rte"}


def test_the_spread_is_over_the_means_of_the_values(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    spread = sensitivity_spread(sensitivity_table(invented_runs(without="lambda=0.9"), layout))
    assert ",".join(spread.columns) == "task,encoder,of,combination,key,values,range,sd"
    found = spread.set_index(["task", "of", "combination", "key"])
    own = found.loc[("rte", "ce_scl", "convex", "lambda")]
    assert (own["values"], own["range"]) == (2, pytest.approx(8.0))
    assert own["sd"] == pytest.approx(8 / math.sqrt(2))
    none = found.loc[("mrpc", "acl", "convex", "lambda")]
    assert none["values"] == 0 and math.isnan(none["range"]) and math.isnan(none["sd"])
    single = sensitivity_spread(
        sensitivity_table(invented_runs(without="temperature=0.1"), layout)
    ).set_index(["task", "of", "combination", "key"])
    one = single.loc[("rte", "acl", "additive", "temperature")]
    assert one["values"] == 1 and math.isnan(one["range"]) and math.isnan(one["sd"])


def test_the_grid_shows_values_and_spread(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    runs = invented_runs(without="acl@convex,lambda=0.9")
    grids = sensitivity_grids(sensitivity_table(runs, layout), layout, runs)
    assert [grid.heading for grid in grids] == ["tiny (x), λ", "tiny (x), τ"]
    lines = markdown("Sensitivity", grids).splitlines()
    start = lines.index("## tiny (x), λ")
    assert lines[start + 2 : start + 10] == [
        "| method | λ = 0.1 | λ = 0.5 | λ = 0.9 | range | sd of the means |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| *MRPC* |  |  |  |  |  |",
        "| ACL, convex | – | – | – | – | – |",
        "| *RTE* |  |  |  |  |  |",
        "| CE+SCL, convex | 63.5 ± 0.7† | 71.5 ± 0.7 | 79.5 ± 0.7† | 16.0 | 8.0 |",
        "| CE+SCL, additive | 55.5 ± 0.7 | 71.5 ± 0.7 | 87.5 ± 0.7 | 32.0 | 16.0 |",
        "| ACL, convex | 67.5 ± 0.7 | 71.5 ± 0.7 | – | 4.0 (n=2) | 2.8 (n=2) |",
    ]
    assert "- RTE: generated rows." in lines
    assert any(line.startswith("- † RTE, tiny, ce_scl@convex,lambda=0.1: 2 of") for line in lines)


def test_own_forms_are_solid_and_bands_are_sd(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    figure = sensitivity_figure(sensitivity_table(invented_runs(), layout), layout)
    titles = [panel.get_title().splitlines()[0] for panel in figure.axes]
    assert titles == ["MRPC · tiny", "MRPC · tiny", "RTE · tiny", "RTE · tiny"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["no finished run"]
    over_lambda, over_tau = figure.axes[2:]
    assert [panel.get_xlabel() for panel in (over_lambda, over_tau)] == ["λ", "τ"]
    assert [panel.get_xscale() for panel in (over_lambda, over_tau)] == ["linear", "log"]
    assert over_lambda.get_ylim() == over_tau.get_ylim()
    assert [line.get_linestyle() for line in over_lambda.lines] == ["-", "--", "--", "-"]
    colours = [line.get_color() for line in over_lambda.lines]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert list(over_lambda.lines[0].get_ydata()) == pytest.approx([63.5, 71.5, 79.5])
    band = np.asarray(over_lambda.collections[0].get_paths()[0].vertices)
    first = band[np.isclose(band[:, 0], 0.1)][:, 1]
    assert (first.min(), first.max()) == pytest.approx((63.5 - 0.5**0.5, 63.5 + 0.5**0.5))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "CE+SCL, convex",
        "CE+SCL, additive",
        "ACL, convex",
        "ACL, additive",
    ]
    assert "± sd" in legend.get_title().get_text()


def test_one_seed_and_none_are_drawn(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, (1,))
    figure = sensitivity_figure(sensitivity_table(invented_runs((1,)), layout), layout)
    assert len(figure.axes[2].lines) == 4
    assert "sd" not in figure.legends[0].get_title().get_text()
    runs = pd.DataFrame(columns=pd.Index(RUNS_COLUMNS))
    table = sensitivity_table(runs, layout)
    assert table["n"].eq(0).all()
    assert not sensitivity_figure(table, layout).axes[2].lines
    assert "| ACL, additive | – | – | – | – | – |" in markdown(
        "", sensitivity_grids(table, layout, runs)
    )
