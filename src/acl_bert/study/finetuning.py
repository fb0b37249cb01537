"""The table of fine-tuning results, beside the paper's and other published numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd
import yaml

from acl_bert.study.grids import (
    Block,
    Cell,
    Grid,
    Row,
    cell_of,
    cells_by,
    degenerate_note,
    first_note,
    mark_best,
    metric_title,
    shown,
)
from acl_bert.study.layout import Layout
from acl_bert.study.results import CELL, STATISTICS, degenerate_counts, over_seeds

TABLE_COLUMNS = [*CELL, *STATISTICS, "paper", "reference", "reference_source"]


@dataclass(frozen=True)
class Published:
    """Published numbers in percent, by (encoder's path, method, task, metric)."""

    paper: Mapping[tuple[str, str, str, str], float]
    reference: Mapping[tuple[str, str, str, str], tuple[float, str]]


@cache
def published() -> Published:
    """The numbers of `published.yaml`."""
    text = resources.files("acl_bert.study").joinpath("published.yaml").read_text("utf-8")
    data = yaml.safe_load(text)
    reference: dict[tuple[str, str, str, str], tuple[float, str]] = {}
    for entry in data["reference"]:
        for key, value in _published_cells(entry):
            reference.setdefault(key, (value, entry["source"]))
    paper = dict(cell for entry in data["paper"] for cell in _published_cells(entry))
    return Published(paper, reference)


def _published_cells(
    entry: Mapping[str, Any],
) -> Iterable[tuple[tuple[str, str, str, str], float]]:
    for encoder in entry["encoders"]:
        for method, tasks in entry["values"].items():
            for task, metrics in tasks.items():
                for metric, value in metrics.items():
                    yield (encoder, method, task, metric), value


def finetuning_table(runs: pd.DataFrame, layout: Layout, published: Published) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, metric), in percent, one row each.

    Rows are the layout's cells, in its order, and no others: one without finished runs has n = 0
    and no statistics. `paper` and `reference` are published for the encoder's path, so a renamed
    encoder keeps them.
    """
    cells = pd.DataFrame(
        [(*cell, metric) for cell in layout.in_order() for metric in layout.tasks[cell[0]].metrics],
        columns=pd.Index(CELL),
    )
    table = cells.merge(over_seeds(runs, CELL), on=CELL, how="left")
    table["n"] = table["n"].fillna(0).astype(int)
    keys = [
        (layout.encoders[encoder], method, task, metric)
        for task, encoder, method, metric in table[CELL].itertuples(index=False)
    ]
    references = [published.reference.get(key, (None, None)) for key in keys]
    table["paper"] = pd.Series([published.paper.get(key) for key in keys], dtype=float)
    table["reference"] = pd.Series([value for value, _ in references], dtype=float)
    table["reference_source"] = [source for _, source in references]
    return table[TABLE_COLUMNS]


def finetuning_grids(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> list[Grid]:
    """A grid an encoder: a row a method, then published numbers; a column a task and metric."""
    degenerate = degenerate_counts(runs, CELL[:3])
    columns = [(task, metric) for task, shown in layout.tasks.items() for metric in shown.metrics]
    lookup = cells_by(table, CELL)
    grids = []
    for encoder, path in layout.encoders.items():
        ours, others = [], []
        for method, title in layout.methods_of(encoder).items():
            found = [lookup.get((task, encoder, method, metric)) for task, metric in columns]
            cells = [
                cell_of(row, layout, (task, encoder, method) in degenerate)
                for row, (task, _) in zip(found, columns, strict=True)
            ]
            ours.append(Row(title, cells))
            for kind, name in (("paper", "paper"), ("reference", "published")):
                values = [None if row is None else shown(row[kind]) for row in found]
                if any(value is not None for value in values):
                    others.append(Row(f"{title}, {name}", [Cell(value) for value in values]))
        rows = table[table["encoder"] == encoder]
        notes = [first_note(layout), *layout.notes()]
        notes += [
            degenerate_note(cell, f"{count} of {n} runs", layout)
            for cell, (count, n) in degenerate.items()
            if cell[1] == encoder and cell in layout.cells
        ]
        if rows["paper"].notna().any():
            notes.append("Paper: arXiv 2602.03563; its encoder is inferred.")
        notes += [f"Published: {source}." for source in rows["reference_source"].dropna().unique()]
        grids.append(
            Grid(
                f"{encoder} ({path})",
                [f"{layout.tasks[task].title} {metric_title(metric)}" for task, metric in columns],
                [Block(mark_best(ours)), *([Block(others, "Published numbers")] if others else [])],
                notes,
            )
        )
    return grids
