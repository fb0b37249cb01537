"""Printed tables: means with their sd in a grid, as CSV, Markdown and LaTeX."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from acl_bert.files import write_text
from acl_bert.study.layout import SHORT_METRIC_NAMES, Layout

MISSING = "–"
DAGGER = "†"


@dataclass(frozen=True)
class Cell:
    """One entry. `sd` is None with one run; `n` is given where seeds lack. Or else it is `text`."""

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
    """Rows under a title of their own, or the grid's first ones, which need none."""

    rows: list[Row]
    title: str | None = None


@dataclass(frozen=True)
class Grid:
    """A section of a printed table. `notes` are what it must not be shown without.

    `rows_are` is the heading over the rows' titles.
    """

    heading: str
    columns: list[str]
    blocks: list[Block]
    notes: list[str] = field(default_factory=list)
    rows_are: str = "method"

    @property
    def worded(self) -> list[bool]:
        """Of each column, whether it has words, which start at the left, and not numbers."""
        rows = [row.cells for block in self.blocks for row in block.rows]
        return [any(cells[place].text for cells in rows) for place in range(len(self.columns))]


def cells_by(table: pd.DataFrame, key: Sequence[str]) -> dict[tuple[Any, ...], Mapping[Any, Any]]:
    """The table's rows by the values of their `key` columns, which name each once."""
    return {tuple(row[name] for name in key): row for row in table.to_dict("records")}


def cell_of(row: Mapping[Any, Any] | None, layout: Layout, degenerate: bool = False) -> Cell:
    """The entry for a row with n, mean and sd; an absent row, or one with n = 0, is missing."""
    if row is None or row["n"] == 0:
        return Cell()
    n = int(row["n"]) if row["n"] != len(layout.seeds) else None
    return Cell(shown(row["mean"]), shown(row["sd"]), n, degenerate=degenerate)


def shown(value: float | None) -> float | None:
    """What is printed of a number: equal to one decimal is equal, when the best is sought."""
    return None if value is None or pd.isna(value) else round(float(value), 1)


def mark_best(rows: Iterable[Row]) -> list[Row]:
    """The rows, the highest mean of each column marked; the best of one is no finding."""
    rows = list(rows)
    best: list[float | None] = []
    for column in zip(*(row.cells for row in rows), strict=True):
        means = [cell.mean for cell in column if cell.mean is not None]
        best.append(max(means) if len(means) > 1 else None)
    return [
        Row(
            row.title,
            [
                replace(cell, best=cell.mean is not None and cell.mean == highest)
                for cell, highest in zip(row.cells, best, strict=True)
            ],
        )
        for row in rows
    ]


def text_grid(
    heading: str, headings: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> Grid:
    """A grid of words; the first of `headings` is over the rows' titles, the first of each row."""
    body = [Row(title, [Cell(text=text) for text in texts]) for title, *texts in rows]
    return Grid(heading, list(headings[1:]), [Block(body)], list(notes), headings[0])


def metric_title(metric: str) -> str:
    return SHORT_METRIC_NAMES.get(metric, metric)


def first_note(layout: Layout) -> str:
    """What the numbers of a table are."""
    seeds = len(layout.seeds)
    over = f"mean ± sd (n − 1) over {seeds} seeds" if seeds > 1 else "one seed"
    return (
        f"Dev sets, percent, {over}; best mean of a column and block in bold; {MISSING}: no number."
    )


def degenerate_note(cell: tuple[str, str, str], runs: str, layout: Layout) -> str:
    """About a (task, encoder, method); `runs` is such as "1 of 3 runs"."""
    task, encoder, method = cell
    return (
        f"{DAGGER} {layout.tasks[task].title}, {encoder}, {layout.methods[method]}: "
        f"{runs} degenerate (one class predicted, or Matthews 0), counted in."
    )


def write_table(path: Path, table: pd.DataFrame, title: str, grids: Sequence[Grid]) -> list[Path]:
    """Write `table`, tidy, to `<path>.csv` and `grids` to `.md` and `.tex`; returns the paths."""
    texts: dict[str, Callable[[], str]] = {
        "csv": lambda: to_csv(table),
        "md": lambda: markdown(title, grids),
        "tex": lambda: latex(title, grids),
    }
    paths = []
    for ending, render in texts.items():
        paths.append(path.with_name(f"{path.name}.{ending}"))
        write_text(paths[-1], render())
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

    parts = [r"% needs \usepackage{booktabs,graphicx}"]
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
        parts += [
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
    return "\n".join(parts) + "\n"


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
