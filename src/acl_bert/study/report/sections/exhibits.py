"""The study's tables and figures."""

from collections.abc import Container
from pathlib import Path

from acl_bert.study.exhibits import figures_of, tables_of
from acl_bert.study.grids import DAGGER, MISSING, cell_text
from acl_bert.study.report.report import Block, Entry, FigureView, Group, Notes, Part, TableView
from acl_bert.study.report.sections import Material
from acl_bert.study.tables import Table

# The first tables of an exhibit are open; the others open at a click.
OPEN = 2


def tables(study: Material, names: Container[str], otherwise: str) -> list[Block]:
    """The tables of some names; `otherwise` is the text where the study has none of them."""
    blocks: list[Block] = [
        _table(study, study.tables[each.name], entry.caption)
        for each, entry in tables_of(study.layout)
        if each.name in names and each.name in study.tables
    ]
    return blocks or [Notes([otherwise])]


def figures(study: Material) -> list[Block]:
    blocks: list[Block] = []
    for each, entry in figures_of(study.layout):
        picture, drawing = (
            study.folder / "figures" / f"{each.name}.{kind}" for kind in ("png", "pdf")
        )
        if picture.is_file():
            data = (study.folder / name for name in (*entry.data, f"tables/{each.name}.csv"))
            files = [path for path in (picture, drawing, *data) if path.is_file()]
            blocks.append(FigureView(each.title, picture, entry.caption, files))
    return blocks or [Notes(["None yet."])]


def table_files(study: Material, name: str) -> list[Path]:
    paths = (study.folder / "tables" / f"{name}.{kind}" for kind in ("csv", "md", "tex"))
    return [path for path in paths if path.is_file()]


def _table(study: Material, table: Table, caption: str) -> Part:
    """The caption, the notes that all grids share, and the grids."""
    first, *others = table.grids
    shared = [note for note in first.notes if others and all(note in grid.notes for grid in others)]
    views = [
        TableView(
            [grid.rows_are, *grid.columns],
            [
                Group(
                    [
                        [
                            Entry(row.title),
                            *(
                                Entry(cell_text(cell, " ± ", DAGGER, MISSING), best=cell.best)
                                for cell in row.cells
                            ),
                        ]
                        for row in block.rows
                    ],
                    block.title,
                )
                for block in grid.blocks
            ],
            grid.heading,
            [note for note in grid.notes if note not in shared],
            open=number < OPEN,
        )
        for number, grid in enumerate(table.grids)
    ]
    return Part(table.title, caption, views, table_files(study, table.name), shared)
