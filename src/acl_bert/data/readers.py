"""Files of rows: tab-separated, CSV, JSON lines.

The libraries' readers give no line numbers, merge lines at quotation marks or drop faulty rows.
These yield `(line, {column: value})`, the line being the one on which the row starts, from 1, and
raise InputError naming file, line and remedy for a row that they cannot read.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError, first_line

Row = tuple[int, dict[str, Any]]
Fields = Iterator[tuple[int, list[str]]]

_POINTERS = {b"version https://git-lfs": "git lfs pull", b"/annex/objects/": "git annex get"}
# A field and what ends it. It is quoted if it starts with a quotation mark and the next one that
# is not doubled ends it; else its marks are characters. A quoted field may hold line feeds but no
# tab: otherwise a bare mark would swallow all rows up to the next mark.
_FIELD = re.compile(
    r'(?:"(?P<quoted>[^"\t]*(?:""[^"\t]*)*)"|(?P<plain>[^\t\n]*?))\r?(?P<end>[\t\n]|\Z)'
)


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

    Only a line feed ends a line: str.splitlines would also break at U+0085 or U+2028, which occur
    inside GLUE's sentences.
    """
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        yield number, line.removesuffix("\r")


def read_tabbed(path: Path, quoting: str | None) -> Fields:
    """Fields between tabs.

    `quoting`: "none", a quotation mark is a character like any other; "csv", some fields are
    CSV-quoted, as in QQP; None, a field that starts with a mark is refused as ambiguous.
    """
    text = read_text(path)
    if quoting == "csv":
        yield from _quoted(text)
        return
    for number, line in lines_of(text):
        fields = line.split("\t")
        if quoting is None and any(field.startswith('"') for field in fields):
            raise InputError(
                f"{path}: line {number}: a field starts with a quote; say whether quotes enclose "
                "fields (`quoting: csv`) or are part of the text (`quoting: none`)"
            )
        yield number, fields


def _quoted(text: str) -> Fields:
    at, line = 0, 1
    while at < len(text):
        start, fields, end = line, [], "\t"
        while end == "\t":
            match = _FIELD.match(text, at)
            assert match  # every text starts with some field
            quoted, plain, end = match.groups()
            fields.append(plain if quoted is None else quoted.replace('""', '"'))
            line += match[0].count("\n")
            at = match.end()
        yield start, fields


def read_csv(path: Path) -> Fields:
    """Comma-separated fields; a quoted one may hold commas, doubled quotes and line feeds."""
    csv.field_size_limit(2**31 - 1)  # a text may be longer than the 128 KiB that are the default
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}: line {line}: not CSV ({error}); double the quotes inside a field "
            "and put the field between quotes"
        ) from None


def name_columns(
    path: Path, rows: Fields, columns: Sequence[str] | None = None, header: bool = True
) -> Iterator[Row]:
    """Rows of fields as rows by column.

    `columns` are those the file must have, in order; None takes them from the header. Raises
    InputError for another header and for a row with more or fewer fields.
    """
    if header:
        _, found = next(rows)
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise InputError(f"{path}: line 1: column {twice[0]!r} occurs twice; rename one")
        if columns is not None and found != list(columns):
            raise InputError(
                f"{path}: line 1: the header is {_abridged(found)}, not {_abridged(columns)}; "
                "is it the task's own file?"
            )
        columns = found
    assert columns is not None, "a file without a header needs the names of its columns"
    for line, fields in rows:
        if len(fields) != len(columns):
            raise InputError(
                f"{path}: line {line}: {len(fields)} fields instead of {len(columns)} "
                f"({_abridged(columns)}); mend or remove that line"
            )
        yield line, dict(zip(columns, fields, strict=True))


def _abridged(columns: Sequence[str]) -> str:
    text = ", ".join(columns)
    return text if len(text) <= 200 else text[:197] + "..."


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
        raise ValueError("a key occurs twice")
    return row


def read_table(path: Path, quoting: str | None = None) -> Iterator[Row]:
    """A user's file, by its suffix; `quoting` is that of a .tsv file (see `read_tabbed`)."""
    match path.suffix.lower():
        case ".csv":
            return name_columns(path, read_csv(path))
        case ".tsv":
            return name_columns(path, read_tabbed(path, quoting))
        case ".jsonl":
            return read_json_lines(path)
        case suffix:
            raise InputError(f"{path}: unknown suffix {suffix!r}; name it .csv, .tsv or .jsonl")
