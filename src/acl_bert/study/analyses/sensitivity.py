"""Scores over λ and τ, under both forms of the loss, and their spread (docs/paper.md §1.6)."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from acl_bert.study.grids import (
    MISSING,
    Block,
    Cell,
    Grid,
    Row,
    cell_of,
    cells_by,
    degenerate_note,
    shown,
)
from acl_bert.study.layout import Layout
from acl_bert.study.panels import NO_RUN, panel_groups
from acl_bert.study.results import CELL, degenerate_counts, over_seeds

LINE = ["task", "encoder", "of", "combination", "key"]
SENSITIVITY_COLUMNS = [*LINE, "value", "method", "metric", "n", "mean", "sd"]
SPREAD_COLUMNS = [*LINE, "values", "range", "sd"]
KEYS = {"lambda": "λ", "temperature": "τ"}
MARKERS = {"convex": "o", "additive": "s"}


def sensitivity_table(runs: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The main metric over seeds, in percent, of each point of `layout.sensitivity`.

    A row each (task, encoder, point) that the study runs, of SENSITIVITY_COLUMNS; `method` is
    whose runs they are. n = 0 where none is finished.
    """
    points = pd.DataFrame(
        [
            (
                task,
                encoder,
                point.of,
                point.combination,
                point.key,
                point.value,
                point.method,
                shown.main_metric,
            )
            for task, shown in layout.tasks.items()
            for encoder in layout.encoders
            for point in layout.sensitivity
            if (task, encoder) in layout.sensitivity_places
            and (task, encoder, point.method) in layout.cells
        ],
        columns=pd.Index(SENSITIVITY_COLUMNS[:-3]),
    )
    table = points.merge(over_seeds(runs, CELL), on=CELL, how="left")
    table["n"] = table["n"].fillna(0).astype(int)
    return table[SENSITIVITY_COLUMNS]


def sensitivity_spread(table: pd.DataFrame) -> pd.DataFrame:
    """How the means over seeds differ over the values of a key, in points: a row a line.

    `values` counts those with a finished run; `range` is the highest mean less the lowest, `sd`
    (n − 1) is over the means. Both are missing under two values.
    """
    means = table.groupby(LINE, sort=False)["mean"]
    spread = means.agg(values="count", sd="std")
    spread["range"] = (means.max() - means.min()).where(spread["values"] > 1)
    return spread.reset_index()[SPREAD_COLUMNS]


def sensitivity_grids(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> list[Grid]:
    """A grid an encoder and key: rows are methods under a form, a block a task; columns values."""
    lookup = cells_by(table, [*LINE, "value"])
    spreads = cells_by(sensitivity_spread(table), LINE)
    degenerate = degenerate_counts(runs, CELL[:3])
    grids = []
    for (encoder, key), ours in table.groupby(["encoder", "key"], sort=False):
        values = sorted(set(ours["value"]))
        blocks = []
        for task, some in ours.groupby("task", sort=False):
            rows = []
            for (of, form), line in some.groupby(["of", "combination"], sort=False):
                at = (task, encoder, of, form, key)
                cells = []
                for value in values:
                    row = lookup.get((*at, value))
                    flag = row is not None and (task, encoder, row["method"]) in degenerate
                    cells.append(cell_of(row, layout, flag))
                spread = spreads[at]
                n = spread["values"] if spread["values"] < len(line) else None
                cells += [Cell(shown(spread[name]), n=n) for name in ("range", "sd")]
                rows.append(Row(f"{layout.methods[of]}, {form}", cells))
            blocks.append(Block(rows, layout.tasks[task].title))
        methods = set(ours["method"])
        grids.append(
            Grid(
                f"{encoder} ({layout.encoders[encoder]}), {KEYS[key]}",
                [*(f"{KEYS[key]} = {value:g}" for value in values), "range", "sd of the means"],
                blocks,
                [
                    "Dev sets, main metrics, percent, mean ± sd (n − 1) over the seeds; "
                    f"{MISSING}: no number.",
                    "Range and sd of the means: over the values, in points; n counts the values "
                    "with a finished run, where not all have one.",
                    *layout.notes(*ours["task"].unique()),
                    *(
                        degenerate_note(cell, f"{some} of {n} runs", layout)
                        for cell, (some, n) in degenerate.items()
                        if cell[1] == encoder and cell[2] in methods
                    ),
                ],
            )
        )
    return grids


def sensitivity_figure(table: pd.DataFrame, layout: Layout) -> Figure:
    """A panel a task, encoder and key: the score over the key, a line a method and form.

    A line is the mean over seeds, its band ± sd. The method's own form is solid, the other dashed.
    """
    keys = [key for key in KEYS if (table["key"] == key).any()]
    groups = list(table.groupby(["task", "encoder"], sort=False).groups)
    with panel_groups(len(groups), len(keys), 3.3, 2.7) as (figure, panels):
        for (task, encoder), group in zip(groups, panels, strict=True):
            ours = table[(table["task"] == task) & (table["encoder"] == encoder)]
            for panel, key in zip(group, keys, strict=True):
                panel.sharey(group[0])
                mine = ours[ours["key"] == key]
                panel.set_title(layout.tasks[task].panel_title(encoder))
                panel.set_xlabel(KEYS[key])
                _draw(panel, mine, layout)
            group[0].set_ylabel(layout.tasks[task].axis)
        figure.suptitle(layout.headline("Score over λ and τ"), weight="bold")
        band = ", band: ± sd (n − 1)" if len(layout.seeds) > 1 else ""
        figure.legend(
            handles=_legend(layout),
            title=f"Mean over seeds{band}; solid: the method's own form",
            loc="outside lower center",
            ncols=4,
            handlelength=3,
            frameon=False,
        )
    return figure


def _draw(panel: Axes, ours: pd.DataFrame, layout: Layout) -> None:
    """The lines of one task, encoder and key."""
    for (of, form), line in ours[ours["n"] > 0].groupby(["of", "combination"], sort=False):
        line = line.sort_values("value")
        style = _styles(layout)[of, form]
        panel.plot(line["value"], line["mean"], **style)
        sd = line["sd"].fillna(0)
        panel.fill_between(
            line["value"],
            line["mean"] - sd,
            line["mean"] + sd,
            color=style["color"],
            alpha=0.12,
            linewidth=0,
        )
    if not panel.has_data():
        panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)
    if (ours["key"] == "temperature").all():
        panel.set_xscale("log")
    values = sorted(set(ours["value"]))
    panel.xaxis.set_major_locator(FixedLocator(values))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _styles(layout: Layout) -> dict[tuple[str, str], dict[str, Any]]:
    """By method and form: a colour a method, a marker a form, a dash unless it is its own form."""
    methods = list(dict.fromkeys(point.of for point in layout.sensitivity))
    own = {(point.of, point.combination) for point in layout.sensitivity if point.default}
    return {
        (of, form): {
            "color": sns.color_palette("colorblind")[methods.index(of) % 10],
            "linestyle": "-" if (of, form) in own else "--",
            "marker": MARKERS[form],
            "markersize": 4.5,
            "markeredgecolor": "white",
            "markeredgewidth": 0.4,
            "linewidth": 1.4,
        }
        for of, form in dict.fromkeys((p.of, p.combination) for p in layout.sensitivity)
    }


def _legend(layout: Layout) -> list[Line2D]:
    return [
        Line2D([], [], label=f"{layout.methods[of]}, {form}", **style)
        for (of, form), style in _styles(layout).items()
    ]
