"""The figures of a study; that of fine-tuning results shows every seed, and the mean."""

from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acl_bert.files import atomic_file
from acl_bert.study.exhibits import figures_of
from acl_bert.study.layout import Layout
from acl_bert.study.panels import NO_RUN, entry, in_rows, legend_below, panel_figure
from acl_bert.study.results import Results

SEED, DEGENERATE = "o", "X"
MEAN: dict[str, Any] = {"marker": "|", "markersize": 11, "markeredgewidth": 1.6}


def finetuning_figure(runs: pd.DataFrame, layout: Layout) -> Figure:
    """A panel for each task (its main metric, percent): a point a seed, a mark at the mean.

    Methods run down the shared vertical axis in the config's order, encoders differ in colour and
    lane. Degenerate runs are crosses, runs of methods outside the layout are left out. A
    panel's title says what is not official about its data.
    """
    runs = runs[runs["method"].isin(list(layout.methods))]
    lanes = max(4, len(layout.methods) * len(layout.encoders))
    title = layout.headline("Fine-tuning")
    rows = in_rows(list(layout.tasks))
    with panel_figure(title, rows, 2.9, 1 + 0.22 * lanes, sharey=True) as (figure, panels):
        for task, panel in panels.items():
            spec = layout.tasks[task]
            points = runs[(runs["task"] == task) & (runs["metric"] == spec.main_metric)]
            _draw(panel, points, layout, task)
            panel.set(xlabel=spec.axis, ylabel="", title=spec.panel_title())
        colours = sns.color_palette("colorblind", len(layout.encoders))
        handles = [
            entry(encoder, linestyle="", marker=SEED, color=colour)
            for encoder, colour in zip(layout.encoders, colours, strict=True)
        ]
        if runs["degenerate"].any():
            handles.append(entry("degenerate", linestyle="", marker=DEGENERATE, color="grey"))
        handles.append(entry("mean", linestyle="", color="black", **MEAN))
        legend_below(figure, handles, ncols=min(len(handles), 2 * len(rows[0])))
    return figure


def _draw(panel: Axes, points: pd.DataFrame, layout: Layout, task: str) -> None:
    points = points.assign(
        percent=100 * points["value"], title=points["method"].map(layout.methods)
    )
    lanes: dict[str, Any] = {
        "x": "percent",
        "y": "title",
        "hue": "encoder",
        "order": list(layout.methods.values()),
        "hue_order": list(layout.encoders),
        "legend": False,
        "ax": panel,
    }
    for degenerate, marker in ((False, SEED), (True, DEGENERATE)):
        some = points[points["degenerate"] == degenerate]
        if len(some):
            sns.stripplot(
                some,
                marker=marker,
                palette="colorblind",
                dodge=True,
                jitter=False,
                size=6,
                alpha=0.7,
                edgecolor="white",
                linewidth=0.5,
                zorder=3,
                **lanes,
            )
    lane = 0.8 / len(layout.encoders)
    if len(points):
        sns.pointplot(
            points,
            errorbar=None,
            dodge=0.8 - lane,
            linestyle="none",
            palette=["black"] * len(layout.encoders),
            zorder=2.5,
            **MEAN,
            **lanes,
        )
    else:
        panel.set_xticks([])
    # A configuration of the study that has no finished run is marked, in the lane of seaborn.
    done = set(zip(points["encoder"], points["method"], strict=True))
    for row, method in enumerate(layout.methods):
        for i, encoder in enumerate(layout.encoders):
            if (task, encoder, method) in layout.cells and (encoder, method) not in done:
                panel.annotate(
                    NO_RUN,
                    (0.02, row + lane * (i - (len(layout.encoders) - 1) / 2)),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    color="grey",
                    fontsize="x-small",
                )
    # Here, since seaborn sets nothing up where a task has no run. The first method is on top.
    panel.set_yticks(range(len(layout.methods)), list(layout.methods.values()))
    panel.set_ylim(len(layout.methods) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)


def write_figures(results: Results, layout: Layout, folder: Path) -> list[Path]:
    """Write a study's figures to `folder`, each as `.png` and `.pdf`; returns their paths."""
    return [
        path
        for each, figure in figures_of(layout)
        for path in _save(figure.draw(results, layout), folder / each.name)
    ]


def _save(figure: Figure, path: Path) -> list[Path]:
    paths = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    for path in paths:
        with atomic_file(path) as aside:
            # Without a date in it, equal runs give an equal file.
            metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
            figure.savefig(aside, format=path.suffix[1:], dpi=200, metadata=metadata)
    return paths
