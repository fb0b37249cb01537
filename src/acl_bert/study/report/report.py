"""The report as a page: its blocks, which hold text, numbers and paths alone, and their layout.

What a study's report says is in `sections/`; here is only how its blocks look.
"""

import base64
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from acl_bert.files import write_text
from acl_bert.study.claims.ledger import Verdict

# A verdict is told by a mark and its word too: colours are not seen by all, or printed.
VERDICT_MARKS: Mapping[Verdict, str] = {
    "supported": "✓",
    "contradicted": "✗",
    "inconclusive": "?",
    "not run": "–",
    "stand-in": "◌",
}


@dataclass(frozen=True)
class Entry:
    """What stands in a table's cell, shown as `code`, or linked to `path`, a file or folder."""

    text: str
    best: bool = False
    code: bool = False
    path: Path | None = None


@dataclass(frozen=True)
class Group:
    """Rows that are sorted among themselves, under a title of their own where there is one."""

    rows: Sequence[Sequence[Entry]]
    title: str | None = None


@dataclass(frozen=True)
class TableView:
    """A row's first entry names it. A table that is not `open` is folded under its heading."""

    kind: ClassVar = "table"
    columns: Sequence[str]
    groups: Sequence[Group]
    heading: str
    notes: Sequence[str] = ()
    open: bool = True


def entries(rows: Iterable[Iterable[Entry | str]]) -> list[list[Entry]]:
    """Rows in which a text stands for a plain entry."""
    return [[Entry(each) if isinstance(each, str) else each for each in row] for row in rows]


def table(
    columns: Sequence[str],
    rows: Iterable[Iterable[Entry | str]],
    heading: str,
    notes: Sequence[str] = (),
    open: bool = True,
) -> TableView:
    """A table whose rows are one group without a title."""
    return TableView(columns, [Group(entries(rows))], heading, notes, open)


@dataclass(frozen=True)
class Notes:
    """Sentences, as paragraphs or as a list."""

    kind: ClassVar = "notes"
    texts: Sequence[str]
    listed: bool = False


@dataclass(frozen=True)
class Facts:
    """Terms and what is said of each, one or several lines."""

    kind: ClassVar = "facts"
    of: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Files:
    kind: ClassVar = "files"
    paths: Sequence[Path]


@dataclass(frozen=True)
class Command:
    """A line to copy, and what it is for."""

    kind: ClassVar = "command"
    text: str
    line: str


@dataclass(frozen=True)
class FigureView:
    """A picture (PNG), embedded, with its caption and the files that it is in and made from."""

    kind: ClassVar = "figure"
    title: str
    picture: Path
    caption: str
    files: Sequence[Path]


@dataclass(frozen=True)
class ClaimView:
    """One of the paper's claims: a row of numbers for each statistic it is judged by.

    `columns` name the numbers: effect, interval, p, the smallest detectable effect.
    """

    kind: ClassVar = "claim"
    title: str
    verdict: Verdict
    reason: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    details: Sequence[str] = ()

    @property
    def mark(self) -> str:
        return VERDICT_MARKS[self.verdict]

    @property
    def numbers(self) -> TableView:
        return table(self.columns, self.rows, self.title)


@dataclass(frozen=True)
class Part:
    """Tables of one kind, with the files that hold the same and the notes that all share."""

    kind: ClassVar = "part"
    title: str
    caption: str
    tables: Sequence[TableView]
    files: Sequence[Path] = ()
    notes: Sequence[str] = ()


Block = TableView | Notes | Facts | Files | Command | FigureView | ClaimView | Part


@dataclass(frozen=True)
class Section:
    name: str
    """In addresses within the page, each once."""
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Report:
    """`warning` and its reasons stand above all: which verdicts the study withholds, and why."""

    title: str
    summary: str
    sections: Sequence[Section]
    warning: str | None = None
    reasons: Sequence[str] = ()


def write_report(report: Report, path: Path) -> None:
    """Write the page to `path`, pictures, styles and script within it.

    Files are linked from where `path` lies. Raises OSError where a picture cannot be read.
    """

    def place(file: Path) -> str:
        return os.path.relpath(file, path.parent)

    environment = Environment(
        loader=PackageLoader("acl_bert.study.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"place": place, "embedded": embedded, "size": picture_size}
    template = environment.get_template("report.html.j2")
    write_text(path, template.render(report=report, verdicts=VERDICT_MARKS))


def embedded(picture: Path) -> str:
    """A PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")


def picture_size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG in pixels: a page that knows them does not jump when it is shown.

    They stand at byte 16 of every PNG (W3C, Portable Network Graphics, 11.2.1).
    """
    with picture.open("rb") as stream:
        width, height = struct.unpack(">II", stream.read(24)[16:])
    return width, height
