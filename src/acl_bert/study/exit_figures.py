"""The figures of multi-exit methods: scores by exit, and scores by speed-up."""

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from acl_bert.evaluation.depth import quarter_exits
from acl_bert.evaluation.early_exit import score_at
from acl_bert.study.layout import Layout
from acl_bert.study.panels import entry, in_rows, legend_below, mark_empty, panel_figure

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
SPEEDUP_POINTS = 60


def layer_scores_figure(exits: pd.DataFrame, layout: Layout) -> Figure:
    """A panel an encoder and task (its main metric, percent), a line a method, x: the exit.

    `layout` has multi-exit methods and students alone. A line is the mean over seeds, a band their
    spread; a student, which has one exit, is a point with a bar.
    """
    students = "; points: students with one exit" if layout.part("student").cells else ""
    explained = f"Mean over seeds{_band(layout)}{students}"
    figure = _figure(
        exits,
        layout,
        "Score by exit",
        lambda panel, method, scores: _line(panel, scores, "exit", layout, method),
        explained,
    )
    for panel in figure.axes:
        panel.set_xlabel("exit (layer)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def quality_speed_figure(curves: pd.DataFrame, layout: Layout) -> Figure:
    """As `layer_scores_figure`, x: the speed-up, by exiting on entropy; no students.

    A method's line goes as far as the curves of all its seeds do. Markers are its exits at the
    quarters of the depth, each taken by all samples.
    """

    def draw(panel: Axes, method: str, scores: pd.DataFrame) -> None:
        seeds = scores[scores["criterion"] == "entropy"].groupby("seed")
        speedups = np.geomspace(1, seeds["speedup"].max().min(), SPEEDUP_POINTS)
        read = [
            (speedup, score_at(curve["speedup"], curve["percent"], speedup))
            for _, curve in seeds
            for speedup in speedups
        ]
        line = pd.DataFrame(read, columns=pd.Index(["speedup", "percent"]), dtype=float)
        _line(panel, line, "speedup", layout, method, marker="")
        fixed = scores[scores["criterion"] == "fixed"]
        quarters = fixed["threshold"].isin(quarter_exits(int(fixed["threshold"].max())))
        means = fixed[quarters].groupby("speedup")["percent"].mean()
        style = _style(layout, method) | {"linestyle": "", "markersize": 5.5}
        panel.plot(means.index, means, zorder=3, **style)

    explained = (
        f"Line: exit by entropy, mean over seeds{_band(layout)}; "
        "markers: fixed exits at the quarters of the depth"
    )
    figure = _figure(curves, layout, "Score by speed-up", draw, explained)
    for panel in figure.axes:
        panel.set_xlabel("speed-up (layers / layers used)")
        panel.set_xscale("log")
        panel.xaxis.set(
            major_locator=FixedLocator(SPEEDUP_TICKS),
            major_formatter=StrMethodFormatter("{x:g}"),
            minor_locator=NullLocator(),
        )
    return figure


def _figure(
    scores: pd.DataFrame,
    layout: Layout,
    what: str,
    draw: Callable[[Axes, str, pd.DataFrame], None],
    explained: str,
) -> Figure:
    """A row of panels an encoder, or several where it has many tasks; the legend below."""
    metrics = {name: task.main_metric for name, task in layout.tasks.items()}
    scores = scores[scores["metric"] == scores["task"].map(metrics)]
    scores = scores.assign(percent=100 * scores["value"])
    rows = [
        row
        for encoder in layout.encoders
        for row in in_rows(
            [(encoder, task) for task in layout.tasks if layout.methods_of(encoder, task)]
        )
    ]
    with panel_figure(layout.headline(what), rows, 3.7, 3.2) as (figure, panels):
        for (encoder, task), panel in panels.items():
            ours = scores[(scores["encoder"] == encoder) & (scores["task"] == task)]
            for method in layout.methods_of(encoder, task):
                if len(of_method := ours[ours["method"] == method]):
                    draw(panel, method, of_method)
            panel.set_title(layout.tasks[task].panel_title(encoder))
            panel.set_ylabel(layout.tasks[task].axis)
            mark_empty(panel)
        legend_below(
            figure,
            [
                entry(title, markersize=6, **_style(layout, method))
                for method, title in layout.methods.items()
            ],
            title=textwrap.fill(explained, int(figure.get_figwidth() * 12)),
            ncols=min(len(layout.methods), max(3, len(rows[0]))),
            handlelength=3.5,
        )
    return figure


def _line(
    panel: Axes, scores: pd.DataFrame, x: str, layout: Layout, method: str, **style: Any
) -> None:
    """The mean of `percent` over x, and the spread over seeds where there are several."""
    seeds, student = len(layout.seeds), layout.kind(method) == "student"
    faint = min(0.14, 0.8 / len(layout.methods))  # many bands lie over each other
    sns.lineplot(
        scores,
        x=x,
        y="percent",
        errorbar={1: None, 2: ("pi", 100)}.get(seeds, "sd"),
        err_style="bars" if student else "band",
        err_kws={"elinewidth": 1.4, "zorder": 3} if student else {"alpha": faint, "linewidth": 0},
        linewidth=1.4,
        markersize=7 if student else 4.5,
        zorder=3 if student else 2,  # a student's one point lies on top of the lines
        ax=panel,
        **_style(layout, method) | style,
    )


def _band(layout: Layout) -> str:
    """What the band is, in words: see `_line`."""
    return {1: "", 2: ", band: both seeds"}.get(len(layout.seeds), ", band: ± sd (n − 1)")


def _style(layout: Layout, method: str) -> dict[str, Any]:
    # Students last: a multi-exit method looks alike in both figures.
    i = sorted(layout.methods, key=lambda name: layout.kind(name) == "student").index(method)
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": "" if layout.kind(method) == "student" else DASHES[i % len(DASHES)],
        "marker": MARKERS[i % len(MARKERS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
