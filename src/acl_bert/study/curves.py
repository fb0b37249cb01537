"""What early exiting costs and saves, from the dev logits that runs saved."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import CRITERIA, SWEEP_COLUMNS, sweep
from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, runs_of
from acl_bert.study.layout import Layout

CURVES = "early_exit.csv"

# One row a multi-exit run, criterion, threshold and dev set, whose main metric alone is scored.
CURVES_COLUMNS = ("task", "encoder", "method", "seed", *SWEEP_COLUMNS, "run_hash")


def write_curves(runs: Iterable[RunFolder], layout: Layout, folder: Path) -> None:
    """Write CURVES to `folder`: every criterion's sweep over each run of a multi-exit method.

    Rows are ordered whatever the order of the runs; single-exit runs have none. Raises InputError
    where a run has no readable metrics or logits, or a task that the layout has not.
    """
    write_csv(
        folder / CURVES,
        CURVES_COLUMNS,
        (
            (*key, *row, metrics["run_hash"])
            for key, metrics, run in runs_of(runs, layout.multi_exit)
            for row in _sweeps(run, sorted(map(int, metrics["exits"])), key[0], layout)
        ),
    )


def _sweeps(
    run: RunFolder, exits: list[int], task: str, layout: Layout
) -> Iterator[tuple[Any, ...]]:
    if task not in layout.tasks:
        raise InputError(f"{run.path}: {task} is no task of the study; give the run's own config")
    spec = layout.tasks[task]
    sets = run.dev_logits()
    if missing := [name for name in spec.dev_sets if name not in sets]:
        raise InputError(f"{run.path}: has no logits of {missing[0]}; run it again")
    for criterion in CRITERIA:
        for name, suffix in spec.dev_sets.items():
            logits, labels = sets[name]
            yield from sweep(criterion, logits, labels, exits, [spec.main_metric], suffix)
