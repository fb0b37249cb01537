"""The collected results of a study as data frames, and their statistics over seeds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from acl_bert.errors import InputError
from acl_bert.study.analyses.clusters import (
    CLUSTERS,
    CLUSTERS_COLUMNS,
    TSNE_COLUMNS,
    TSNE_POINTS,
)
from acl_bert.study.analyses.gradients import GRADIENTS, GRADIENTS_COLUMNS
from acl_bert.study.collect import (
    EXITS,
    EXITS_COLUMNS,
    RUNS,
    RUNS_COLUMNS,
    TIMINGS,
    TIMINGS_COLUMNS,
)
from acl_bert.study.curves import CURVES, CURVES_COLUMNS
from acl_bert.study.layout import Layout
from acl_bert.study.seeds import CELL


@dataclass(frozen=True)
class Results:
    """What was collected, a file each. Values are fractions, `degenerate` is bool."""

    runs: pd.DataFrame
    exits: pd.DataFrame
    curves: pd.DataFrame
    timings: pd.DataFrame
    gradients: pd.DataFrame
    clusters: pd.DataFrame
    tsne: pd.DataFrame


def read_results(study_folder: Path, layout: Layout) -> Results:
    """What was collected, for the study that the layout describes.

    Raises InputError where a file is absent or has other columns, holds a task, encoder, method or
    metric that the study has not, or where the files are not of the same runs.
    """
    read = [
        _read(study_folder / name, columns, layout)
        for name, columns in (
            (RUNS, RUNS_COLUMNS),
            (EXITS, EXITS_COLUMNS),
            (CURVES, CURVES_COLUMNS),
            (TIMINGS, TIMINGS_COLUMNS),
            (GRADIENTS, GRADIENTS_COLUMNS),
            (CLUSTERS, CLUSTERS_COLUMNS),
            (TSNE_POINTS, TSNE_COLUMNS),
        )
    ]
    results = Results(*read)
    known = _run_keys(results.exits)
    clustered = layout.and_variants(layout.clusters)
    for name, keys, wanted in (
        (TIMINGS, _run_keys(results.timings), known),
        (CURVES, _run_keys(results.curves), {key for key in known if key[2] in layout.multi_exit}),
        (
            GRADIENTS,
            _run_keys(results.gradients),
            {key for key in known if key[2] in layout.observing},
        ),
        (CLUSTERS, _run_keys(results.clusters), {key for key in known if key[2] in clustered}),
    ):
        if keys != wanted:
            raise InputError(
                f"{study_folder / name}: not of the same runs as {EXITS}; gather both again"
            )
    return results


def _run_keys(table: pd.DataFrame) -> set[tuple[Any, ...]]:
    keys = table[[*CELL[:3], "seed", "run_hash"]].drop_duplicates()
    return set(keys.itertuples(index=False, name=None))


def _read(path: Path, columns: tuple[str, ...], layout: Layout) -> pd.DataFrame:
    names = {name: "string" for name in (*CELL, "run_hash", "criterion")}
    try:
        # Ids are words: a task may be called "null" without becoming a missing value.
        table = pd.read_csv(
            path,
            dtype=names,
            keep_default_na=False,
            na_values={name: [""] for name in columns if name not in names},
        )
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; collect the runs first") from error
    if tuple(table.columns) != columns:
        raise InputError(
            f"{path}: columns are {', '.join(table.columns)}, not {', '.join(columns)}; "
            "collect the runs again"
        )
    named = [name for name in CELL if name in columns]  # timings have no metric
    for cell in table[named].drop_duplicates().itertuples(index=False, name=None):
        if cell[:3] not in layout.cells or not set(cell[3:]) <= set(layout.tasks[cell[0]].metrics):
            raise InputError(
                f"{path}: {' · '.join(cell)} is not part of the study; "
                "give the config the runs were made with, or collect this study's runs alone"
            )
    return table
