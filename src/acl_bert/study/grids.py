"""Printed tables: means with their sd in a grid, as CSV, Markdown and LaTeX."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from acl_bert.files import write_text
from acl_bert.study.layout import SHORT_METRIC_NAMES, Layout
from acl_bert.study.seeds import CONFIGURATION

MISSING = "–"
DAGGER = "†"


@dataclass(frozen=True)
class Cell:
    """A number with its sd (None with one run) and marks, or words in `text`, or nothing.

    `n` is given only where it is not the number of seeds.
    """

    mean: float | None = None
    sd: float | None = None
    n: int | None = None
    best: bool = False
    degenerate: bool = False
    text: str | None = None


@dataclass(frozen=True)
class Row:
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Block:
    """Rows under a title of their own; the first block of a grid may have none."""

    rows: list[Row]
    title: str | None = None


@dataclass(frozen=True)
class Grid:
    """A section of a printed table, with the notes that its numbers need.

    `rows_are` is the heading over the titles of the rows.
    """

    heading: str
    columns: list[str]
    blocks: list[Block]
    notes: list[str] = field(default_factory=list)
    rows_are: str = "method"

    @property
    def worded(self) -> list[bool]:
        """Of each column, whether it has words, which are aligned left, and not numbers."""
        rows = [row.cells for block in self.blocks for row in block.rows]
        return [any(cells[i].text for cells in rows) for i in range(len(self.columns))]


def number_blocks(
    cells: pd.DataFrame, columns: Sequence[Any], seeds: int, best: bool = True
) -> list[Block]:
    """The blocks of a grid from one row of `cells` a number: its `block`, `row` and `column`.

    Blocks and rows come in the order in which `cells` names them. A number has `mean`, `sd` and
    `n`; it may have `degenerate`, how many of its runs are, and `complete`, the n that is not
    printed (otherwise `seeds`). A number that is absent or NaN is printed as missing. With `best`,
    the highest printed mean of each column and block is marked, unless it is alone there.
    """
    cells = cells.copy()
    # Python's rounding, which printing uses too; that of pandas differs, as for 0.35.
    cells[["mean", "sd"]] = cells[["mean", "sd"]].astype(float).map(lambda number: round(number, 1))
    in_column = cells.groupby(["block", "column"], dropna=False)["mean"]
    compared = best & in_column.transform("count").gt(1)
    cells["best"] = compared & cells["mean"].eq(in_column.transform("max"))
    blocks: dict[str | None, dict[str, dict[Any, Cell]]] = {}
    for each in cells.to_dict("records"):
        entries = blocks.setdefault(each["block"], {}).setdefault(each["row"], {})
        if pd.notna(each["mean"]):
            sd = None if pd.isna(each["sd"]) else each["sd"]
            n = None if each["n"] == each.get("complete", seeds) else int(each["n"])
            degenerate = each.get("degenerate", 0) > 0
            entries[each["column"]] = Cell(each["mean"], sd, n, each["best"], degenerate)
    return [
        Block(
            [Row(name, [of.get(key, Cell()) for key in columns]) for name, of in rows.items()],
            title,
        )
        for title, rows in blocks.items()
    ]


def in_order(table: pd.DataFrame, layout: Layout, *by: str) -> pd.DataFrame:
    """The rows by some of task, encoder and method, each in the layout's order."""
    names = {"task": layout.tasks, "encoder": layout.encoders, "method": layout.methods}
    ranks = {key: {name: i for i, name in enumerate(names[key])} for key in by}
    return table.sort_values(
        list(by), key=lambda column: column.map(ranks[str(column.name)]), kind="stable"
    )


def text_grid(
    heading: str, headings: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> Grid:
    """A grid of words; the first of `headings` is over the rows' titles, the first of each row."""
    body = [Row(title, [Cell(text=text) for text in texts]) for title, *texts in rows]
    return Grid(heading, list(headings[1:]), [Block(body)], list(notes), headings[0])


def metric_title(metric: str) -> str:
    return SHORT_METRIC_NAMES.get(metric, metric)


def metric_columns(layout: Layout) -> dict[tuple[str, str], str]:
    """The title of a column, by task and metric."""
    return {
        (name, metric): f"{task.title} {metric_title(metric)}"
        for name, task in layout.tasks.items()
        for metric in task.metrics
    }


def first_note(layout: Layout) -> str:
    """What the numbers of a table are."""
    seeds = len(layout.seeds)
    over = f"mean ± sd (n − 1) over {seeds} seeds" if seeds > 1 else "one seed"
    return (
        f"Dev sets, percent, {over}; best mean of a column and block in bold; {MISSING}: no number."
    )


def degenerate_notes(cells: pd.DataFrame, layout: Layout) -> list[str]:
    """A sentence for each (task, encoder, method) with `degenerate` runs in `cells`."""
    exit = ["exit"] if "exit" in cells else []
    some = cells[cells["degenerate"] > 0].drop_duplicates([*CONFIGURATION, *exit])
    notes = []
    for (task, encoder, method), rows in some.groupby(CONFIGURATION, sort=False):
        runs = [
            f"{row['degenerate']:.0f} of {row['n']} runs"
            + (f" at exit {row['exit']}" if exit else "")
            for row in rows.to_dict("records")
        ]
        notes.append(
            f"{DAGGER} {layout.tasks[task].title}, {encoder}, {layout.methods[method]}: "
            f"{', '.join(runs)} degenerate (one class predicted, or Matthews 0), counted in."
        )
    return notes


def write_table(path: Path, table: pd.DataFrame, title: str, grids: Sequence[Grid]) -> list[Path]:
    """Write `table`, tidy, to `<path>.csv` and `grids` to `.md` and `.tex`; returns the paths."""
    texts = {"csv": to_csv(table), "md": markdown(title, grids), "tex": latex(title, grids)}
    paths = [path.with_name(f"{path.name}.{ending}") for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def to_csv(table: pd.DataFrame) -> str:
    """Ten digits: no noise of binary fractions, and more than any number of dev rows resolves."""
    return table.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def markdown(title: str, grids: Sequence[Grid]) -> str:
    """A section for each grid, then the notes of all, each once."""

    def cell(value: Cell) -> str:
        text = cell_text(value, " ± ", DAGGER, MISSING)
        return f"**{text}**" if value.best else text

    lines = [f"# {title}", ""]
    for grid in grids:
        lines += [f"## {grid.heading}", ""]
        lines.append(_pipes([grid.rows_are, *grid.columns]))
        lines.append(_pipes(["---", *("---" if worded else "---:" for worded in grid.worded)]))
        for block in grid.blocks:
            if block.title is not None:
                lines.append(_pipes([f"*{block.title}*", *("" for _ in grid.columns)]))
            lines += [_pipes([row.title, *map(cell, row.cells)]) for row in block.rows]
        lines.append("")
    lines += [f"- {note}" for note in dict.fromkeys(note for grid in grids for note in grid.notes)]
    return "\n".join(lines) + "\n"


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def latex(title: str, grids: Sequence[Grid]) -> str:
    """One `table` for each grid, with its notes below; needs booktabs and graphicx."""

    def cell(value: Cell) -> str:
        if value.text is not None:
            return escape_latex(value.text)
        text = cell_text(value, r" $\pm$ ", r"\textsuperscript{\textdagger}", "--")
        return rf"\textbf{{{text}}}" if value.best else text

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + r" \\"

    lines = [r"% needs \usepackage{booktabs,graphicx}"]
    for grid in grids:
        body = []
        for block in grid.blocks:
            body.append(r"\midrule")
            if block.title is not None:
                width = 1 + len(grid.columns)
                heading = rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape_latex(block.title)}}}}}"
                body.append(line([heading]))
            body += [line([escape_latex(row.title), *map(cell, row.cells)]) for row in block.rows]
        notes = r" \\ ".join(map(escape_latex, grid.notes))
        lines += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(title)}. {escape_latex(grid.heading)}.}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{''.join('l' if worded else 'r' for worded in grid.worded)}}}",
            r"\toprule",
            line([escape_latex(grid.rows_are), *map(escape_latex, grid.columns)]),
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\par\smallskip{{\footnotesize {notes}\par}}",
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def cell_text(cell: Cell, plus_minus: str, dagger: str, missing: str) -> str:
    if cell.text is not None:
        return cell.text
    if cell.mean is None:
        return missing
    text = f"{cell.mean:.1f}"
    if cell.sd is not None:
        text += f"{plus_minus}{cell.sd:.1f}"
    if cell.n is not None:
        text += f" (n={cell.n})"
    return text + (dagger if cell.degenerate else "")


_LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "|": r"\textbar{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "γ": r"$\gamma$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "°": r"\textdegree{}",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    DAGGER: r"\textdagger{}",
}


def escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
