"""Scores over λ and τ, under both forms of the loss, and their spread (docs/paper.md §1.6)."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from acl_bert.study.grids import MISSING, Grid, degenerate_notes, number_blocks
from acl_bert.study.layout import Layout
from acl_bert.study.panels import entry, in_rows, legend_below, mark_empty, panel_figure
from acl_bert.study.seeds import CELL, CONFIGURATION, count_degenerate, over_seeds

LINE = ["task", "encoder", "of", "combination", "key"]
POINT = [*LINE[2:], "value", "method"]  # fields of `Point`
SENSITIVITY_COLUMNS = ["task", "encoder", *POINT, "metric", "n", "mean", "sd"]
SPREAD_COLUMNS = [*LINE, "values", "range", "sd"]
SPREADS = {"range": "range", "sd": "sd of the means"}
KEYS = {"lambda": "λ", "temperature": "τ"}
MARKERS = {"convex": "o", "additive": "s"}


def sensitivity_table(runs: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The main metric over seeds, in percent, of each point of `layout.sensitivity`.

    A row each (task, encoder, point) that the study runs, of SENSITIVITY_COLUMNS; `method` is
    whose runs they are. n = 0 where none is finished.
    """
    keys = [
        (task, encoder, *(getattr(point, name) for name in POINT), spec.main_metric)
        for task, spec in layout.tasks.items()
        for encoder in layout.encoders
        if (task, encoder) in layout.sensitivity_places
        for point in layout.sensitivity
        if (task, encoder, point.method) in layout.cells
    ]
    return over_seeds(keys, SENSITIVITY_COLUMNS[:-3], runs, by=CELL)[SENSITIVITY_COLUMNS]


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
    complete = table.groupby(LINE).size().rename("complete")
    spread = sensitivity_spread(table).join(complete, on=LINE).rename(columns={"values": "n"})
    spread = spread.melt([*LINE, "n", "complete"], list(SPREADS), "column", "mean")
    cells = count_degenerate(table, runs, CONFIGURATION).assign(
        column=table["value"], complete=len(layout.seeds)
    )
    cells = pd.concat([cells, spread])
    cells["block"] = [layout.tasks[task].title for task in cells["task"]]
    cells["row"] = cells["of"].map(layout.methods) + ", " + cells["combination"]
    grids = []
    for (encoder, key), ours in cells.groupby(["encoder", "key"], sort=False):
        values = sorted(ours["value"].dropna().unique())
        grids.append(
            Grid(
                f"{encoder} ({layout.encoders[encoder]}), {KEYS[key]}",
                [*(f"{KEYS[key]} = {value:g}" for value in values), *SPREADS.values()],
                number_blocks(ours, [*values, *SPREADS], len(layout.seeds), best=False),
                [
                    "Dev sets, main metrics, percent, mean ± sd (n − 1) over the seeds; "
                    f"{MISSING}: no number.",
                    "Range and sd of the means: over the values, in points; n counts the values "
                    "with a finished run, where not all have one.",
                    *layout.notes(*ours["task"].unique()),
                    *degenerate_notes(ours.sort_values(CONFIGURATION), layout),
                ],
            )
        )
    return grids


def sensitivity_figure(table: pd.DataFrame, layout: Layout) -> Figure:
    """A panel a task, encoder and key: the score over the key, a line a method and form.

    A line is the mean over seeds, its band ± sd. The method's own form is solid, the other dashed.
    """
    keys = [key for key in KEYS if (table["key"] == key).any()]
    names = [
        (*group, key)
        for group in table.groupby(["task", "encoder"], sort=False).groups
        for key in keys
    ]
    title = layout.headline("Score over λ and τ")
    with panel_figure(title, in_rows(names, len(keys)), 3.3, 2.7) as (figure, panels):
        for (task, encoder, key), panel in panels.items():
            first = panels[task, encoder, keys[0]]
            panel.sharey(first)
            panel.set_title(layout.tasks[task].panel_title(encoder))
            panel.set_xlabel(KEYS[key])
            first.set_ylabel(layout.tasks[task].axis)
            at = (table["task"] == task) & (table["encoder"] == encoder) & (table["key"] == key)
            _draw(panel, table[at], layout)
            if key == "temperature":
                panel.set_xscale("log")
            values = sorted(set(table.loc[at, "value"]))
            panel.set_xticks(values, [f"{value:g}" for value in values])
            panel.xaxis.set_minor_locator(NullLocator())
        band = ", band: ± sd (n − 1)" if len(layout.seeds) > 1 else ""
        legend_below(
            figure,
            [
                entry(f"{layout.methods[of]}, {form}", **style)
                for (of, form), style in _styles(layout).items()
            ],
            title=f"Mean over seeds{band}; solid: the method's own form",
            ncols=4,
            handlelength=3,
        )
    return figure


def _draw(panel: Axes, ours: pd.DataFrame, layout: Layout) -> None:
    """The lines of one task, encoder and key."""
    for name, line in ours[ours["n"] > 0].groupby(["of", "combination"], sort=False):
        line = line.sort_values("value")
        style = _styles(layout)[name]
        panel.plot(line["value"], line["mean"], **style)
        sd = line["sd"].fillna(0)
        band = (line["mean"] - sd, line["mean"] + sd)
        panel.fill_between(line["value"], *band, color=style["color"], alpha=0.12, linewidth=0)
    mark_empty(panel)


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
