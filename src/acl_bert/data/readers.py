"""Files of rows, read without losing or merging one: tab-separated, CSV, JSON lines.

Every reader yields `(line, {column: value})`, the line being the 1-based one on which the row
starts, and raises InputError naming file, line and remedy for a row that it cannot read.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError, first_line

Row = tuple[int, dict[str, Any]]
_POINTERS = {b"version https://git-lfs": "git lfs pull", b"/annex/objects/": "git annex get"}


def read_text(path: Path) -> str:
    """The file's text without a byte order mark."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the folder and the file's name") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); mend that first") from None
    for start, command in _POINTERS.items():
        if content.startswith(start):
            raise InputError(
                f"{path}: line 1: a pointer to the file, not the file; fetch it with `{command}`"
            )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: not UTF-8 (byte {content[error.start]:#04x}); "
            "save the file as UTF-8"
        ) from None
    if not text.strip():
        raise InputError(f"{path}: line 1: the file is empty; fetch it again")
    return text


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """The text's lines, numbered from 1.

    Only a line feed ends a line: str.splitlines would also break at U+0085 or U+2028, which stand
    inside GLUE's sentences.
    """
    lines = text.split("\n")
    if lines[-1] == "":  # the file ends with a line feed, as not every one does
        lines.pop()
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix("\r")


def read_tabbed(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Fields between tabs; a quote is a character like any other."""
    for number, line in lines_of(read_text(path)):
        yield number, line.split("\t")


def read_tabbed_quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Fields between tabs, some of them CSV-quoted, as in QQP.

    A field is quoted if it starts with a quote and can be read to a closing quote, inner quotes
    being doubled, that ends the field; it may then hold line feeds. Otherwise its quotes are
    characters. It may not hold a tab: a bare quote would swallow whole rows up to the next one.
    """
    text = read_text(path)
    at, line = 0, 1
    while at < len(text):
        start, fields, more = line, [], True
        while more:
            end = _closing_quote(text, at) if text.startswith('"', at) else None
            if end is not None:
                fields.append(text[at + 1 : end].replace('""', '"'))
                line += text.count("\n", at, end)
                at = end + 1
            else:
                end = _field_end(text, at)
                fields.append(text[at:end].removesuffix("\r"))
                at = end
            if text.startswith("\r\n", at):
                at += 1
            more = text.startswith("\t", at)
            at += 1  # over the tab or line feed
        yield start, fields
        line += 1


def _field_end(text: str, at: int) -> int:
    ends = [end for end in (text.find("\t", at), text.find("\n", at)) if end >= 0]
    return min(ends, default=len(text))


def _closing_quote(text: str, at: int) -> int | None:
    """Where the quoted field that opens at `at` closes; None if it is not one."""
    limit = text.find("\t", at)
    end = at
    while True:
        end = text.find('"', end + 1, limit if limit >= 0 else len(text))
        if end < 0:
            return None
        if text.startswith('"', end + 1):  # a doubled one
            end += 1
        elif end + 1 == len(text) or text.startswith(("\t", "\n", "\r\n"), end + 1):
            return end
        else:
            return None


def read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Comma-separated fields; a quoted one may hold commas, doubled quotes and line feeds."""
    csv.field_size_limit(2**31 - 1)  # a text may be longer than the 128 KiB that are the default
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}: line {line}: not CSV ({error}); double the quotes inside a field "
                "and put the field between quotes"
            ) from None
        yield line, fields


def read_unquoted_or_refuse(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Fields between tabs where no field starts with a quote, so that nothing need be guessed."""
    for number, fields in read_tabbed(path):
        if any(field.startswith('"') for field in fields):
            raise InputError(
                f"{path}: line {number}: a field starts with a quote; say whether quotes enclose "
                "fields (`quoting: csv`) or are part of the text (`quoting: none`)"
            )
        yield number, fields


def name_columns(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[str] | None = None,
    header: bool = True,
) -> Iterator[Row]:
    """Rows of fields as rows by column.

    `columns` are those the file must have, in order; None takes them from the header. Raises
    InputError for another header and for a row with more or fewer fields.
    """
    if header:
        _, found = next(rows)
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise InputError(f"{path}: line 1: column {twice[0]!r} stands there twice; rename one")
        if columns is not None and found != list(columns):
            raise InputError(
                f"{path}: line 1: the header is {_shown(found)}, not {_shown(columns)}; "
                "is it the task's own file?"
            )
        columns = found
    if columns is None:
        raise ValueError("columns are needed where there is no header")
    for line, fields in rows:
        if len(fields) != len(columns):
            raise InputError(
                f"{path}: line {line}: {len(fields)} fields instead of {len(columns)} "
                f"({_shown(columns)}); mend or remove that line"
            )
        yield line, dict(zip(columns, fields, strict=True))


def _shown(columns: Sequence[str]) -> str:
    shown = ", ".join(columns)
    return shown if len(shown) <= 200 else shown[:197] + "..."


def read_json_lines(path: Path) -> Iterator[Row]:
    """One JSON object a line."""
    for number, line in lines_of(read_text(path)):
        try:
            row = json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: line {number}: not JSON ({first_line(error)}); write one object a line"
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"{path}: line {number}: not a JSON object; write one object a line")
        yield number, row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key stands there twice")
    return row


TABBED: dict[str | None, Callable[[Path], Iterator[tuple[int, list[str]]]]] = {
    "none": read_tabbed,
    "csv": read_tabbed_quoted,
    None: read_unquoted_or_refuse,
}


def read_table(path: Path, quoting: str | None = None) -> Iterator[Row]:
    """A user's file, by its suffix; `quoting` is that of a .tsv file."""
    match path.suffix.lower():
        case ".csv":
            return name_columns(path, read_csv(path))
        case ".tsv":
            return name_columns(path, TABBED[quoting](path))
        case ".jsonl":
            return read_json_lines(path)
        case suffix:
            raise InputError(f"{path}: unknown suffix {suffix!r}; name it .csv, .tsv or .jsonl")
