"""Scores by exit: every layer's, those at the quarters of the depth, and half-depth models."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from acl_bert.evaluation.depth import exit_at, quarter_exits
from acl_bert.study.grids import (
    Block,
    Grid,
    Row,
    cell_of,
    cells_by,
    degenerate_note,
    first_note,
    mark_best,
    metric_title,
)
from acl_bert.study.layout import Kind, Layout
from acl_bert.study.results import CELL, degenerate_counts, over_seeds

LAYER_SCORES_COLUMNS = ["task", "encoder", "method", "exit", "metric", "n", "mean", "sd"]
# `kind`: `quarter`, a multi-exit method at exits 3, 6, 9, 12 of 12; `half_depth`, the same read at
# its middle; `student`, a single-exit model that learned from a teacher; `static`, one that did
# not, and is no deeper than the middle of the deepest one.
KEY = ["kind", *CELL[:3], "exit", "depth", "metric"]
MULTI_EXIT_COLUMNS = [*KEY, "n", "mean", "sd"]
KINDS: dict[str, Kind] = {
    "quarter": "multi_exit",
    "half_depth": "multi_exit",
    "student": "student",
    "static": "plain",
}
EXIT = [*CELL[:3], "exit"]
STATIC = "Static"  # the block of the half-depth grid


def layer_scores(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, exit, metric), in percent.

    Rows follow the layout; a single-exit model has its one exit. Cells without a finished run have
    no rows, since their depth is not known. sd is missing at n = 1.
    """
    cells = [(*cell, name) for cell in layout.in_order() for name in layout.tasks[cell[0]].metrics]
    scores = over_seeds(exits, [*CELL, "exit"])
    return pd.DataFrame(cells, columns=pd.Index(CELL)).merge(scores, on=CELL)[LAYER_SCORES_COLUMNS]


def multi_exit_table(exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Multi-exit methods at the quarters and the middle of their depth, students, static models.

    Statistics over seeds in percent, a row each of MULTI_EXIT_COLUMNS, in the layout's order. A
    cell without finished runs has n = 0 and the depth that its method, else its encoder, has
    elsewhere; where no run tells a depth, there is no row.
    """
    depths = _depths(exits, layout)
    middle = exit_at(max(depths.values(), default=0), 2)
    keys: list[tuple[str, str, str, str, int, int, str]] = []
    for kind, of in KINDS.items():
        for task, encoder, method in layout.part(of).in_order():
            depth = depths.get((encoder, method))
            if depth is None or (kind == "static" and depth > middle):
                continue
            read = {"quarter": quarter_exits(depth), "half_depth": [exit_at(depth, 2)]}
            keys += [
                (kind, task, encoder, method, exit, depth, metric)
                for metric in layout.tasks[task].metrics
                for exit in read.get(kind, [depth])
            ]
    scores = over_seeds(exits, [*CELL, "exit"])
    table = pd.DataFrame(keys, columns=pd.Index(KEY)).merge(scores, on=[*CELL, "exit"], how="left")
    table["n"] = table["n"].fillna(0).astype(int)
    return table[MULTI_EXIT_COLUMNS]


def _depths(exits: pd.DataFrame, layout: Layout) -> dict[tuple[str, str], int]:
    """The layers of each (encoder, method): those of its runs, else the most that others have.

    A student without runs has none, since it ends where its method's row says.
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
    degenerate = degenerate_counts(exits, EXIT)
    multi = layout.part("multi_exit")
    quarters = table[table["kind"] == "quarter"]
    grids = []
    for encoder, path in multi.encoders.items():
        for task in multi.tasks:
            rows = quarters[(quarters["encoder"] == encoder) & (quarters["task"] == task)]
            # One depth, but for methods that cut the encoder: they have exits of their own.
            for depth in sorted(set(rows["depth"]), reverse=True):
                ours = rows[rows["depth"] == depth]
                grids.append(
                    Grid(
                        f"{multi.tasks[task].title}: {encoder} ({path}), {depth} layers",
                        [f"exit {number}" for number in quarter_exits(depth)],
                        _quarter_blocks(ours, multi, degenerate),
                        [
                            first_note(multi),
                            *multi.notes(task),
                            *_degenerate_notes(ours, multi, degenerate),
                            *_training_notes(ours, layout, timings),
                        ],
                    )
                )
    return [*grids, _half_depth_grid(table, layout, exits, degenerate)]


def _quarter_blocks(
    rows: pd.DataFrame, layout: Layout, degenerate: Mapping[Any, Any]
) -> list[Block]:
    """Of one task, encoder and depth."""
    lookup = cells_by(rows, ["metric", "method", "exit"])
    task, encoder, depth = rows[["task", "encoder", "depth"]].iloc[0]

    def row(metric: str, method: str) -> Row:
        cells = [
            cell_of(
                lookup[metric, method, number],
                layout,
                (task, encoder, method, number) in degenerate,
            )
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


def _degenerate_notes(
    rows: pd.DataFrame, layout: Layout, degenerate: Mapping[Any, tuple[int, int]]
) -> Iterator[str]:
    """A sentence for each (task, encoder, method) with degenerate runs at the exits in `rows`."""
    for cell, ours in rows.groupby(CELL[:3], sort=False):
        counts = {exit: degenerate.get((*cell, exit)) for exit in ours["exit"].unique()}
        runs = [f"{c[0]} of {c[1]} runs at exit {exit}" for exit, c in counts.items() if c]
        if runs:
            yield degenerate_note(cell, ", ".join(runs), layout)


def _training_notes(rows: pd.DataFrame, layout: Layout, timings: pd.DataFrame) -> Iterator[str]:
    """What training the methods of one task and encoder took, with the teachers' runs before.

    A method is left out where it, or one that taught it, has no finished run.
    """
    task, encoder = rows[["task", "encoder"]].iloc[0]
    ours = timings[(timings["task"] == task) & (timings["encoder"] == encoder)]
    means = ours.groupby("method")["train_seconds"].mean().to_dict()
    taken = []
    for method in rows["method"].unique():
        chain = [method]
        while (teacher := layout.teachers.get(chain[-1])) is not None:
            chain.append(teacher)
        if not set(chain) <= means.keys() & layout.methods.keys():
            continue
        said = f"{layout.methods[method]} {sum(means[name] for name in chain):,.1f}"
        before = ", ".join(f"{layout.methods[name]} {means[name]:,.1f}" for name in chain[1:])
        taken.append(f"{said} (of which {before})" if before else said)
    if taken:
        yield (
            f"{layout.tasks[task].title}, {encoder}, seconds of training, mean over runs, with "
            f"those of its teachers: {'; '.join(taken)}."
        )


def _half_depth_grid(
    table: pd.DataFrame,
    layout: Layout,
    exits: pd.DataFrame,
    degenerate: Mapping[Any, tuple[int, int]],
) -> Grid:
    """Multi-exit models that are read at their middle, beside models that end there or before.

    A student counts where it ends in the first half of its encoder.
    """
    ours = layout.part("multi_exit", "student")
    columns = [(task, metric) for task, shown in ours.tasks.items() for metric in shown.metrics]
    whole = exits.groupby("encoder")["depth"].max()
    middles = {encoder: exit_at(int(depth), 2) for encoder, depth in whole.items()}
    short = table["depth"] <= table["encoder"].map(middles)
    half = table["kind"].isin(["half_depth", "static"]) | ((table["kind"] == "student") & short)
    rows = table[half & table["task"].isin(ours.tasks)]
    lookup = cells_by(rows, CELL)
    models = cells_by(rows.drop_duplicates(["encoder", "method"]), ["encoder", "method"])
    blocks: dict[str, list[Row]] = {}
    for kind in ("half_depth", "student", "static"):
        part = layout.part(KINDS[kind])
        for encoder in part.encoders:
            for method, name in part.methods_of(encoder).items():
                if (model := models.get((encoder, method))) is None:
                    continue
                exit, depth = model["exit"], model["depth"]
                block, title = {
                    "half_depth": (encoder, f"{name}, exit {exit} of {depth}"),
                    # Its title may say so already, to tell it from students of other depths.
                    "student": (
                        encoder,
                        f"{name.removesuffix(f', {depth} layers')}, {depth} layers",
                    ),
                    "static": (STATIC, f"{encoder}, {name}"),
                }[kind]
                cells = [
                    cell_of(
                        lookup.get((task, encoder, method, metric)),
                        layout,
                        (task, encoder, method, exit) in degenerate,
                    )
                    for task, metric in columns
                ]
                blocks.setdefault(block, []).append(Row(title, cells))
    notes = {
        "student": "So many layers, beside an encoder's exits: a student with one exit, its last.",
        "static": f"{STATIC}: models with one exit and no teacher that are at most half as deep as "
        "the deepest here.",
    }
    return Grid(
        "Half depth",
        [f"{ours.tasks[task].title} {metric_title(metric)}" for task, metric in columns],
        [Block(mark_best(rows), title) for title, rows in blocks.items()],
        [
            first_note(ours),
            *ours.notes(),
            *(note for kind, note in notes.items() if kind in set(rows["kind"])),
            *_degenerate_notes(rows, layout, degenerate),
        ],
    )
