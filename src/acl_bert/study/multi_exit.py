"""Scores by exit: every layer's, those at the quarters of the depth, and half-depth models."""

from collections.abc import Mapping

import pandas as pd

from acl_bert.study.grids import (
    Block,
    Grid,
    Row,
    cell_of,
    cells_by,
    degenerate_notes,
    first_note,
    mark_best,
    metric_title,
)
from acl_bert.study.layout import Layout
from acl_bert.study.results import CELL, degenerate_counts, over_seeds

LAYER_SCORES_COLUMNS = ["task", "encoder", "method", "exit", "metric", "n", "mean", "sd"]
# `kind`: `quarter`, a multi-exit method at exits 3, 6, 9, 12 of 12; `half_depth`, the same read at
# its middle; `static`, a single-exit model that is no deeper than the middle of the deepest one.
MULTI_EXIT_COLUMNS = ["kind", *CELL[:3], "exit", "depth", "metric", "n", "mean", "sd"]
KEY = ["kind", *CELL[:3], "exit", "depth", "metric"]


def exit_at(depth: int, quarters: int) -> int:
    """The exit at so many quarters of the depth, rounded up: 2, 3, 5, 6 of 6."""
    return -(-depth * quarters // 4)


def quarter_exits(depth: int) -> list[int]:
    """The exits at the four quarters; fewer where the encoder has fewer layers."""
    return sorted({exit_at(depth, quarters) for quarters in (1, 2, 3, 4)})


def layer_scores(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, exit, metric), in percent.

    Rows follow the layout; a single-exit model has its one exit. Cells without a finished run have
    no rows, since their depth is not known. sd is missing at n = 1.
    """
    cells = [(*cell, name) for cell in layout.in_order() for name in layout.tasks[cell[0]].metrics]
    scores = over_seeds(exits, [*CELL, "exit"])
    return pd.DataFrame(cells, columns=pd.Index(CELL)).merge(scores, on=CELL)[LAYER_SCORES_COLUMNS]


def multi_exit_table(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Multi-exit methods at the quarters and the middle of their depth, and static models.

    Statistics over seeds in percent, a row each of MULTI_EXIT_COLUMNS, in the layout's order. A
    cell without finished runs has n = 0 and the depth that its method, else its encoder, has
    elsewhere; where no run tells a depth, there is no row.
    """
    depths = _depths(exits, layout)
    middle = exit_at(max(depths.values(), default=0), 2)
    keys: list[tuple[str, str, str, str, int, int, str]] = []
    for multi, kind in ((True, "quarter"), (True, "half_depth"), (False, "static")):
        for task, encoder, method in layout.part(multi_exit=multi).in_order():
            depth = depths.get((encoder, method))
            if depth is None or (kind == "static" and depth > middle):
                continue
            read = {
                "quarter": quarter_exits(depth),
                "half_depth": [exit_at(depth, 2)],
                "static": [depth],
            }[kind]
            keys += [
                (kind, task, encoder, method, exit, depth, metric)
                for metric in layout.tasks[task].metrics
                for exit in read
            ]
    scores = over_seeds(exits, [*CELL, "exit"])
    table = pd.DataFrame(keys, columns=pd.Index(KEY)).merge(scores, on=[*CELL, "exit"], how="left")
    table["n"] = table["n"].fillna(0).astype(int)
    return table[MULTI_EXIT_COLUMNS]


def _depths(exits: pd.DataFrame, layout: Layout) -> dict[tuple[str, str], int]:
    """The layers of each (encoder, method): those of its runs, else the most that others have."""
    known = exits.groupby(["encoder", "method"])["depth"].max()
    whole = exits.groupby("encoder")["depth"].max()
    return {
        (encoder, method): int(known.get((encoder, method), whole.get(encoder)))
        for encoder in layout.encoders
        if encoder in whole.index
        for method in layout.methods_of(encoder)
    }


def multi_exit_grids(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> list[Grid]:
    """A grid an encoder and task, at the quarters of the depth, and one of half-depth models.

    In the first, rows are methods, a block a metric, and columns exits; in the other, rows are
    encoders and methods, columns tasks and metrics.
    """
    degenerate = degenerate_counts(runs)
    multi = layout.part(multi_exit=True)
    quarters = table[table["kind"] == "quarter"]
    grids = []
    for encoder, path in multi.encoders.items():
        for task in multi.tasks:
            rows = quarters[(quarters["encoder"] == encoder) & (quarters["task"] == task)]
            # One depth, but for methods that cut the encoder: they have exits of their own.
            for depth in sorted(set(rows["depth"]), reverse=True):
                notes = {k: n for k, n in degenerate.items() if k[:2] == (task, encoder)}
                grids.append(
                    Grid(
                        f"{multi.tasks[task].title}: {encoder} ({path}), {depth} layers",
                        [f"exit {number}" for number in quarter_exits(depth)],
                        _quarter_blocks(rows[rows["depth"] == depth], multi, set(degenerate)),
                        [
                            first_note(multi),
                            *multi.notes(task),
                            *degenerate_notes(notes, multi, ", last exit"),
                        ],
                    )
                )
    return [*grids, _half_depth_grid(table, layout, degenerate)]


def _quarter_blocks(
    rows: pd.DataFrame, layout: Layout, degenerate: set[tuple[str, str, str]]
) -> list[Block]:
    """Of one task, encoder and depth."""
    lookup = cells_by(rows, ["metric", "method", "exit"])
    task, encoder, depth = rows[["task", "encoder", "depth"]].iloc[0]

    def row(metric: str, method: str) -> Row:
        # A run is flagged by what its last exit says.
        last = depth if (task, encoder, method) in degenerate else None
        cells = [
            cell_of(lookup[metric, method, number], layout, number == last)
            for number in quarter_exits(depth)
        ]
        return Row(layout.methods[method], cells)

    return [
        Block(
            mark_best(row(metric, method) for method in rows["method"].unique()),
            metric_title(metric),
        )
        for metric in layout.tasks[task].metrics
    ]


def _half_depth_grid(
    table: pd.DataFrame, layout: Layout, degenerate: Mapping[tuple[str, str, str], tuple[int, int]]
) -> Grid:
    """Multi-exit models that are read at their middle, beside models that end there."""
    multi, single = layout.part(multi_exit=True), layout.part(multi_exit=False)
    columns = [(task, metric) for task, shown in multi.tasks.items() for metric in shown.metrics]
    rows = table[table["kind"].isin(["half_depth", "static"]) & table["task"].isin(multi.tasks)]
    lookup = cells_by(rows, [*CELL])

    def row(title: str, encoder: str, method: str) -> Row:
        cells = [
            cell_of(
                lookup.get((task, encoder, method, metric)),
                layout,
                method not in layout.multi_exit and (task, encoder, method) in degenerate,
            )
            for task, metric in columns
        ]
        return Row(title, cells)

    parts: dict[str, list[Row]] = {}
    models = cells_by(rows.drop_duplicates(["encoder", "method"]), ["encoder", "method"])
    for part in (multi, single):
        for encoder in part.encoders:
            for method, name in part.methods_of(encoder).items():
                if (model := models.get((encoder, method))) is None:
                    continue
                if part is multi:
                    title = f"{name}, exit {model['exit']} of {model['depth']}"
                    parts.setdefault(encoder, []).append(row(title, encoder, method))
                else:
                    title = f"{encoder}, {name}"
                    parts.setdefault("Static", []).append(row(title, encoder, method))
    static = {
        (task, encoder, method): counts
        for (task, encoder, method), counts in degenerate.items()
        if task in multi.tasks and (encoder, method) in models
    }
    return Grid(
        "Half depth",
        [f"{multi.tasks[task].title} {metric_title(metric)}" for task, metric in columns],
        [Block(mark_best(rows), title) for title, rows in parts.items()],
        [
            first_note(multi),
            *multi.notes(),
            "Static: models with one exit that are at most half as deep as the deepest here.",
            *degenerate_notes(static, single),
        ],
    )
