"""The gradient pilot: the angle between CE's and the auxiliary gradient (docs/paper.md §1.1).

Runs of methods that only observe record it at every step: over the encoder's parameters, and
over h.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, runs_of
from acl_bert.study.grids import MISSING, Grid, number_blocks
from acl_bert.study.layout import Layout
from acl_bert.study.panels import entry, in_rows, legend_below, mark_empty, panel_figure
from acl_bert.study.seeds import CONFIGURATION, RUN

GRADIENTS = "gradients.csv"

# One row a run of an observing method and step. `share`: of the training, from 0 to 1. Angles in
# degrees, over the encoder and over h; empty where undefined, or not recorded.
GRADIENTS_COLUMNS = (*RUN, "step", "share", "angle", "angle_h", "run_hash")

SCOPES = {"encoder": "angle", "representation": "angle_h"}
HALVES = {"all": "all of the training", "first": "first half", "second": "second half"}
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
DASHES = {"encoder": "-", "representation": "--"}
BLUE, MEDIAN, *OTHERS = sns.color_palette("colorblind")
METHOD_COLOURS = [BLUE, *OTHERS]
MEDIAN_LINE: dict[str, Any] = {"color": MEDIAN, "linewidth": 1.8}
RIGHT_LINE: dict[str, Any] = {"color": "black", "linewidth": 1}
AROUND_LINE: dict[str, Any] = {"color": "grey", "linewidth": 0.9, "linestyle": ":"}


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
        first = steps["share"] <= 0.5
        for half, some in (("first", steps[first]), ("second", steps[~first]), ("all", steps)):
            above = some[list(SCOPES.values())].dropna() > RIGHT_ANGLE
            different = (above["angle"] != above["angle_h"]).mean()
            for scope, column in SCOPES.items():
                angles = some[column].dropna()
                shares = (angles > RIGHT_ANGLE).mean(), angles.between(*AROUND).mean()
                rows.append((*run, scope, half, len(angles), angles.median(), *shares, different))
    return pd.DataFrame(rows, columns=pd.Index(SUMMARY_COLUMNS))


def gradient_grids(summary: pd.DataFrame, layout: Layout) -> list[Grid]:
    """A grid a task and encoder: rows are methods, a block a scope and half of the training."""
    key = [*CONFIGURATION, "scope", "half", "reading"]
    values = summary.melt([*RUN, "scope", "half"], list(READINGS), var_name="reading")
    # Angles stay degrees, the others become percent.
    values["value"] *= np.where(values["reading"] == "median_angle", 1.0, 100.0)
    statistics = values.groupby(key)["value"].agg(n="count", mean="mean", sd="std")
    keys = [
        (*configuration, scope, half, reading)
        for scope in SCOPES
        for half in HALVES
        for configuration in _observed(layout)
        for reading in READINGS
    ]
    cells = pd.DataFrame(keys, columns=pd.Index(key)).join(statistics, on=key)
    cells["block"] = "over the " + cells["scope"] + ", " + cells["half"].map(HALVES)
    cells["row"] = cells["method"].map(layout.methods)
    cells["column"] = cells["reading"]
    return [
        Grid(
            f"{layout.tasks[task].title}: {encoder} ({layout.encoders[encoder]})",
            list(READINGS.values()),
            number_blocks(ours, list(READINGS), len(layout.seeds), best=False),
            [
                "Angle between the gradients of CE and of the contrastive term, at each step of "
                f"training; mean ± sd (n − 1) over the seeds; {MISSING}: no number.",
                "Decided differently: steps at which one of the two scopes would drop the term, "
                "being above 90°, and the other keep it.",
                *layout.notes(task),
            ],
        )
        for (task, encoder), ours in cells.groupby(["task", "encoder"], sort=False)
    ]


def _observed(layout: Layout) -> list[tuple[str, str, str]]:
    """The configurations of observing methods that the study runs."""
    observed = set(layout.observed.values())
    return [key for key in layout.in_order() if key[2] in observed]


def gradients_figure(gradients: pd.DataFrame, layout: Layout) -> Figure:
    """A row a task and encoder: a panel a method, and one that compares methods and scopes.

    In a method's panel, x is the training, y the angle over the encoder, and a column's colours
    are the density of its steps, of all seeds; the last panel is the density over all steps.
    """
    observed = _observed(layout)
    groups = list(dict.fromkeys(each[:2] for each in observed))
    methods = list(dict.fromkeys(each[2] for each in observed))
    keys = [
        key if (key := (*group, method)) in observed or method is None else None
        for group in groups
        for method in (*methods, None)
    ]
    lines = {
        (method, scope): {"color": METHOD_COLOURS[i % len(METHOD_COLOURS)], "linestyle": dash}
        for i, method in enumerate(methods)
        for scope, dash in DASHES.items()
    }
    # Of training batches, not of dev rows as the other figures.
    title = layout.headline("Gradients of CE and the contrastive loss").replace(", dev", "")
    with panel_figure(title, in_rows(keys, len(methods) + 1), 3.4, 2.8) as (figure, panels):
        for (task, encoder, method), panel in panels.items():
            ours = gradients[(gradients["task"] == task) & (gradients["encoder"] == encoder)]
            edges = _edges(ours)
            if method is None:
                _margins(panel, ours, edges, lines)
            else:
                steps = ours[ours["method"] == method].dropna(subset=["angle"])
                _density(panel, steps, edges)
            name = "all steps" if method is None else layout.methods[method]
            panel.set_title(f"{layout.tasks[task].panel_title(encoder)}\n{name}")
            panel.set_ylabel("angle (°)" if method == methods[0] else "")
            panel.set_ylim(edges[0], edges[-1])
            panel.grid(visible=False)
            if panel.has_data():
                panel.axhline(RIGHT_ANGLE, **RIGHT_LINE)
                for angle in AROUND:
                    panel.axhline(angle, **AROUND_LINE)
            mark_empty(panel)
        legend_below(
            figure,
            [
                entry("median over the encoder", **MEDIAN_LINE),
                entry("90°: dropped above", **RIGHT_LINE),
                entry("75° and 105°", **AROUND_LINE),
                *(
                    entry(f"{layout.methods[method]}, {scope}", **style)
                    for (method, scope), style in lines.items()
                ),
            ],
            ncols=len(methods) + 1,
        )
    return figure


def _edges(ours: pd.DataFrame) -> np.ndarray:
    """Bins of the angle, degrees: of all that is drawn in a row, and of AROUND with a margin."""
    angles = ours[list(SCOPES.values())].to_numpy(dtype=float)
    low = np.fmin.reduce(angles, axis=None, initial=AROUND[0] - 2 * BIN)  # skips NaN
    high = np.fmax.reduce(angles, axis=None, initial=AROUND[1] + 2 * BIN)
    return np.arange(np.floor(low / BIN), np.ceil(high / BIN) + 1) * BIN


def _density(panel: Axes, steps: pd.DataFrame, edges: np.ndarray) -> None:
    panel.set_xlim(0, 1)
    panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_xlabel("fraction of the training")
    if steps.empty:
        return
    # At least two steps of each run in a bin, so that none is empty by rounding.
    shortest = int(steps.groupby("seed")["step"].max().min())
    bins = int(np.clip(len(steps) // DENSE, min(4, shortest), max(1, min(40, shortest // 2))))
    ends = np.linspace(0, 1, bins + 1)
    middles = (ends[:-1] + ends[1:]) / 2
    bin_of = pd.cut(steps["share"], ends, labels=middles)
    angles = pd.cut(steps["angle"], edges, include_lowest=True)
    density = pd.crosstab(bin_of, angles, normalize="index", dropna=False).T
    panel.pcolormesh(ends, edges, density.where(density > 0), cmap="Blues", vmin=0, rasterized=True)
    medians = steps["angle"].groupby(bin_of, observed=True).median()
    panel.plot(medians.index.astype(float), medians, **MEDIAN_LINE)


def _margins(
    panel: Axes,
    ours: pd.DataFrame,
    edges: np.ndarray,
    lines: Mapping[tuple[str, str], Mapping[str, Any]],
) -> None:
    panel.set_xlabel("density over all steps (% per degree)")
    for (method, scope), style in lines.items():
        angles = ours.loc[ours["method"] == method, SCOPES[scope]].dropna()
        if len(angles):
            density, _ = np.histogram(angles, edges, density=True)
            panel.stairs(100 * density, edges, orientation="horizontal", linewidth=1.5, **style)
