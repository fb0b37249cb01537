"""A task's rows, published as one folder that everything downstream reads."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from acl_bert.data.sources import Example, local_files, read, splits_of
from acl_bert.data.spec import Selection, Source, TaskSpec
from acl_bert.data.split import held_out, hold_out, limit
from acl_bert.errors import InputError
from acl_bert.files import atomic_folder, canonical_hash, content_hash, read_json, to_json
from acl_bert.runs.files import TASK

STAND_IN = "generated stand-in data"


def prepare(spec: TaskSpec, source: Source, selection: Selection, folder: Path) -> None:
    """Read, check, limit and split a task's rows and publish `folder`.

    It holds one `<split>.jsonl` for train, selection, each dev set and each test set that there is,
    with rows {"index", "text", "label"} (no label in an unlabelled test set), and `task.json`.
    Raises InputError before anything is published.
    """
    given = {name: read(spec, source, name) for name in splits_of(spec, source)}
    if "selection" in given and selection.split == "dev":
        raise InputError(
            f"tasks.{spec.id}.files.selection: the study selects on dev (selection.split); "
            "leave out one of the two"
        )
    taken = {name: limit(spec, rows, _limit_of(spec, name), name) for name, rows in given.items()}
    official = spec.rows if source.kind in ("hub", "glue") else {}
    subset = any(len(taken[name]) < official.get(name, len(given[name])) for name in given)
    origin = {name: name for name in given}  # split -> the source's split that it comes from
    if "selection" not in taken:
        if selection.split == "dev":
            taken["selection"], origin["selection"] = taken["dev"], "dev"
        else:
            taken["train"], taken["selection"] = hold_out(spec, taken["train"], selection)
            origin["selection"] = "train"
    names = ("train", "selection", *spec.dev_sets, *spec.test_sets)
    order = [name for name in names if name in taken]
    digest = hashlib.sha256(json.dumps(spec.labels).encode())  # whoever has the same rows has it

    with atomic_folder(folder) as aside:
        for name in order:
            digest.update(f"\n{name} {len(taken[name])}\n".encode())
            with (aside / f"{name}.jsonl").open("wb") as stream:
                for line in map(_line, taken[name]):
                    digest.update(line)
                    stream.write(line)
        task = {
            "task": spec.id,
            "title": spec.title,
            "texts": len(given["train"][0].text),
            "labels": spec.labels,
            "metrics": spec.metrics,
            "selection_metric": spec.selection_metric,
            "dev_sets": spec.dev_sets,
            "source": source.kind,
            "stand_in": STAND_IN if source.kind == "generator" else None,
            "subset": subset,
            "splits": {
                name: {
                    "rows": len(taken[name]),
                    "source_rows": len(given[origin[name]]),
                    "official_rows": official.get(origin[name]),
                }
                for name in order
            },
            "determined_by": _determined_by(spec, source, selection),
            "fingerprint": digest.hexdigest(),
        }
        (aside / TASK).write_text(to_json(task), encoding="utf-8")


def rows_of_splits(
    spec: TaskSpec, selection: Selection, given: Mapping[str, int]
) -> dict[str, int]:
    """How many rows of each split `prepare` leaves of so many in the source's splits."""
    rows = {name: min(count, _limit_of(spec, name) or count) for name, count in given.items()}
    if "selection" not in rows:
        if selection.split == "dev":
            rows["selection"] = rows["dev"]
        else:
            rows["selection"] = held_out(rows["train"], selection)
            rows["train"] -= rows["selection"]
    return rows


def determinants(spec: TaskSpec, source: Source, selection: Selection) -> dict[str, Any]:
    """What a task's prepared rows depend on: the content of local files, not where they are."""
    of_source = {"hub": "hub", "glue": "glue", "files": "files", "generator": "generate"}
    others = {key for kind, key in of_source.items() if kind != source.kind}
    return {
        "task": spec.model_dump(exclude={"title", "submission", *others}),
        "source": source.model_dump(exclude={"folder"}),
        "content": content_hash(local_files(spec, source)),
        "selection": selection.model_dump(),
    }


def is_prepared(spec: TaskSpec, source: Source, selection: Selection, folder: Path) -> bool:
    """Whether `folder` holds what `prepare` would make now."""
    if not (folder / TASK).is_file():
        return False
    return bool(read_task(folder)["determined_by"] == _determined_by(spec, source, selection))


def _determined_by(spec: TaskSpec, source: Source, selection: Selection) -> str:
    return canonical_hash(determinants(spec, source, selection))


def read_task(folder: Path) -> dict[str, Any]:
    """The content of a prepared task's task.json."""
    try:
        task: dict[str, Any] = read_json(folder / TASK)
    except FileNotFoundError:
        raise InputError(f"{folder / TASK}: no such file; prepare the task first") from None
    return task


def read_split(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of one split of a prepared task."""
    with (folder / f"{split}.jsonl").open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            yield json.loads(line)


def _limit_of(spec: TaskSpec, split: str) -> int | None:
    if split == "train":
        return spec.limit.train
    return spec.limit.dev if split in spec.dev_sets else None


def _line(example: Example) -> bytes:
    row = {"index": example.index, "text": example.text}
    if example.label is not None:
        row["label"] = example.label
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()
