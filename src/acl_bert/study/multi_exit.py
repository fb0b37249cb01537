"""Scores by exit: every layer's, those at the quarters of the depth, and half-depth models."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from acl_bert.evaluation.depth import exit_at, quarter_exits
from acl_bert.study.grids import (
    Grid,
    degenerate_notes,
    first_note,
    in_order,
    metric_columns,
    metric_title,
    number_blocks,
)
from acl_bert.study.layout import Kind, Layout
from acl_bert.study.seeds import CONFIGURATION, count_degenerate, over_seeds

LAYER_SCORES_COLUMNS = ["task", "encoder", "method", "exit", "metric", "n", "mean", "sd"]
# `kind`: `quarter`, a multi-exit method at exits 3, 6, 9, 12 of 12; `half_depth`, the same read at
# its middle; `student`, a single-exit model that learned from a teacher; `static`, one that did
# not, and is no deeper than the middle of the deepest one.
KEY = ["kind", *CONFIGURATION, "exit", "depth", "metric"]
MULTI_EXIT_COLUMNS = [*KEY, "n", "mean", "sd"]
KINDS: dict[str, Kind] = {
    "quarter": "multi_exit",
    "half_depth": "multi_exit",
    "student": "student",
    "static": "plain",
}
EXIT = [*CONFIGURATION, "exit"]
STATIC = "Static"  # the block of the half-depth grid


def layer_scores(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, exit, metric), in percent.

    Rows follow the layout; a single-exit model has its one exit. A configuration without a
    finished run has no rows, since its depth is not known. sd is missing at n = 1.
    """
    read = exits.drop_duplicates(EXIT).groupby(CONFIGURATION)["exit"].agg(list)
    keys = [
        (*configuration, exit, metric)
        for configuration in layout.in_order()
        for metric in layout.tasks[configuration[0]].metrics
        for exit in read.get(configuration, [])
    ]
    return over_seeds(keys, LAYER_SCORES_COLUMNS[:5], exits, by=[*EXIT, "metric"])[
        LAYER_SCORES_COLUMNS
    ]


def multi_exit_table(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Multi-exit methods at the quarters and the middle of their depth, students, static models.

    Statistics over seeds in percent, a row each of MULTI_EXIT_COLUMNS, in the layout's order. A
    configuration without finished runs has n = 0 and the depth of `depths`; where no run tells a
    depth, it has no row.
    """
    known = depths(exits, layout)
    middle = exit_at(max(known.values(), default=0), 2)
    keys = [
        (kind, *configuration, exit, depth, metric)
        for kind, of in KINDS.items()
        for configuration in layout.part(of).in_order()
        if (depth := known.get(configuration[1:])) is not None
        and (kind != "static" or depth <= middle)
        for metric in layout.tasks[configuration[0]].metrics
        for exit in {"quarter": quarter_exits(depth), "half_depth": [exit_at(depth, 2)]}.get(
            kind, [depth]
        )
    ]
    return over_seeds(keys, KEY, exits, by=[*EXIT, "metric"])[MULTI_EXIT_COLUMNS]


def depths(exits: pd.DataFrame, layout: Layout) -> dict[tuple[str, ...], int]:
    """The layers of each (encoder, method): those of its runs, else the most that others have.

    A student without runs has none, since it ends where its method's configuration says.
    """
    known = exits.groupby(["encoder", "method"])["depth"].max()
    whole = exits.groupby("encoder")["depth"].max()
    return {
        (encoder, method): int(known.get((encoder, method), whole[encoder]))
        for encoder in layout.encoders
        if encoder in whole.index
        for method in layout.methods_of(encoder)
        if (encoder, method) in known.index or layout.kind(method) != "student"
    }


def multi_exit_grids(
    table: pd.DataFrame, layout: Layout, exits: pd.DataFrame, timings: pd.DataFrame
) -> list[Grid]:
    """A grid an encoder and task, at the quarters of the depth, and one of half-depth models.

    In the first, rows are methods, a block a metric, and columns exits; in the other, rows are
    encoders and methods, columns tasks and metrics.
    """
    table = count_degenerate(table, exits, EXIT)
    return [*_quarter_grids(table, layout, timings), _half_depth_grid(table, layout, exits)]


def _quarter_grids(table: pd.DataFrame, layout: Layout, timings: pd.DataFrame) -> Iterator[Grid]:
    multi = layout.part("multi_exit")
    cells = table[table["kind"] == "quarter"].assign(
        block=table["metric"].map(metric_title),
        row=table["method"].map(multi.methods),
        column=table["exit"],
    )
    # One depth, but for methods that cut the encoder: they have exits of their own.
    cells = cells.sort_values("depth", ascending=False, kind="stable")
    cells = in_order(cells, multi, "encoder", "task")
    for (encoder, task, depth), ours in cells.groupby(["encoder", "task", "depth"], sort=False):
        exits = quarter_exits(depth)
        path = multi.encoders[encoder]
        yield Grid(
            f"{multi.tasks[task].title}: {encoder} ({path}), {depth} layers",
            [f"exit {exit}" for exit in exits],
            number_blocks(ours, exits, len(multi.seeds)),
            [
                first_note(multi),
                *multi.notes(task),
                *degenerate_notes(ours, multi),
                *_training_notes(task, encoder, ours["method"].unique(), layout, timings),
            ],
        )


def _training_notes(
    task: str, encoder: str, methods: Iterable[str], layout: Layout, timings: pd.DataFrame
) -> Iterator[str]:
    """How long the methods of one task and encoder trained, with their teachers.

    A method is left out where it, or one that taught it, has no finished run.
    """
    ours = timings[(timings["task"] == task) & (timings["encoder"] == encoder)]
    means = ours.groupby("method")["train_seconds"].mean()
    taken = []
    for method in methods:
        chain = [method]
        while (teacher := layout.teachers.get(chain[-1])) is not None:
            chain.append(teacher)
        if set(chain) <= set(means.index) & layout.methods.keys():
            teachers = ", ".join(f"{layout.methods[name]} {means[name]:,.1f}" for name in chain[1:])
            total = f"{layout.methods[method]} {means[chain].sum():,.1f}"
            taken.append(f"{total} (of which {teachers})" if teachers else total)
    if taken:
        yield (
            f"{layout.tasks[task].title}, {encoder}, seconds of training, mean over runs, with "
            f"those of its teachers: {'; '.join(taken)}."
        )


def _half_depth_grid(table: pd.DataFrame, layout: Layout, exits: pd.DataFrame) -> Grid:
    """Multi-exit models that are read at their middle, beside models that end there or before.

    A student counts where it ends in the first half of its encoder.
    """
    ours = layout.part("multi_exit", "student")
    columns = metric_columns(ours)
    middles = exits.groupby("encoder")["depth"].max().map(lambda depth: exit_at(depth, 2))
    long = (table["kind"] == "student") & (table["depth"] > table["encoder"].map(middles))
    rows = table[table["task"].isin(ours.tasks) & (table["kind"] != "quarter") & ~long]
    cells = pd.concat(
        in_order(rows[rows["kind"] == kind], layout, "encoder", "method") for kind in KINDS
    )
    titles = [_half_depth_titles(row, layout) for row in cells.to_dict("records")]
    cells[["block", "row"]] = pd.DataFrame(titles, cells.index, ["block", "row"])
    cells["column"] = list(zip(cells["task"], cells["metric"], strict=True))
    notes = {
        "student": "So many layers, beside an encoder's exits: a student with one exit, its last.",
        "static": f"{STATIC}: models with one exit and no teacher that are at most half as deep as "
        "the deepest here.",
    }
    return Grid(
        "Half depth",
        list(columns.values()),
        number_blocks(cells, list(columns), len(layout.seeds)),
        [
            first_note(ours),
            *ours.notes(),
            *(note for kind, note in notes.items() if kind in set(rows["kind"])),
            *degenerate_notes(rows, layout),
        ],
    )


def _half_depth_titles(row: Mapping[Any, Any], layout: Layout) -> tuple[str, str]:
    """Of the block and the row."""
    encoder, name, depth = row["encoder"], layout.methods[row["method"]], row["depth"]
    if row["kind"] == "half_depth":
        return encoder, f"{name}, exit {row['exit']} of {depth}"
    if row["kind"] == "static":
        return STATIC, f"{encoder}, {name}"
    # A student's title may have its depth already, to tell it from students of other depths.
    return encoder, f"{name.removesuffix(f', {depth} layers')}, {depth} layers"
