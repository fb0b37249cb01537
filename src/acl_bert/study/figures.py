"""The figures of a study; that of fine-tuning results shows every seed, and the mean."""

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from acl_bert.files import atomic_file
from acl_bert.study.analyses.ablation import ablation_figure, ablation_table
from acl_bert.study.analyses.clusters import clusters_figure
from acl_bert.study.analyses.gradients import gradients_figure
from acl_bert.study.analyses.sensitivity import sensitivity_figure, sensitivity_table
from acl_bert.study.exit_figures import layer_scores_figure, quality_speed_figure
from acl_bert.study.layout import Layout
from acl_bert.study.panels import COLUMNS, NO_RUN, styled_figure
from acl_bert.study.results import Results

SEED, DEGENERATE = "o", "X"


def finetuning_figure(runs: pd.DataFrame, layout: Layout) -> Figure:
    """A panel for each task (its main metric, percent): a point for each seed, a bar at the mean.

    Methods run down the shared vertical axis in the config's order, encoders differ in colour and
    lane. Degenerate runs are crosses, runs of methods that the layout has not are left out. A
    panel's title carries what is not official about its data.
    """
    columns = min(COLUMNS, len(layout.tasks))
    rows = math.ceil(len(layout.tasks) / columns)
    lanes = max(4, len(layout.methods) * len(layout.encoders))
    runs = runs[runs["method"].isin(list(layout.methods))]
    width, height = 1.2 + max(2.6 * columns, 4.2), 1 + rows * (1 + 0.22 * lanes)
    with styled_figure(width, height) as figure:
        _draw(figure, runs, layout, rows, columns)
    return figure


def _draw(figure: Figure, runs: pd.DataFrame, layout: Layout, rows: int, columns: int) -> None:
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    panels = list(axes.flat)
    for panel, task in zip(panels, layout.tasks, strict=False):
        _draw_task(panel, runs, layout, task)
    for panel in panels[len(layout.tasks) :]:
        panel.set_visible(False)
    figure.suptitle(layout.headline("Fine-tuning"), weight="bold")
    handles = _legend(layout, bool(runs["degenerate"].any()))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 2 * columns),
        frameon=False,
    )


def _draw_task(panel: Axes, runs: pd.DataFrame, layout: Layout, task: str) -> None:
    shown = layout.tasks[task]
    points = runs[(runs["task"] == task) & (runs["metric"] == shown.main_metric)]
    points = points.assign(
        percent=100 * points["value"], title=points["method"].map(layout.methods)
    )
    lanes = {
        "x": "percent",
        "y": "title",
        "hue": "encoder",
        "order": list(layout.methods.values()),
        "hue_order": list(layout.encoders),
        "palette": "colorblind",
        "legend": False,
        "ax": panel,
    }
    for degenerate, marker in ((False, SEED), (True, DEGENERATE)):
        some = points[points["degenerate"] == degenerate]
        if not some.empty:
            sns.stripplot(
                some,
                marker=marker,
                dodge=True,
                jitter=False,
                size=6,
                alpha=0.7,
                edgecolor="white",
                linewidth=0.5,
                zorder=3,
                **lanes,
            )
    _mark_means(panel, points, layout, task)
    panel.set_ylabel("")
    panel.set_xlabel(shown.axis)
    panel.set_title(shown.panel_title())


def _mark_means(panel: Axes, points: pd.DataFrame, layout: Layout, task: str) -> None:
    """A bar behind each lane's seeds, where seaborn's dodge puts them; words in an empty lane.

    A lane that the study does not run is left empty.
    """
    lane = 0.8 / len(layout.encoders)
    reach = min(0.42 * lane, 0.25)
    for row, method in enumerate(layout.methods):
        for place, encoder in enumerate(layout.encoders):
            ours = points[(points["method"] == method) & (points["encoder"] == encoder)]
            middle = row + lane * (place - (len(layout.encoders) - 1) / 2)
            if (task, encoder, method) not in layout.cells:
                continue
            if ours.empty:
                panel.annotate(
                    NO_RUN,
                    (0.02, middle),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    color="grey",
                    fontsize="x-small",
                )
            else:
                mean = ours["percent"].mean()
                ends = [middle - reach, middle + reach]
                panel.plot([mean, mean], ends, color="black", linewidth=1.6, zorder=2.5)
    # Here, since seaborn sets nothing up where a task has no run. The first method is on top.
    panel.set_yticks(range(len(layout.methods)), list(layout.methods.values()))
    panel.set_ylim(len(layout.methods) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)
    if points.empty:
        panel.set_xticks([])


def _legend(layout: Layout, degenerate: bool) -> list[Line2D]:
    def point(label: str, colour: object, marker: str) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, label=label)  # type: ignore[arg-type]

    colours = sns.color_palette("colorblind", len(layout.encoders))
    handles = [
        point(encoder, colour, SEED)
        for encoder, colour in zip(layout.encoders, colours, strict=True)
    ]
    if degenerate:
        handles.append(point("degenerate", "grey", DEGENERATE))
    handles.append(
        Line2D(
            [],
            [],
            linestyle="",
            marker="|",
            markersize=11,
            markeredgewidth=1.6,
            color="black",
            label="mean",
        )
    )
    return handles


def write_figures(results: Results, layout: Layout, folder: Path) -> list[Path]:
    """Write a study's figures to `folder`, each as `.png` and `.pdf`; returns their paths.

    Which ones it has is in `layout.outputs`.
    """
    draw: dict[str, Callable[[], Figure]] = {
        "finetuning": lambda: finetuning_figure(results.runs, layout.part("plain")),
        "layer_scores": lambda: layer_scores_figure(
            results.exits, layout.part("multi_exit", "student")
        ),
        "quality_speed": lambda: quality_speed_figure(results.curves, layout.part("multi_exit")),
        "gradients": lambda: gradients_figure(results.gradients, layout),
        "sensitivity": lambda: sensitivity_figure(sensitivity_table(results.runs, layout), layout),
        "ablation": lambda: ablation_figure(ablation_table(results.exits, layout), layout),
        "clusters": lambda: clusters_figure(results.clusters, results.tsne, layout),
    }
    _, names = layout.outputs
    return [path for name in names for path in _save(draw[name](), folder / name)]


def _save(figure: Figure, path: Path) -> list[Path]:
    paths = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    for path in paths:
        with atomic_file(path) as aside:
            # Without a date in it, equal runs give an equal file.
            metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
            figure.savefig(aside, format=path.suffix[1:], dpi=200, metadata=metadata)
    return paths
