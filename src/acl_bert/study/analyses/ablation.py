"""What each part of a method brings (docs/paper.md §1.5): the full method less those without it."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from acl_bert.evaluation.depth import exit_at
from acl_bert.study.grids import (
    MISSING,
    Block,
    Cell,
    Grid,
    Row,
    cell_of,
    cells_by,
    degenerate_note,
    mark_best,
    shown,
)
from acl_bert.study.layout import Layout
from acl_bert.study.panels import COLUMNS, NO_RUN, styled_figure
from acl_bert.study.results import CELL, degenerate_counts, over_seeds

# Where a method with an exit on every layer is read: at these quarters of its depth.
QUARTERS = {1: "first quarter's exit", 2: "middle exit", 4: "last exit"}
KEY = ["task", "encoder", "full", "method", "exit", "depth", "metric"]
ABLATION_COLUMNS = [*KEY, "n", "mean", "sd", "pairs", "difference", "low", "high"]
CONFIDENCE = 0.95
PERCENT = f"{100 * CONFIDENCE:g} %"
COLOURS, MARKERS = sns.color_palette("colorblind"), "osD"


def ablation_table(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Each full method of `layout.ablation` and its others: the main metric, and differences.

    A row each of ABLATION_COLUMNS, in percent and points. `difference` is the mean, over the
    `pairs` of runs with a common seed, of full less other; `low` and `high` bound its mean in the
    long run, see `interval`. A cell without runs has n = 0; where no run tells the depth, no row.
    """
    known = exits.groupby(["encoder", "method"])["depth"].max()
    whole = exits.groupby("encoder")["depth"].max()
    keys = [
        (task, encoder, full, method, exit, depth, layout.tasks[task].main_metric)
        for full, others in layout.ablation.items()
        for encoder in layout.encoders
        if encoder in whole.index
        for depth in [int(known.get((encoder, full), whole[encoder]))]
        for task in layout.tasks
        if (task, encoder, full) in layout.cells
        for method in (full, *others)
        if (task, encoder, method) in layout.cells
        for exit in _read(full, depth, layout)
    ]
    at = [*CELL, "exit"]
    table = pd.DataFrame(keys, columns=pd.Index(KEY)).merge(
        over_seeds(exits, at)[[*at, "n", "mean", "sd"]], on=at, how="left"
    )
    table["n"] = table["n"].fillna(0).astype(int)
    scores = {cell: 100 * ours for cell, ours in exits.set_index("seed").groupby(at)["value"]}
    none = pd.Series(dtype=float)
    differences = []
    for row in table.to_dict("records"):
        full, other = (
            scores.get((row["task"], row["encoder"], method, row["metric"], row["exit"]), none)
            for method in (row["full"], row["method"])
        )
        less = none if row["full"] == row["method"] else full.subtract(other).dropna()
        mean = less.mean() if len(less) else math.nan
        differences.append((len(less), mean, *interval(less.to_numpy(dtype=float))))
    table[["pairs", "difference", "low", "high"]] = pd.DataFrame(
        differences, columns=pd.Index(ABLATION_COLUMNS[-4:]), index=table.index
    )
    return table.astype({"pairs": int})[ABLATION_COLUMNS]


def _read(method: str, depth: int, layout: Layout) -> list[int]:
    if method not in layout.multi_exit:
        return [depth]
    return sorted({exit_at(depth, quarters) for quarters in QUARTERS})


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Student's interval of their mean, at CONFIDENCE; missing with fewer than two."""
    if len(differences) < 2:
        return math.nan, math.nan
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1) * error)
    return differences.mean() - reach, differences.mean() + reach


def ablation_grids(table: pd.DataFrame, layout: Layout, exits: pd.DataFrame) -> list[Grid]:
    """A grid a full method, encoder and exit: scores, then differences; columns are tasks."""
    key = ["task", "method"]
    degenerate = degenerate_counts(exits, [*CELL[:3], "exit"])
    grids = []
    for place, ours in table.groupby(["full", "encoder", "exit", "depth"], sort=False):
        full, encoder, exit, depth = place
        lookup = cells_by(ours, key)
        tasks, methods = ours["task"].unique(), ours["method"].unique()
        scores = [
            Row(
                layout.methods[method],
                [
                    cell_of(
                        lookup.get((task, method)),
                        layout,
                        (task, encoder, method, exit) in degenerate,
                    )
                    for task in tasks
                ],
            )
            for method in methods
        ]
        differences = [
            Row(
                layout.methods[method],
                [_difference(lookup.get((task, method)), layout) for task in tasks],
            )
            for method in methods
            if method != full
        ]
        grids.append(
            Grid(
                f"{layout.methods[full]}: {encoder} ({layout.encoders[encoder]}), "
                f"exit {exit} of {depth}",
                [layout.tasks[task].title for task in tasks],
                [Block(mark_best(scores)), Block(differences, f"{layout.methods[full]} less …")],
                [
                    "Dev sets, main metrics, percent, mean ± sd (n − 1) over the seeds; best mean "
                    f"of a column in bold; {MISSING}: no number.",
                    "Less …: the mean difference in points, of runs with the same seed, ± half of "
                    f"its {PERCENT} interval (Student's t); above 0: the full method is better.",
                    *layout.notes(*tasks),
                    *(
                        degenerate_note(cell[:3], f"{some} of {n} runs at exit {exit}", layout)
                        for cell, (some, n) in degenerate.items()
                        if (cell[0], cell[2]) in lookup and (cell[1], cell[3]) == (encoder, exit)
                    ),
                ],
            )
        )
    return grids


def _difference(row: Mapping[Any, Any] | None, layout: Layout) -> Cell:
    if row is None or not row["pairs"]:
        return Cell()
    n = row["pairs"] if row["pairs"] != len(layout.seeds) else None
    return Cell(shown(row["difference"]), shown((row["high"] - row["low"]) / 2), n)


def ablation_figure(table: pd.DataFrame, layout: Layout) -> Figure:
    """Panels in a row, or several, a full method and encoder: one a task, a lane a method without.

    A dot is the mean difference, its bar the interval; an exit has a colour and a marker.
    """
    rows = _panel_rows(layout)
    columns = max((len(tasks) for _, _, tasks in rows), default=1)
    lanes = [0.45 if full in layout.multi_exit else 0.3 for full, _, _ in rows]
    heights = [
        1.1 + lane * len(layout.ablation[full])
        for lane, (full, _, _) in zip(lanes, rows, strict=True)
    ]
    width = max(6.4, 2.2 + 2.7 * columns)
    with styled_figure(width, 1.4 + max(1.0, sum(heights))) as figure:
        if rows:
            axes = figure.subplots(
                len(rows), columns, squeeze=False, sharey="row", height_ratios=heights
            )
        else:
            figure.text(0.5, 0.5, NO_RUN, ha="center")
        for place, (full, encoder, tasks) in enumerate(rows):
            for panel, task in zip(axes[place], tasks, strict=False):
                ours = table[
                    (table["full"] == full)
                    & (table["encoder"] == encoder)
                    & (table["task"] == task)
                ]
                _draw(panel, ours, layout, full)
                panel.set_title(layout.tasks[task].panel_title(encoder))
            for panel in axes[place][len(tasks) :]:
                panel.set_visible(False)
            axes[place][0].set_ylabel(f"{layout.methods[full]} less")
        figure.suptitle(layout.headline("What each part brings"), weight="bold")
        figure.legend(
            handles=_legend(table),
            title="Mean difference of runs with the same seed; "
            f"bar: {PERCENT} interval (Student's t)",
            loc="outside lower center",
            ncols=len(QUARTERS),
            frameon=False,
        )
    return figure


def _panel_rows(layout: Layout) -> list[tuple[str, str, list[str]]]:
    """Full method, encoder and tasks of each row of panels."""
    rows = []
    for full, others in layout.ablation.items():
        for encoder in layout.encoders:
            tasks = [
                task
                for task in layout.tasks
                if full in (run := layout.methods_of(encoder, task)) and run.keys() & set(others)
            ]
            starts = range(0, len(tasks), COLUMNS)
            rows += [(full, encoder, tasks[start : start + COLUMNS]) for start in starts]
    return rows


def _draw(panel: Axes, ours: pd.DataFrame, layout: Layout, full: str) -> None:
    """The differences of one full method, encoder and task."""
    others = layout.ablation[full]
    found = ours[ours["pairs"] > 0]
    for exit, some in found.groupby("exit"):
        place = _place(int(exit), int(some["depth"].iloc[0]))
        # The exits of a method lie below one another in its lane, the first on top.
        reach = 0.25 * (place - 1) if full in layout.multi_exit else 0.0
        lanes = some["method"].map(others.index) + reach
        style = {"color": COLOURS[place], "zorder": 3}
        panel.hlines(lanes, some["low"], some["high"], linewidth=1.4, **style)
        panel.plot(some["difference"], lanes, MARKERS[place], markersize=5, **style)
    panel.axvline(0, color="black", linewidth=1, zorder=2)
    panel.set_xlabel("difference (points)")
    panel.grid(axis="y", visible=False)
    panel.set_yticks(range(len(others)), [layout.methods[other] for other in others])
    panel.set_ylim(len(others) - 0.5, -0.5)
    if found.empty:
        panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)
        panel.set_xticks([])


def _place(exit: int, depth: int) -> int:
    """Which of QUARTERS an exit is, counted from 0; the last before the others."""
    places = {exit_at(depth, quarters): place for place, quarters in enumerate(QUARTERS)}
    return places[exit]


def _legend(table: pd.DataFrame) -> list[Line2D]:
    exits = table[["exit", "depth"]].drop_duplicates().itertuples(index=False, name=None)
    places = {_place(exit, depth) for exit, depth in exits}
    return [
        Line2D([], [], color=COLOURS[place], marker=MARKERS[place], label=title)
        for place, title in enumerate(QUARTERS.values())
        if place in places
    ]
