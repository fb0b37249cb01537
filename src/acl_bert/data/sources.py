"""Where rows come from: four sources, one function each.

A new source is one more function that reads a split, and its line in SOURCES.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl_bert.data import generator, readers
from acl_bert.data.spec import Source, TaskSpec
from acl_bert.errors import InputError, first_line


@dataclass(frozen=True, slots=True)
class Example:
    """A row: its index in the source's split, one or two texts, the class (None if unlabelled)."""

    index: int
    text: list[str]
    label: int | None


def splits_of(spec: TaskSpec, source: Source) -> list[str]:
    """Names of the task's splits in this source: train, selection, the dev sets, the test sets.

    Raises InputError if the source has not got the task.
    """
    layouts: dict[str, Any] = {
        "hub": spec.hub and spec.hub.splits,
        "glue": spec.glue and spec.glue.files,
        "files": spec.files,
        "generator": spec.generate and ["train", *spec.dev_sets],
    }
    layout = layouts[source.kind]
    if not layout:
        key = "generate" if source.kind == "generator" else source.kind
        having = [kind for kind, value in layouts.items() if value]
        raise InputError(
            f"tasks.{spec.id}: source {source.kind} has no such task; "
            + (f"take source.kind {' or '.join(having)}, or " if having else "")
            + f"give the task the key {key}"
        )
    missing = [name for name in ("train", *spec.dev_sets) if name not in layout]
    if missing:
        raise InputError(
            f"tasks.{spec.id}.{source.kind}: no {', '.join(missing)}; say where that split is"
        )
    wanted = ["train", "selection", *spec.dev_sets]
    if source.test or source.kind == "files":
        wanted += spec.test_sets
    return [name for name in wanted if name in layout]


def read(spec: TaskSpec, source: Source, split: str) -> list[Example]:
    """All rows of a split, in the source's order.

    Raises InputError, naming the row, for a fault in one, and where there are not as many as the
    official data set has.
    """
    examples = SOURCES[source.kind](spec, source, split)
    found = len(examples)
    official = spec.rows.get(split, found) if source.kind in ("hub", "glue") else found
    if found == official or (spec.subset and found < official):
        return examples
    place = glue_path(spec, source, split) if source.kind == "glue" else f"{spec.id}, {split}"
    remedy = f"fetch it again, or set tasks.{spec.id}.rows.{split} if it is another release"
    if found < official:
        remedy = f"fetch it again, or say `subset: true` for tasks.{spec.id} to use a part"
    raise InputError(f"{place}: {found} rows, officially {official}; {remedy}")


def local_files(spec: TaskSpec, source: Source) -> list[Path]:
    """The files on this machine that the rows come from, as far as they are there now."""
    paths: list[Path] = []
    if source.kind == "hub" and source.folder is not None and spec.hub is not None:
        paths = sorted(Path(source.folder, spec.hub.config).glob("*.parquet"))
    elif source.kind == "files" or (source.kind == "glue" and source.folder is not None):
        path_of = own_path if source.kind == "files" else glue_path
        paths = [path_of(spec, source, split) for split in splits_of(spec, source)]
    return [path for path in paths if path.is_file()]


def read_hub(spec: TaskSpec, source: Source, split: str) -> list[Example]:
    """From the hub's data set, or from a folder that holds a copy of its repository."""
    from datasets import ClassLabel, load_dataset  # slow to import, and training never needs it

    layout = spec.hub
    assert layout is not None
    name = layout.splits[split]
    place = f"{source.folder or source.dataset}: {layout.config}, {name}"
    options: dict[str, Any]
    if source.folder is None:
        options = {"path": source.dataset, "name": layout.config, "revision": source.revision}
    else:
        pattern = f"{name}-*.parquet"
        found = sorted(Path(source.folder, layout.config).glob(pattern))
        if not found:
            raise InputError(
                f"{Path(source.folder, layout.config, pattern)}: no such file; "
                "source.folder must be a copy of the data set's repository on the hub"
            )
        for path in found:
            _refuse_pointer(path)
        options = {"path": "parquet", "data_files": {name: [str(path) for path in found]}}
    try:
        rows = load_dataset(split=name, **options)
    except Exception as error:  # the hub's client raises a dozen unrelated kinds
        raise InputError(
            f"{place}: cannot be read ({type(error).__name__}: {first_line(error)}); "
            "check the network and source.dataset and source.revision, or use local files "
            "with source.folder"
        ) from error
    missing = [c for c in (*spec.text, spec.label) if c not in rows.column_names]
    if missing:
        raise InputError(f"{place}: no column {missing[0]!r} among {rows.column_names}")
    feature = rows.features[spec.label]
    if isinstance(feature, ClassLabel) and feature.names != spec.labels:
        raise InputError(
            f"{place}: the labels are {feature.names}, not {spec.labels}; "
            f"write tasks.{spec.id}.labels in that order"
        )
    classes: dict[str, int | None] = {str(i): i for i in range(len(spec.labels))}
    if split in spec.test_sets:
        classes["-1"] = None
    columns = [*spec.text, spec.label]
    table = zip(*(rows[column][:] for column in columns), strict=True)
    named = (
        (f"{place}: row {number}", dict(zip(columns, values, strict=True)))
        for number, values in enumerate(table, start=1)
    )
    return _examples(spec, named, spec.text, spec.label, split, classes)


def _refuse_pointer(path: Path) -> None:
    with path.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            readers.read_text(path)  # says what a Git LFS pointer is
            raise InputError(f"{path}: line 1: not a Parquet file; fetch it again")


def glue_path(spec: TaskSpec, source: Source, split: str) -> Path:
    """The TSV file of a split; `*.subset.tsv` only where the task says that it may be a subset."""
    assert spec.glue is not None
    if source.folder is None:
        raise InputError("source.folder: missing; name the folder with GLUE's TSV files")
    path = Path(source.folder, spec.glue.folder, spec.glue.files[split].name).expanduser()
    subset = path.with_suffix(".subset.tsv")
    if not path.exists() and subset.exists():
        if not spec.subset:
            raise InputError(
                f"{path}: no such file, only {subset.name}; say `subset: true` for "
                f"tasks.{spec.id} to use a part of the data"
            )
        return subset
    return path


def own_path(spec: TaskSpec, source: Source, split: str) -> Path:
    """The user's own file of a split."""
    return Path(source.folder or "", spec.files[split]).expanduser()


def read_glue(spec: TaskSpec, source: Source, split: str) -> list[Example]:
    """From a folder in the layout of GLUE's download."""
    path = glue_path(spec, source, split)
    assert spec.glue is not None
    file = spec.glue.files[split]
    fields = readers.read_tabbed(path, spec.glue.quoting)
    rows = readers.name_columns(path, fields, file.columns, file.header)
    columns = spec.glue.text or spec.text, spec.glue.label or spec.label
    return _examples_of_file(spec, path, rows, *columns, split)


def read_files(spec: TaskSpec, source: Source, split: str) -> list[Example]:
    """From the user's own files."""
    path = own_path(spec, source, split)
    rows = readers.read_table(path, spec.quoting)
    return _examples_of_file(spec, path, rows, spec.text, spec.label, split)


def read_generated(spec: TaskSpec, source: Source, split: str) -> list[Example]:
    """From the grammar (generator.py)."""
    return [
        Example(index, list(text), spec.labels.index(label))
        for index, (text, label) in enumerate(generator.generate(spec, split))
    ]


SOURCES: dict[str, Callable[[TaskSpec, Source, str], list[Example]]] = {
    "hub": read_hub,
    "glue": read_glue,
    "files": read_files,
    "generator": read_generated,
}


def _examples_of_file(
    spec: TaskSpec,
    path: Path,
    rows: Iterable[readers.Row],
    text_columns: list[str],
    label_column: str,
    split: str,
) -> list[Example]:
    classes = {name: i for i, name in enumerate(spec.labels)}
    if spec.values:  # a file that spells a label otherwise has to do so throughout
        classes = {spelling: classes[name] for spelling, name in spec.values.items()}
    named = ((f"{path}: line {line}", row) for line, row in rows)
    examples = _examples(spec, named, text_columns, label_column, split, classes)
    if not examples:
        raise InputError(f"{path}: line 2: no rows; give the file some")
    return examples


def _examples(
    spec: TaskSpec,
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    text_columns: list[str],
    label_column: str,
    split: str,
    classes: Mapping[str, int | None],
) -> list[Example]:
    """Each row checked; `rows` are (where the row is, its columns), `classes` by label."""
    examples = []
    for index, (where, row) in enumerate(rows):
        # Test files have no labels in GLUE; a user's may.
        labelled = split not in spec.test_sets or label_column in row
        for column in (*text_columns, label_column) if labelled else text_columns:
            if column not in row:
                raise InputError(
                    f"{where}: no column {column!r} among {', '.join(row)}; "
                    "name the task's columns in `text` and `label`"
                )
        text = [row[column] for column in text_columns]
        check_text(where, text_columns, text)
        label = None
        if labelled:
            value = row[label_column]
            if value is None or value == "":
                raise InputError(f"{where}: {label_column} is empty; fill it in or remove that row")
            spelling = value if isinstance(value, str) else json.dumps(value)
            if spelling not in classes:
                raise InputError(
                    f"{where}: {label_column} {spelling!r} is none of {', '.join(classes)}; mend "
                    f"that row, or tasks.{spec.id}.labels (or .values, where the file spells a "
                    "label in its own way)"
                )
            label = classes[spelling]
        examples.append(Example(index, text, label))
    return examples


def check_text(where: str, columns: list[str], text: list[Any]) -> None:
    """Raise InputError, naming the place, where a value is no text, or an empty one."""
    for column, value in zip(columns, text, strict=True):
        if not isinstance(value, str):
            raise InputError(f"{where}: {column} is {value!r}, not text; put it between quotes")
        if not value.isprintable() and any("\ud800" <= c <= "\udfff" for c in value):
            raise InputError(f"{where}: {column} holds half a character pair; write it as UTF-8")
        if not value.strip():
            raise InputError(f"{where}: {column} is empty; fill it in or remove that row")
