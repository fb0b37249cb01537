"""What is missing: runs without a result, and those that are degenerate."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from acl_bert.study.grids import MISSING
from acl_bert.study.report.report import Block, Entry, Notes, TableView, table
from acl_bert.study.report.runs import FAILED, LEFT_OUT, NOT_RUN, UNFINISHED
from acl_bert.study.report.sections import Material

# A list with more rows is folded.
LONG = 20


def missing(study: Material) -> list[Block]:
    runs = study.runs
    sentences = [
        f"{runs}."
        if runs.missing
        else f"No run is missing: all {len(runs.finished):,} of the study are finished."
    ]
    if len(study.layout.seeds) == 1:
        sentences.append("One seed: no number here has a spread, and no claim can be decided.")
    blocks = [Notes(sentences), _unfinished(study), _begun(study), _degenerate(study)]
    return [block for block in blocks if block]


def _unfinished(study: Material) -> TableView | None:
    seeds: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (*configuration, seed), run in study.runs.missing.items():
        seeds[*configuration][run.state].append(seed)
    if not seeds:
        return None
    finished = Counter[tuple[str, ...]](run[:3] for run in study.runs.finished)
    states = (FAILED, UNFINISHED, LEFT_OUT, NOT_RUN)
    rows = [
        [
            *study.names(configuration),
            f"{(done := finished[configuration])} of {done + sum(map(len, by_state.values()))}",
            *(", ".join(map(str, by_state[state])) or MISSING for state in states),
        ]
        for configuration, by_state in seeds.items()
    ]
    total = len(finished.keys() | seeds.keys())
    return _list(
        ["method", "task", "encoder", "finished", *states],
        rows,
        f"Unfinished configurations ({len(rows):,} of {total:,})",
        ["The seeds that are missing, by what became of their runs."],
    )


def _begun(study: Material) -> TableView | None:
    rows: list[list[Entry | str]] = [
        [*study.names(run), str(run[3]), Entry(one.state, path=one.path), one.reason]
        for run, one in study.runs.missing.items()
        if one.state != NOT_RUN
    ]
    if not rows:
        return None
    return _list(
        ["method", "task", "encoder", "seed", "state", "the end of its log"],
        rows,
        f"Runs that began and have no result in this study ({len(rows):,})",
        [
            "Unfinished: begun, and without a result yet; it may still run.",
            "Left out: finished, and not taken for the study's run; the last column says why.",
        ],
    )


def _degenerate(study: Material) -> Block:
    rows = [
        [
            *study.names(run),
            str(run[3]),
            "yes" if one.metrics["degenerate"] else "no",
            ", ".join(one.metrics["degenerate_exits"]),
        ]
        for run, one in study.runs.finished.items()
        if one.metrics["degenerate"] or one.metrics["degenerate_exits"]
    ]
    if not rows:
        return Notes(["No finished run is degenerate at any exit."])
    return _list(
        ["method", "task", "encoder", "seed", "at the last exit", "exits"],
        rows,
        f"Degenerate runs ({len(rows):,} of {len(study.runs.finished):,})",
        ["One class is predicted for all of dev, or Matthews is 0. They count in every mean."],
    )


def _list(
    columns: Sequence[str], rows: Sequence[Sequence[Entry | str]], heading: str, notes: list[str]
) -> TableView:
    return table(columns, rows, heading, notes, open=len(rows) <= LONG)
