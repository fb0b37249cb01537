"""The tables of a study, each as CSV, Markdown and LaTeX."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from acl_bert.files import write_text
from acl_bert.study.claims.claims import Claim
from acl_bert.study.exhibits import tables_of
from acl_bert.study.grids import Grid, to_csv, write_table
from acl_bert.study.layout import Layout
from acl_bert.study.multi_exit import layer_scores
from acl_bert.study.results import Results

LAYER_SCORES = "layer_scores"


@dataclass(frozen=True)
class Table:
    """A table, tidy in `frame` and as it is printed in `grids`."""

    name: str
    title: str
    frame: pd.DataFrame
    grids: Sequence[Grid]


def study_tables(results: Results, layout: Layout, claims: Mapping[str, Claim]) -> list[Table]:
    """The tables that the study has."""
    return [
        Table(each.name, each.title, *entry.make(results, layout, claims))
        for each, entry in tables_of(layout)
    ]


def write_tables(
    tables: Sequence[Table], results: Results, layout: Layout, folder: Path
) -> list[Path]:
    """Write tables to `folder`, each `.csv` (tidy), `.md` and `.tex`, and `layer_scores.csv`.

    Returns their paths.
    """
    paths = [folder / f"{LAYER_SCORES}.csv"]
    write_text(paths[0], to_csv(layer_scores(results.exits, layout)))
    for table in tables:
        title = f"{table.title}: {layout.study}"
        paths += write_table(folder / table.name, table.frame, title, table.grids)
    return paths
