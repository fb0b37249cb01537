"""The table of fine-tuning results, beside the paper's and other published numbers."""

from functools import cache
from importlib import resources

import pandas as pd
import yaml

from acl_bert.study.grids import (
    Grid,
    degenerate_notes,
    first_note,
    in_order,
    metric_columns,
    number_blocks,
)
from acl_bert.study.layout import Layout
from acl_bert.study.seeds import CELL, CONFIGURATION, STATISTICS, count_degenerate, over_seeds

TABLE_COLUMNS = [*CELL, *STATISTICS, "paper", "reference", "reference_source"]
PUBLISHED_KEY = ["path", "method", "task", "metric"]
# Columns of published numbers, and how their rows are called.
PUBLISHED = {"paper": "paper", "reference": "published"}


@cache
def published() -> pd.DataFrame:
    """The numbers of `published.yaml`, in percent, with the first source that has each."""
    text = resources.files("acl_bert.study").joinpath("published.yaml").read_text("utf-8")
    kinds = {
        kind: pd.DataFrame(
            [
                (path, method, task, metric, value, entry.get("source"))
                for entry in entries
                for path in entry["encoders"]
                for method, tasks in entry["values"].items()
                for task, metrics in tasks.items()
                for metric, value in metrics.items()
            ],
            columns=pd.Index([*PUBLISHED_KEY, kind, f"{kind}_source"]),
        ).drop_duplicates(PUBLISHED_KEY)
        for kind, entries in yaml.safe_load(text).items()
    }
    return kinds["paper"].merge(kinds["reference"], on=PUBLISHED_KEY, how="outer")


def finetuning_table(runs: pd.DataFrame, layout: Layout, published: pd.DataFrame) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, metric), in percent, one row each.

    Rows are the layout's configurations, in its order: one without finished runs has n = 0 and no
    statistics. `paper` and `reference` are published for the encoder's path, so a renamed
    encoder keeps them.
    """
    keys = [(*key, metric) for key in layout.in_order() for metric in layout.tasks[key[0]].metrics]
    table = over_seeds(keys, CELL, runs, by=CELL)
    table["path"] = table["encoder"].map(layout.encoders)
    return table.merge(published, on=PUBLISHED_KEY, how="left")[TABLE_COLUMNS]


def finetuning_grids(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> list[Grid]:
    """A grid an encoder: a row a method, then published numbers; a column a task and metric."""
    columns = metric_columns(layout)
    cells = count_degenerate(table, runs, CONFIGURATION).assign(
        block=None,
        row=table["method"].map(layout.methods),
        column=list(zip(table["task"], table["metric"], strict=True)),
    )
    grids = []
    for encoder, ours in in_order(cells, layout, "encoder", "method").groupby(
        "encoder", sort=False
    ):
        others = ours.melt(["method", "row", "column"], list(PUBLISHED)).dropna(subset="value")
        others = in_order(others, layout, "method").assign(
            block="Published numbers",
            row=lambda each: each["row"] + ", " + each["variable"].map(PUBLISHED),
            mean=lambda each: each["value"],
            sd=None,
            n=len(layout.seeds),
        )
        notes = [first_note(layout), *layout.notes()]
        notes += degenerate_notes(ours.sort_values(CONFIGURATION), layout)
        if ours["paper"].notna().any():
            notes.append("Paper: arXiv 2602.03563; its encoder is inferred.")
        sources = table.loc[table["encoder"] == encoder, "reference_source"].dropna().unique()
        grids.append(
            Grid(
                f"{encoder} ({layout.encoders[encoder]})",
                list(columns.values()),
                [
                    *number_blocks(ours, list(columns), len(layout.seeds)),
                    *number_blocks(others, list(columns), len(layout.seeds), best=False),
                ],
                [*notes, *(f"Published: {source}." for source in sources)],
            )
        )
    return grids
