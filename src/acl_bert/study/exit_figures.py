"""The figures of multi-exit methods: scores by exit, and scores by speed-up."""

import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from acl_bert.evaluation.depth import quarter_exits
from acl_bert.evaluation.early_exit import score_at
from acl_bert.study.layout import Layout
from acl_bert.study.panels import COLUMNS, NO_RUN, styled_figure

# A method has a colour, a dash and a marker of its own, to be told apart without colours too.
# The palettes' pale colours are left out: a thin line would be lost in them.
_BRIGHT, _DARK = sns.color_palette("colorblind", 10), sns.color_palette("dark", 10)
COLOURS = [
    *(_BRIGHT[i] for i in (0, 1, 2, 3, 4, 5, 7, 9)),
    *(_DARK[i] for i in (0, 3, 4, 2, 7, 6, 8, 9)),
]
DASHES = ("-", (0, (4, 1)), (0, (4, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX<>*phd8H"
SPEEDUP_TICKS = (1, 1.5, 2, 3, 4, 6, 12, 24)
SPEEDUP_POINTS = 120


def layer_scores_figure(exits: pd.DataFrame, layout: Layout) -> Figure:
    """A panel an encoder and task (its main metric, percent), a line a method, x: the exit.

    `layout` has multi-exit methods and students alone. A line is the mean over seeds, a band their
    spread; a student, which has one exit, is a point with a bar.
    """

    def draw(panel: Axes, encoder: str, task: str) -> None:
        for method, mine in _methods(exits, encoder, task, layout):
            scores = mine.pivot(index="exit", columns="seed", values="value")
            _line(panel, scores.index.to_numpy(), scores.to_numpy(), layout, method, marked=True)
        panel.set_xlabel("exit (layer)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))

    students = "; points: students with one exit" if layout.part("student").cells else ""
    return _figure(layout, "Score by exit", draw, f"Mean over seeds{_band(layout)}{students}")


def quality_speed_figure(curves: pd.DataFrame, layout: Layout) -> Figure:
    """As `layer_scores_figure`, x: the speed-up, by exiting on entropy; no students.

    A method's line goes as far as the curves of all its seeds do. Markers are its exits at the
    quarters of the depth, each taken by all samples.
    """

    def draw(panel: Axes, encoder: str, task: str) -> None:
        for method, mine in _methods(curves, encoder, task, layout):
            by_seed = mine[mine["criterion"] == "entropy"].groupby("seed")
            seeds = [(c["speedup"].to_numpy(), c["value"].to_numpy()) for _, c in by_seed]
            fastest = min(x.max() for x, _ in seeds)
            grid = np.geomspace(1, fastest, SPEEDUP_POINTS)
            scores = [[score_at(x, y, at) for x, y in seeds] for at in grid]
            _line(panel, grid, np.array(scores, dtype=float), layout, method, marked=False)
            fixed = mine[mine["criterion"] == "fixed"]
            quarters = quarter_exits(int(fixed["threshold"].max()))
            fixed = fixed[fixed["threshold"].isin(quarters)].groupby("speedup")["value"].mean()
            style = _style(layout, method) | {"linestyle": "", "markersize": 5.5}
            panel.plot(fixed.index, 100 * fixed, zorder=3, **style)
        panel.set_xlabel("speed-up (layers / layers used)")
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator(SPEEDUP_TICKS))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    said = (
        f"Line: exit by entropy, mean over seeds{_band(layout)}; "
        "markers: fixed exits at the quarters of the depth"
    )
    return _figure(layout, "Score by speed-up", draw, said)


def _figure(layout: Layout, what: str, draw: Callable[[Axes, str, str], None], said: str) -> Figure:
    """A row of panels an encoder, or several where it has many tasks; the legend below."""
    tasks = {
        encoder: [task for task in layout.tasks if layout.methods_of(encoder, task)]
        for encoder in layout.encoders
    }
    columns = min(COLUMNS, max(map(len, tasks.values())))
    rows = sum(math.ceil(len(some) / columns) for some in tasks.values())
    width = max(6.4, 3.7 * columns)
    with styled_figure(width, 1.8 + 3.2 * rows) as figure:
        empty = iter(figure.subplots(rows, columns, squeeze=False).flat)
        for encoder, some in tasks.items():
            for task in some:
                _panel(next(empty), layout, encoder, task, draw)
            for _ in range(-len(some) % columns):
                next(empty).set_visible(False)
        figure.suptitle(layout.headline(what), weight="bold")
        figure.legend(
            handles=[
                Line2D([], [], label=title, markersize=6, **_style(layout, method))
                for method, title in layout.methods.items()
            ],
            title=textwrap.fill(said, int(width * 12)),  # letters: fewer than fit an inch
            loc="outside lower center",
            ncols=min(len(layout.methods), max(3, columns)),
            handlelength=3.5,
            frameon=False,
        )
    return figure


def _panel(
    panel: Axes, layout: Layout, encoder: str, task: str, draw: Callable[[Axes, str, str], None]
) -> None:
    draw(panel, encoder, task)
    shown = layout.tasks[task]
    panel.set_title(shown.panel_title(encoder))
    panel.set_ylabel(shown.axis)
    if not panel.has_data():
        panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)


def _methods(
    scores: pd.DataFrame, encoder: str, task: str, layout: Layout
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Methods that a panel shows, with their rows of the task's main metric."""
    ours = scores[
        (scores["encoder"] == encoder)
        & (scores["task"] == task)
        & (scores["metric"] == layout.tasks[task].main_metric)
    ]
    for method in layout.methods_of(encoder, task):
        mine = ours[ours["method"] == method]
        if not mine.empty:
            yield method, mine


def _line(
    panel: Axes, x: np.ndarray, values: np.ndarray, layout: Layout, method: str, marked: bool
) -> None:
    """The mean of fractions, (points, seeds), over x, and their spread where there are several."""
    percent = 100 * values
    mean = percent.mean(axis=1)
    style = _style(layout, method) | ({} if marked else {"marker": ""})
    student = layout.kind(method) == "student"
    # A student's one point lies on top of the lines.
    size, order = (7, 3) if student else (4.5, 2)
    panel.plot(x, mean, linewidth=1.4, markersize=size, zorder=order, **style)
    if percent.shape[1] < 2:
        return
    if len(layout.seeds) > 2:
        sd = percent.std(axis=1, ddof=1)
        low, high = mean - sd, mean + sd
    else:
        low, high = percent.min(axis=1), percent.max(axis=1)
    if student:
        panel.vlines(x, low, high, color=style["color"], linewidth=1.4, zorder=order)
        return
    faint = min(0.14, 0.8 / len(layout.methods))  # many bands lie over each other
    panel.fill_between(x, low, high, color=style["color"], alpha=faint, linewidth=0)


def _band(layout: Layout) -> str:
    """What the band is, in words: see `_line`."""
    match len(layout.seeds):
        case 1:
            return ""
        case 2:
            return ", band: both seeds"
        case _:
            return ", band: ± sd (n − 1)"


def _style(layout: Layout, method: str) -> dict[str, Any]:
    # Students last: a multi-exit method looks alike in both figures.
    place = sorted(layout.methods, key=lambda name: layout.kind(name) == "student").index(method)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": "" if layout.kind(method) == "student" else DASHES[place % len(DASHES)],
        "marker": MARKERS[place % len(MARKERS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
