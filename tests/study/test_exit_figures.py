"""The figures of multi-exit methods: scores by exit, scores by speed-up."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from run_folders import read_layout, write_task

from acl_bert.study.collect import EXITS_COLUMNS, RUNS_COLUMNS, TIMINGS_COLUMNS
from acl_bert.study.curves import CURVES_COLUMNS
from acl_bert.study.exit_figures import layer_scores_figure, quality_speed_figure
from acl_bert.study.figures import write_figures
from acl_bert.study.layout import Layout
from acl_bert.study.results import Results

STAND_IN = "generated stand-in data"
TASKS = {"mrpc": "MRPC", "rte": "RTE"}
METHODS = {f"jt_{number}": f"JT {number}" for number in range(16)}


def layout_of(study: Path, seeds: tuple[int, ...] = (1, 2), methods: int = 2) -> Layout:
    write_task(study, "mrpc", "MRPC", ["accuracy", "f1"], "f1", stand_in=STAND_IN)
    write_task(study, "rte", "RTE", ["accuracy"], "accuracy", train_rows=100, stand_in=STAND_IN)
    encoders = {"base": "x", "small": "y"}
    some = dict(list(METHODS.items())[:methods])
    cells = set(itertools.product(TASKS, encoders, some)) - {("mrpc", "small", "jt_1")}
    return read_layout(study, TASKS, encoders, some, seeds, cells, some, {})


def invented_exits(seeds: tuple[int, ...] = (1, 2)) -> pd.DataFrame:
    """With base on RTE: exit / 4 + seed / 100, of 3 layers; on MRPC only f1 is the main metric."""
    rows = [
        ("rte", "base", "jt_0", seed, exit, 3, "accuracy", exit / 4 + seed / 100, False, "a")
        for seed in seeds
        for exit in (1, 2, 3)
    ]
    rows += [
        ("mrpc", "base", "jt_0", 1, 3, 3, name, 0.5, False, "a") for name in ("accuracy", "f1")
    ]
    return pd.DataFrame(rows, columns=pd.Index(EXITS_COLUMNS))


def invented_curves() -> pd.DataFrame:
    """With base on RTE, of 8 layers."""
    run = ("rte", "base", "jt_0")
    entropy = {1: [(1.0, 0.9), (2.0, 0.7), (3.0, 0.5)], 2: [(1.0, 0.8), (2.0, 0.6)]}
    rows: list[tuple[object, ...]] = []
    for seed, points in entropy.items():
        for speedup, value in points:
            rows.append((*run, seed, "entropy", 0.5, 8 / speedup, speedup, "accuracy", value, "h"))
            rows.append((*run, seed, "patience", 0.5, 8 / speedup, speedup, "accuracy", 0.0, "h"))
        for layer in range(1, 9):
            value = layer / 10 + seed / 100
            rows.append((*run, seed, "fixed", layer, layer, 8 / layer, "accuracy", value, "h"))
    return pd.DataFrame(rows, columns=pd.Index(CURVES_COLUMNS))


def panel_of(figure: Figure, title: str) -> Axes:
    (panel,) = [axes for axes in figure.axes if axes.get_title().splitlines()[:1] == [title]]
    return panel


def band_of(panel: Axes) -> tuple[list[float], list[float]]:
    """Its lower and upper edge at the first x."""
    (band,) = panel.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    first = corners[np.isclose(corners[:, 0], corners[:, 0].min())][:, 1]
    return float(first.min()), float(first.max())


def test_a_line_is_the_mean_over_seeds_by_exit(tmp_path: Path) -> None:
    figure = layer_scores_figure(invented_exits(), layout_of(tmp_path))
    assert [axes.get_title().splitlines()[0] for axes in figure.axes] == [
        "MRPC · base",
        "RTE · base",
        "MRPC · small",
        "RTE · small",
    ]
    rte = panel_of(figure, "RTE · base")
    (line,) = rte.lines
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == pytest.approx([26.5, 51.5, 76.5])
    assert band_of(rte) == pytest.approx((26, 27))  # both seeds
    (f1,) = panel_of(figure, "MRPC · base").lines
    assert list(f1.get_ydata()) == [50]
    small = panel_of(figure, "RTE · small")
    assert not small.lines and [text.get_text() for text in small.texts] == ["no finished run"]


def test_the_band_of_three_seeds_and_more_is_the_sd(tmp_path: Path) -> None:
    seeds = (1, 2, 3)
    layout = layout_of(tmp_path, seeds)
    figure = layer_scores_figure(invented_exits(seeds), layout)
    assert band_of(panel_of(figure, "RTE · base")) == pytest.approx((26, 28))  # 27 ± 1
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "Mean over seeds, band: ± sd (n − 1)"


def test_marks_are_in_the_titles(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    for figure in (
        layer_scores_figure(invented_exits(), layout),
        quality_speed_figure(invented_curves(), layout),
    ):
        assert STAND_IN in figure.get_suptitle()
        title = panel_of(figure, "RTE · base").get_title()
        assert title == "RTE · base\nsubset, 100 of 2,490 training rows"
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == ["JT 0", "JT 1"]
        assert "both seeds" in legend.get_title().get_text()


def test_a_curve_goes_as_far_as_all_seeds_do_and_fixed_exits_are_marked(tmp_path: Path) -> None:
    rte = panel_of(quality_speed_figure(invented_curves(), layout_of(tmp_path)), "RTE · base")
    curve, fixed = rte.lines
    assert curve.get_linestyle() != "None" and fixed.get_linestyle() == "None"
    speedups, scores = np.asarray(curve.get_xdata()), np.asarray(curve.get_ydata())
    assert (speedups[0], speedups[-1]) == pytest.approx((1, 2))
    assert scores == pytest.approx(85 - 20 * (speedups - 1))
    assert list(fixed.get_xdata()) == [8 / 8, 8 / 6, 8 / 4, 8 / 2]
    assert list(fixed.get_ydata()) == pytest.approx([81.5, 61.5, 41.5, 21.5])


def test_a_student_is_a_point_at_its_depth(tmp_path: Path) -> None:
    write_task(tmp_path, "rte", "RTE", ["accuracy_f1"], "accuracy_f1")
    methods = {"short": "ACL-CL, 2 layers", "jt_0": "JT 0"}
    cells = [("rte", "base", method) for method in methods]
    layout = read_layout(
        tmp_path, {"rte": "RTE"}, {"base": "x"}, methods, (1, 2), cells, ["jt_0"], {"short": "acl"}
    )
    exits = [
        ("rte", "base", method, seed, exit, depth, "accuracy_f1", seed / 10, False, "a")
        for seed in (1, 2)
        for method, exit, depth in (("short", 2, 2), ("jt_0", 1, 2), ("jt_0", 2, 2))
    ]
    figure = layer_scores_figure(pd.DataFrame(exits, columns=pd.Index(EXITS_COLUMNS)), layout)
    (panel,) = figure.axes
    assert panel.get_ylabel() == "mean of accuracy and F1 (%)"
    short, jt = (line for line in panel.lines if line.get_marker() not in ("", "None"))
    assert (list(short.get_xdata()), list(short.get_ydata())) == ([2], pytest.approx([15]))
    bar = np.asarray(panel.collections[0].get_paths()[0].vertices)
    assert bar == pytest.approx(np.array([[2, 10], [2, 20]]))
    assert short.get_zorder() > jt.get_zorder()
    assert short.get_linestyle() == "None" and jt.get_linestyle() != "None"
    (legend,) = figure.legends
    assert legend.get_lines()[0].get_linestyle() == "None"
    assert legend.get_title().get_text() == (
        "Mean over seeds, band: both seeds; points: students with one exit"
    )
    alone = layer_scores_figure(
        pd.DataFrame(exits, columns=pd.Index(EXITS_COLUMNS)), layout.part("multi_exit")
    )
    assert alone.axes[0].lines[0].get_color() == jt.get_color()


def test_sixteen_methods_are_told_apart(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, methods=16)
    (legend,) = layer_scores_figure(invented_exits(), layout).legends
    lines = legend.get_lines()
    assert len({str(line.get_color()) for line in lines}) == 16
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 16


def test_png_and_pdf_are_written_alike_twice(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    runs, timings = (pd.DataFrame(columns=pd.Index(c)) for c in (RUNS_COLUMNS, TIMINGS_COLUMNS))
    none = pd.DataFrame()
    collected = (runs, invented_exits(), invented_curves(), timings)
    results = Results(*collected, gradients=none, clusters=none, tsne=none)
    paths = write_figures(results, layout, tmp_path / "figures")
    assert [path.name for path in paths] == [
        f"{name}.{ending}"
        for name in ("layer_scores", "quality_speed")
        for ending in ("png", "pdf")
    ]
    first = [path.read_bytes() for path in paths]
    assert first[0].startswith(b"\x89PNG") and first[1].startswith(b"%PDF")
    assert [
        path.read_bytes() for path in write_figures(results, layout, tmp_path / "figures")
    ] == first
