"""Statistics of scores over seeds."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

CONFIGURATION = ["task", "encoder", "method"]
RUN = [*CONFIGURATION, "seed"]
CELL = [*CONFIGURATION, "metric"]
STATISTICS = ["n", "mean", "sd", "median", "min", "max"]


def over_seeds(
    keys: Iterable[tuple[Any, ...]], columns: Sequence[str], values: pd.DataFrame, by: Sequence[str]
) -> pd.DataFrame:
    """A row for each of `keys`, named by `columns`, with STATISTICS of the `values`, in percent.

    They are over the rows of `values` that agree with the key in `by`; a missing value does not
    count. sd has n − 1 in the denominator and is missing at n = 1. At n = 0 all are missing.
    """
    statistics = (
        values.assign(percent=100 * values["value"])
        .groupby(list(by), sort=False)["percent"]
        .agg(n="count", mean="mean", sd="std", median="median", min="min", max="max")
    )
    table = pd.DataFrame(list(keys), columns=pd.Index(columns))
    return table.join(statistics, on=list(by)).fillna({"n": 0}).astype({"n": int})


def count_degenerate(table: pd.DataFrame, runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The table with `degenerate`: how many of the `runs` that agree with a row in `by` are."""
    counts = runs.drop_duplicates([*by, "seed"]).groupby(list(by))["degenerate"].sum()
    return table.join(counts, on=list(by)).fillna({"degenerate": 0})
