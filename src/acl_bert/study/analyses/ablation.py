"""What each component of a method brings (docs/paper.md §1.5): the full method less others."""

import math

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from acl_bert.evaluation.depth import exit_at
from acl_bert.study.grids import MISSING, Grid, degenerate_notes, number_blocks
from acl_bert.study.layout import Layout
from acl_bert.study.multi_exit import depths
from acl_bert.study.panels import entry, in_rows, legend_below, mark_empty, panel_figure
from acl_bert.study.seeds import CELL, CONFIGURATION, count_degenerate, over_seeds

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
    long run, see `interval`. A configuration without runs has n = 0, and no row
    where no run tells the depth.
    """
    known = depths(exits, layout)
    keys = [
        (task, encoder, full, method, exit, depth, layout.tasks[task].main_metric)
        for full, others in layout.ablation.items()
        for encoder in layout.encoders
        if (depth := known.get((encoder, full))) is not None
        for task in layout.tasks
        if (task, encoder, full) in layout.cells
        for method in (full, *others)
        if (task, encoder, method) in layout.cells
        for exit in _exits_of(full, depth, layout)
    ]
    at = [*CELL, "exit"]
    table = over_seeds(keys, KEY, exits, by=at)
    scores = exits.assign(score=100 * exits["value"])[[*at, "seed", "score"]]
    pairs = table[table["full"] != table["method"]][KEY].merge(scores, on=at)
    pairs = pairs.merge(
        scores.rename(columns={"method": "full"}),
        on=["full", "seed", *(name for name in at if name != "method")],
        suffixes=("", "_full"),
    )
    pairs["difference"] = pairs["score_full"] - pairs["score"]
    differences = pairs.groupby(KEY)["difference"].agg(
        pairs="count",
        difference="mean",
        low=lambda some: interval(some.to_numpy())[0],
        high=lambda some: interval(some.to_numpy())[1],
    )
    table = table.join(differences, on=KEY).fillna({"pairs": 0}).astype({"pairs": int})
    return table[ABLATION_COLUMNS]


def _exits_of(method: str, depth: int, layout: Layout) -> list[int]:
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
    cells = count_degenerate(table, exits, [*CONFIGURATION, "exit"]).assign(
        block=None, row=table["method"].map(layout.methods), column=table["task"]
    )
    grids = []
    for key, ours in cells.groupby(["full", "encoder", "exit", "depth"], sort=False):
        full, encoder, exit, depth = key
        title, tasks = layout.methods[full], list(ours["task"].unique())
        others = ours[ours["method"] != full]
        differences = others.assign(
            block=f"{title} less …",
            mean=others["difference"],
            sd=(others["high"] - others["low"]) / 2,
            n=others["pairs"],
            degenerate=0,
        )
        grids.append(
            Grid(
                f"{title}: {encoder} ({layout.encoders[encoder]}), exit {exit} of {depth}",
                [layout.tasks[task].title for task in tasks],
                [
                    *number_blocks(ours, tasks, len(layout.seeds)),
                    *number_blocks(differences, tasks, len(layout.seeds), best=False),
                ],
                [
                    "Dev sets, main metrics, percent, mean ± sd (n − 1) over the seeds; best mean "
                    f"of a column in bold; {MISSING}: no number.",
                    "Less …: the mean difference in points, of runs with the same seed, ± half of "
                    f"its {PERCENT} interval (Student's t); above 0: the full method is better.",
                    *layout.notes(*tasks),
                    *degenerate_notes(ours.sort_values(CONFIGURATION), layout),
                ],
            )
        )
    return grids


def ablation_figure(table: pd.DataFrame, layout: Layout) -> Figure:
    """A row of panels (or several) for each full method and encoder, with a panel for each task.

    A lane is a method without a component, a dot the mean difference, its bar the interval;
    an exit has a colour and a marker.
    """
    rows = [
        row
        for full, others in layout.ablation.items()
        for encoder in layout.encoders
        for row in in_rows(
            [
                (full, encoder, task)
                for task in layout.tasks
                if (task, encoder, full) in layout.cells
                and any((task, encoder, other) in layout.cells for other in others)
            ]
        )
    ]
    heights = [
        1.1 + (0.45 if full in layout.multi_exit else 0.3) * len(layout.ablation[full])
        for (full, *_), *_ in rows
    ]
    of_panel = dict(list(table[table["pairs"] > 0].groupby(["full", "encoder", "task"])))
    with panel_figure(
        layout.headline("What each component brings"),
        rows,
        3.2,
        sum(heights) / max(1, len(rows)),
        sharey="row",
        **({"height_ratios": heights} if rows else {}),
    ) as (figure, panels):
        for row in rows:
            for key in row:
                full, encoder, task = key
                _draw(panels[key], of_panel.get(key), layout, full)
                panels[key].set_title(layout.tasks[task].panel_title(encoder))
            panels[row[0]].set_ylabel(f"{layout.methods[row[0][0]]} less")
        exits = table[["exit", "depth"]].drop_duplicates().itertuples(index=False, name=None)
        quarters = {_quarter(exit, depth) for exit, depth in exits}
        legend_below(
            figure,
            [
                entry(title, color=COLOURS[i], marker=MARKERS[i])
                for i, title in enumerate(QUARTERS.values())
                if i in quarters
            ],
            title="Mean difference of runs with the same seed; "
            f"bar: {PERCENT} interval (Student's t)",
            ncols=len(QUARTERS),
        )
    return figure


def _draw(panel: Axes, ours: pd.DataFrame | None, layout: Layout, full: str) -> None:
    """The differences of one full method, encoder and task."""
    others = layout.ablation[full]
    if ours is None:
        mark_empty(panel)
        panel.set_xticks([])
    else:
        for exit, some in ours.groupby("exit"):
            quarter = _quarter(exit, some["depth"].iloc[0])
            # The exits of a method lie below one another in its lane, the first on top.
            offset = 0.25 * (quarter - 1) if full in layout.multi_exit else 0.0
            panel.errorbar(
                some["difference"],
                some["method"].map(others.index) + offset,
                xerr=some["high"] - some["difference"],
                fmt=MARKERS[quarter],
                color=COLOURS[quarter],
                markersize=5,
                elinewidth=1.4,
                zorder=3,
            )
    panel.axvline(0, color="black", linewidth=1, zorder=2)
    panel.set_xlabel("difference (points)")
    panel.grid(axis="y", visible=False)
    panel.set_yticks(range(len(others)), [layout.methods[other] for other in others])
    panel.set_ylim(len(others) - 0.5, -0.5)


def _quarter(exit: int, depth: int) -> int:
    """The index of an exit in QUARTERS; the last where several fall on it."""
    return {exit_at(depth, quarters): i for i, quarters in enumerate(QUARTERS)}[exit]
