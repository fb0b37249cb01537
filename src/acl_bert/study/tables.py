"""The table of fine-tuning results, beside the paper's and other published numbers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from acl_bert.errors import InputError
from acl_bert.files import write_text
from acl_bert.study.collect import RUNS_COLUMNS
from acl_bert.study.layout import SHORT_METRIC_NAMES, Layout

CELL = ["task", "encoder", "method", "metric"]
STATISTICS = ["n", "mean", "sd", "median", "min", "max"]
TABLE_COLUMNS = [*CELL, *STATISTICS, "paper", "reference", "reference_source"]

MISSING = "–"
DAGGER = "†"


@dataclass(frozen=True)
class Published:
    """Published numbers in percent, by (encoder's path, method, task, metric)."""

    paper: Mapping[tuple[str, str, str, str], float]
    reference: Mapping[tuple[str, str, str, str], tuple[float, str]]


@cache
def published() -> Published:
    """The numbers of `published.yaml`."""
    text = resources.files("acl_bert.study").joinpath("published.yaml").read_text("utf-8")
    data = yaml.safe_load(text)
    reference: dict[tuple[str, str, str, str], tuple[float, str]] = {}
    for entry in data["reference"]:
        for key, value in _published_cells(entry):
            reference.setdefault(key, (value, entry["source"]))
    paper = dict(cell for entry in data["paper"] for cell in _published_cells(entry))
    return Published(paper, reference)


def _published_cells(
    entry: Mapping[str, Any],
) -> Iterable[tuple[tuple[str, str, str, str], float]]:
    for encoder in entry["encoders"]:
        for method, tasks in entry["values"].items():
            for task, metrics in tasks.items():
                for metric, value in metrics.items():
                    yield (encoder, method, task, metric), value


def read_runs(path: Path) -> pd.DataFrame:
    """`runs.csv` with its types: values are fractions, `degenerate` is bool.

    Raises InputError where the file is absent or has other columns.
    """
    names = {name: "string" for name in (*CELL, "run_hash")}
    try:
        # Ids are words: a task may be called "null" without becoming a missing value.
        runs = pd.read_csv(path, dtype=names, keep_default_na=False)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; collect the runs first") from error
    if tuple(runs.columns) != RUNS_COLUMNS:
        raise InputError(
            f"{path}: columns are {', '.join(runs.columns)}, not {', '.join(RUNS_COLUMNS)}; "
            "collect the runs again"
        )
    return runs


def finetuning_table(runs: pd.DataFrame, layout: Layout, published: Published) -> pd.DataFrame:
    """Statistics over seeds of each (task, encoder, method, metric), in percent, one row each.

    Rows follow the layout, one for each cell it expects: a cell without finished runs has n = 0
    and no statistics. sd has n − 1 in the denominator and is missing at n = 1. `paper` and
    `reference` are published for the encoder's path, so a renamed encoder keeps them.
    Raises InputError for a run of a task, encoder, method or metric that the layout lacks.
    """
    cells = pd.DataFrame(
        [
            (task, encoder, method, metric)
            for task, shown in layout.tasks.items()
            for encoder in layout.encoders
            for method in layout.methods
            for metric in shown.metrics
        ],
        columns=pd.Index(CELL),
    )
    _refuse_unknown(runs, cells)
    statistics = (
        runs.assign(percent=100 * runs["value"])
        .groupby(CELL)["percent"]
        .agg(n="count", mean="mean", sd="std", median="median", min="min", max="max")
        .reset_index()
    )
    table = cells.merge(statistics, on=CELL, how="left")
    table["n"] = table["n"].fillna(0).astype(int)
    keys = [
        (layout.encoders[encoder], method, task, metric)
        for task, encoder, method, metric in table[CELL].itertuples(index=False)
    ]
    references = [published.reference.get(key, (None, None)) for key in keys]
    table["paper"] = pd.Series([published.paper.get(key) for key in keys], dtype=float)
    table["reference"] = pd.Series([value for value, _ in references], dtype=float)
    table["reference_source"] = [source for _, source in references]
    return table[TABLE_COLUMNS]


def _refuse_unknown(runs: pd.DataFrame, cells: pd.DataFrame) -> None:
    known = set(cells.itertuples(index=False, name=None))
    for cell in runs[CELL].drop_duplicates().itertuples(index=False, name=None):
        if cell not in known:
            raise InputError(
                f"runs: {' · '.join(cell)} is not part of the study; "
                "give the config the runs were made with, or collect this study's runs alone"
            )


def degenerate_counts(runs: pd.DataFrame) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Degenerate runs and all runs by (task, encoder, method), where there are degenerate ones."""
    single = runs.drop_duplicates(["task", "encoder", "method", "seed"])
    counts = single.groupby(["task", "encoder", "method"])["degenerate"].agg(["sum", "count"])
    return {
        (str(task), str(encoder), str(method)): (int(flagged), int(n))
        for (task, encoder, method), flagged, n in counts.itertuples(name=None)
        if flagged
    }


@dataclass(frozen=True)
class _Cell:
    """One entry of the printed table. `sd` is None with one run; `n` given where seeds lack."""

    mean: float | None
    sd: float | None = None
    n: int | None = None
    best: bool = False
    degenerate: bool = False


@dataclass(frozen=True)
class _Grid:
    """The printed table of one encoder: a row a method, then published rows; a column a metric."""

    encoder: str
    path: str
    columns: list[str]
    rows: list[tuple[str, list[_Cell]]]
    published_rows: list[tuple[str, list[_Cell]]]


def _grids(
    table: pd.DataFrame, layout: Layout, degenerate: Iterable[tuple[str, str, str]]
) -> list[_Grid]:
    flagged = set(degenerate)
    columns = [(task, metric) for task, shown in layout.tasks.items() for metric in shown.metrics]
    lookup: dict[tuple[str, str, str, str], dict[Any, Any]] = {
        (row["task"], row["encoder"], row["method"], row["metric"]): row
        for row in table.to_dict("records")
    }
    grids = []
    for encoder, path in layout.encoders.items():

        def row(method: str, task: str, metric: str, encoder: str = encoder) -> dict[Any, Any]:
            return lookup[task, encoder, method, metric]

        best: dict[tuple[str, str], float] = {}
        for column in columns:
            means = [_shown(row(method, *column)["mean"]) for method in layout.methods]
            finished = [mean for mean in means if mean is not None]
            if len(finished) > 1:  # the best of one is no finding
                best[column] = max(finished)
        rows = []
        for method, title in layout.methods.items():
            cells = []
            for task, metric in columns:
                cell = row(method, task, metric)
                mean = _shown(cell["mean"])
                cells.append(
                    _Cell(
                        mean,
                        _shown(cell["sd"]),
                        cell["n"] if 0 < cell["n"] != len(layout.seeds) else None,
                        mean is not None and best.get((task, metric)) == mean,
                        (task, encoder, method) in flagged,
                    )
                )
            rows.append((title, cells))
        extra = []
        for method, title in layout.methods.items():
            for kind, name in (("paper", "paper"), ("reference", "published")):
                values = [_shown(row(method, *column)[kind]) for column in columns]
                if any(value is not None for value in values):
                    extra.append((f"{title}, {name}", [_Cell(value) for value in values]))
        grids.append(
            _Grid(
                encoder,
                path,
                [f"{layout.tasks[task].title} {_metric(metric)}" for task, metric in columns],
                rows,
                extra,
            )
        )
    return grids


def _shown(value: float | None) -> float | None:
    """What is printed of a number: equal to one decimal is equal, when the best is sought."""
    return None if value is None or pd.isna(value) else round(float(value), 1)


def _metric(metric: str) -> str:
    return SHORT_METRIC_NAMES.get(metric, metric)


def _notes(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> list[str]:
    seeds = len(layout.seeds)
    over = f"mean ± sd (n − 1) over {seeds} seeds" if seeds > 1 else "one seed"
    notes = [
        f"Dev sets, percent, {over}; best mean of a column in bold; {MISSING}: no number.",
        *layout.notes(),
    ]
    for (task, encoder, method), (count, n) in degenerate_counts(runs).items():
        notes.append(
            f"{DAGGER} {layout.tasks[task].title}, {encoder}, {layout.methods[method]}: "
            f"{count} of {n} runs degenerate (one class predicted, or Matthews 0), counted in."
        )
    sources = table["reference_source"].dropna().unique()
    if table["paper"].notna().any():
        notes.append("Paper: arXiv 2602.03563; its encoder is inferred.")
    notes += [f"Published: {source}." for source in sources]
    return notes


def markdown(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> str:
    """The table as Markdown: a section for each encoder, then the notes."""

    def cell(value: _Cell) -> str:
        text = _text(value, " ± ", DAGGER, MISSING)
        return f"**{text}**" if value.best else text

    lines = [f"# Fine-tuning: {layout.study}", ""]
    for grid in _grids(table, layout, degenerate_counts(runs)):
        lines += [f"## {grid.encoder} (`{grid.path}`)", ""]
        lines.append(_pipes(["method", *grid.columns]))
        lines.append(_pipes(["---", *("---:" for _ in grid.columns)]))
        lines += [_pipes([title, *map(cell, cells)]) for title, cells in grid.rows]
        lines += [_pipes([f"*{name}*", *map(cell, cells)]) for name, cells in grid.published_rows]
        lines.append("")
    lines += [f"- {note}" for note in _notes(table, layout, runs)]
    return "\n".join(lines) + "\n"


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def latex(table: pd.DataFrame, layout: Layout, runs: pd.DataFrame) -> str:
    """The table as LaTeX: one `table` for each encoder; needs booktabs and graphicx."""

    def cell(value: _Cell) -> str:
        text = _text(value, r" $\pm$ ", r"\textsuperscript{\textdagger}", "--")
        return rf"\textbf{{{text}}}" if value.best else text

    notes = r" \\ ".join(_escape(note) for note in _notes(table, layout, runs))
    parts = [r"% needs \usepackage{booktabs,graphicx}"]
    for grid in _grids(table, layout, degenerate_counts(runs)):
        rule = len(grid.rows)
        body = [
            " & ".join([_escape(title), *map(cell, cells)]) + r" \\"
            for title, cells in (*grid.rows, *grid.published_rows)
        ]
        if grid.published_rows:
            body.insert(rule, r"\midrule")
        parts += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{Fine-tuning {_escape(grid.encoder)} ({_escape(grid.path)}): "
            rf"{_escape(layout.study)}.}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
            r"\toprule",
            " & ".join(["method", *map(_escape, grid.columns)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\par\smallskip{{\footnotesize {notes}\par}}",
            r"\end{table}",
        ]
    return "\n".join(parts) + "\n"


def _text(cell: _Cell, plus_minus: str, dagger: str, missing: str) -> str:
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
    DAGGER: r"\textdagger{}",
}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def write_tables(runs: pd.DataFrame, layout: Layout, folder: Path) -> list[Path]:
    """Write `finetuning.csv` (tidy), `.md` and `.tex` to `folder`; returns their paths."""
    table = finetuning_table(runs, layout, published())
    texts: dict[str, Callable[[], str]] = {
        # Ten digits: no noise of binary fractions, and more than any number of dev rows resolves.
        "csv": lambda: table.to_csv(index=False, float_format="%.10g", lineterminator="\n"),
        "md": lambda: markdown(table, layout, runs),
        "tex": lambda: latex(table, layout, runs),
    }
    paths = []
    for ending, render in texts.items():
        path = folder / f"finetuning.{ending}"
        write_text(path, render())
        paths.append(path)
    return paths
