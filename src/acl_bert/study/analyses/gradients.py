"""The gradient pilot: the angle between CE's and the auxiliary gradient (docs/paper.md §1.1).

Methods that only observe leave one at every step: over the encoder's parameters, and over h.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, runs_of
from acl_bert.study.grids import MISSING, Block, Grid, Row, cell_of, cells_by
from acl_bert.study.layout import Layout
from acl_bert.study.panels import NO_RUN, panel_groups

GRADIENTS = "gradients.csv"

RUN = ["task", "encoder", "method", "seed"]
# One row a run of an observing method and step. `share`: of the training, from 0 to 1. Angles in
# degrees, over the encoder and over h; empty where undefined, or not recorded.
GRADIENTS_COLUMNS = (*RUN, "step", "share", "angle", "angle_h", "run_hash")

SCOPES = {"encoder": "angle", "representation": "angle_h"}
HALVES = ("first", "second", "all")
READINGS = {
    "median_angle": "median (°)",
    "share_above_90": "above 90° (%)",
    "share_75_105": "75°–105° (%)",
    "different": "decided differently (%)",
}
SUMMARY_COLUMNS = [*RUN, "scope", "half", "steps", *READINGS]

RIGHT_ANGLE = 90.0
AROUND = (75.0, 105.0)  # where the paper has most angles
BIN = 2.5  # degrees
DENSE = 40  # steps that a bin of training has, where a run is long enough
COLOUR, LINES = "Blues", sns.color_palette("colorblind")
DASHES: dict[str, Literal["-", "--"]] = {"encoder": "-", "representation": "--"}


def write_gradients(runs: Iterable[RunFolder], layout: Layout, folder: Path) -> None:
    """Write GRADIENTS to `folder`: every step of each run of a method that observes.

    Their variants in the audit are among them. Rows are ordered whatever the order of the runs.
    Raises InputError where a run has no readable metrics, or a damaged history.
    """
    write_csv(
        folder / GRADIENTS,
        GRADIENTS_COLUMNS,
        (
            (*key, *step, metrics["run_hash"])
            for key, metrics, run in runs_of(runs, layout.observing)
            for step in _steps(run, (metrics["gate"] or {}).get("scope"))
        ),
    )


def _steps(run: RunFolder, scope: str | None) -> Iterator[tuple[Any, ...]]:
    """Step, share of the training, and both angles; a gate over h writes its own as `angle`."""
    history = run.history()
    for row in history:
        step = row["step"]
        assert step is not None
        over_h = row["angle" if scope == "representation" else "angle_h"]
        over_encoder = row["angle"] if scope == "encoder" else None
        yield int(step), round(step / len(history), 6), over_encoder, over_h


def gradient_summary(gradients: pd.DataFrame) -> pd.DataFrame:
    """Of each run, scope and half of the training, a row of SUMMARY_COLUMNS.

    `median_angle` is in degrees, the others are fractions of the `steps` whose angle is defined;
    `different`: of those with both angles, how many one scope would drop and the other keep.
    """
    rows: list[tuple[Any, ...]] = []
    for run, steps in gradients.groupby(RUN, sort=False):
        parts = (steps[steps["share"] <= 0.5], steps[steps["share"] > 0.5], steps)
        for half, some in zip(HALVES, parts, strict=True):
            both = some.dropna(subset=list(SCOPES.values()))
            different = (both["angle"] > RIGHT_ANGLE) != (both["angle_h"] > RIGHT_ANGLE)
            for scope, column in SCOPES.items():
                angles = some[column].dropna()
                rows.append(
                    (
                        *run,
                        scope,
                        half,
                        len(angles),
                        angles.median(),
                        (angles > RIGHT_ANGLE).mean(),
                        angles.between(*AROUND).mean(),
                        different.mean(),
                    )
                )
    return pd.DataFrame(rows, columns=pd.Index(SUMMARY_COLUMNS))


def gradient_grids(summary: pd.DataFrame, layout: Layout) -> list[Grid]:
    """A grid a task and encoder: rows are methods, a block a scope and part of the training."""
    key = ["task", "encoder", "method", "scope", "half", "reading"]
    long = summary.melt(
        [*RUN, "scope", "half"], list(READINGS), var_name="reading", value_name="value"
    )
    long["value"] *= np.where(long["reading"] == "median_angle", 1.0, 100.0)
    over_seeds = long.groupby(key)["value"].agg(n="count", mean="mean", sd="std").reset_index()
    lookup = cells_by(over_seeds, key)
    halves = {"all": "all of the training", "first": "first half", "second": "second half"}
    return [
        Grid(
            f"{layout.tasks[task].title}: {encoder} ({layout.encoders[encoder]})",
            list(READINGS.values()),
            [
                Block(
                    [
                        Row(
                            layout.methods[method],
                            [
                                cell_of(
                                    lookup.get((task, encoder, method, scope, half, reading)),
                                    layout,
                                )
                                for reading in READINGS
                            ],
                        )
                        for method in methods
                    ],
                    f"over the {scope}, {title}",
                )
                for scope in SCOPES
                for half, title in halves.items()
            ],
            [
                "Angle between the gradients of CE and of the contrastive term, at each step of "
                f"training; mean ± sd (n − 1) over the seeds; {MISSING}: no number.",
                "Decided differently: steps at which one of the two scopes would drop the term, "
                "being above 90°, and the other keep it.",
                *layout.notes(task),
            ],
        )
        for task, encoder, methods in _places(layout)
    ]


def _places(layout: Layout) -> list[tuple[str, str, list[str]]]:
    """Each (task, encoder) with the observing methods that run there, as the study orders them."""
    observed = set(layout.observed.values())
    places = [
        (task, encoder, [m for m in layout.methods_of(encoder, task) if m in observed])
        for task in layout.tasks
        for encoder in layout.encoders
    ]
    return [place for place in places if place[2]]


def gradients_figure(gradients: pd.DataFrame, layout: Layout) -> Figure:
    """A row a task and encoder: a panel a method, and one that compares methods and scopes.

    In a method's panel, x is the training, y the angle over the encoder, and a column's colours
    are the density of its steps, of all seeds; the last panel is the density over all steps.
    """
    places = _places(layout)
    methods = list(dict.fromkeys(method for _, _, some in places for method in some))
    columns = len(methods) + 1
    with panel_groups(len(places), columns, 3.4, 2.8) as (figure, panels):
        for (task, encoder, some), group in zip(places, panels, strict=True):
            ours = gradients[(gradients["task"] == task) & (gradients["encoder"] == encoder)]
            edges = _edges(ours)
            title = layout.tasks[task].panel_title(encoder)
            for panel, method in zip(group, methods, strict=False):
                panel.set_title(f"{title}\n{layout.methods[method]}")
                _density(panel, ours[ours["method"] == method].dropna(subset=["angle"]), edges)
                panel.set_visible(method in some)
            group[-1].set_title(f"{title}\nall steps")
            _margins(group[-1], ours, methods, edges)
            for panel in group:
                panel.set_ylim(edges[0], edges[-1])
                if panel.has_data():
                    _mark(panel)
                else:
                    panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)
            group[0].set_ylabel("angle (°)")
        # Of training batches, not of dev rows as the other figures.
        figure.suptitle(
            layout.headline("Gradients of CE and the contrastive term").replace(", dev", ""),
            weight="bold",
        )
        handles = _legend(layout, methods)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _edges(ours: pd.DataFrame) -> np.ndarray:
    """Bins of the angle, degrees: of all that is drawn in a row, and of AROUND with a margin."""
    angles = ours[list(SCOPES.values())].to_numpy(dtype=float)
    angles = angles[~np.isnan(angles)]
    low = min(angles.min(initial=RIGHT_ANGLE), AROUND[0] - 2 * BIN)
    high = max(angles.max(initial=RIGHT_ANGLE), AROUND[1] + 2 * BIN)
    return np.arange(np.floor(low / BIN), np.ceil(high / BIN) + 1) * BIN


def _density(panel: Axes, steps: pd.DataFrame, edges: np.ndarray) -> None:
    panel.grid(visible=False)
    panel.set_xlim(0, 1)
    panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_xlabel("share of the training")
    if steps.empty:
        return
    # At least two steps of each run in a bin, so that none is empty by rounding.
    shortest = int(steps.groupby("seed")["step"].max().min())
    bins = int(np.clip(len(steps) // DENSE, min(4, shortest), max(1, min(40, shortest // 2))))
    ends = np.linspace(0, 1, bins + 1)
    counts, _, _ = np.histogram2d(steps["share"], steps["angle"], bins=[ends, edges])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shares = np.ma.masked_equal(shares, 0.0)
    panel.pcolormesh(ends, edges, shares.T, cmap=COLOUR, vmin=0, rasterized=True)
    place = np.clip(np.searchsorted(ends, steps["share"]) - 1, 0, bins - 1)
    medians = steps["angle"].groupby(place).median()
    middles = (ends[:-1] + ends[1:]) / 2
    panel.plot(middles[medians.index], medians, color=LINES[1], linewidth=1.8)


def _margins(panel: Axes, ours: pd.DataFrame, methods: list[str], edges: np.ndarray) -> None:
    panel.grid(visible=False)
    panel.set_xlabel("density over all steps (% per degree)")
    for place, method in enumerate(methods):
        for scope, column in SCOPES.items():
            angles = ours.loc[ours["method"] == method, column].dropna()
            if angles.empty:
                continue
            density, _ = np.histogram(angles, edges, density=True)
            panel.stairs(
                100 * density,
                edges,
                orientation="horizontal",
                color=LINES[_line(place)],
                linestyle=DASHES[scope],
                linewidth=1.5,
            )


def _line(place: int) -> int:
    """The colour of a method's line: the second is the median's."""
    return (0, 2, 3, 4, 5, 7, 8, 9)[place % 8]


def _mark(panel: Axes) -> None:
    panel.axhline(RIGHT_ANGLE, color="black", linewidth=1)
    for angle in AROUND:
        panel.axhline(angle, color="grey", linewidth=0.9, linestyle=":")


def _legend(layout: Layout, methods: list[str]) -> list[Line2D]:
    handles = [
        Line2D([], [], color=LINES[1], linewidth=1.8, label="median over the encoder"),
        Line2D([], [], color="black", linewidth=1, label="90°: dropped above"),
        Line2D([], [], color="grey", linewidth=0.9, linestyle=":", label="75° and 105°"),
    ]
    return handles + [
        Line2D(
            [],
            [],
            color=LINES[_line(place)],
            linestyle=dash,
            label=f"{layout.methods[method]}, {scope}",
        )
        for place, method in enumerate(methods)
        for scope, dash in DASHES.items()
    ]
