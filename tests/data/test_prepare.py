import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acl_bert.data.prepare import is_prepared, prepare, read_split, read_task
from acl_bert.data.sources import Example
from acl_bert.data.spec import Selection, Source, TaskSpec, resolve
from acl_bert.data.split import hold_out, limit
from acl_bert.errors import InputError


def cola(folder: Path, train: int, dev: int, **overrides: Any) -> tuple[TaskSpec, Source]:
    """A folder like CoLA's in which three of ten rows are unacceptable."""
    (folder / "CoLA").mkdir(parents=True)
    for name, size in (("train", train), ("dev", dev)):
        rows = [f"x\t{int(i % 10 > 2)}\t\t{name} sentence {i}\u2028." for i in range(size)]
        (folder / "CoLA" / f"{name}.tsv").write_text("\n".join(rows))
    rows = {"rows": {"train": train, "dev": dev}}
    return resolve("cola", rows | overrides), Source(kind="glue", folder=str(folder))


def published(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: list(read_split(folder, name)) for name in read_task(folder)["splits"]}


def test_rows_depend_on_content_and_not_on_place(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 200, 20)
    out = tmp_path / "out"
    assert not is_prepared(spec, source, Selection(), out)
    prepare(spec, source, Selection(), out)
    assert is_prepared(spec, source, Selection(), out)
    shutil.copytree(tmp_path / "glue", tmp_path / "moved")
    moved = Source(kind="glue", folder=str(tmp_path / "moved"))
    assert is_prepared(spec, moved, Selection(), out)
    for key, value in (("title", "another"), ("submission", None)):
        assert is_prepared(spec.model_copy(update={key: value}), moved, Selection(), out)
    assert not is_prepared(spec, moved, Selection(seed=14), out)
    dev = tmp_path / "moved" / "CoLA" / "dev.tsv"
    dev.write_text(dev.read_text().replace("sentence 7", "sentence seven"))
    assert not is_prepared(spec, moved, Selection(), out)


def test_publishes_the_contracts_files(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 200, 20)
    prepare(spec, source, Selection(), tmp_path / "out" / "cola")
    folder = tmp_path / "out" / "cola"
    assert sorted(path.name for path in folder.iterdir()) == [
        *["dev.jsonl", "selection.jsonl", "task.json", "train.jsonl"]
    ]
    task = read_task(folder)
    assert len(task.pop("fingerprint")) == len(task.pop("determined_by")) == 64
    assert task == {
        "task": "cola",
        "title": "CoLA",
        "texts": 1,
        "labels": ["unacceptable", "acceptable"],
        "metrics": ["matthews"],
        "selection_metric": "matthews",
        "dev_sets": {"dev": ""},
        "source": "glue",
        "stand_in": None,
        "subset": False,
        "splits": {
            "train": {"rows": 180, "source_rows": 200, "official_rows": 200},
            "selection": {"rows": 20, "source_rows": 200, "official_rows": 200},
            "dev": {"rows": 20, "source_rows": 20, "official_rows": 20},
        },
    }
    rows = published(folder)
    assert rows["dev"][4] == {"index": 4, "text": ["dev sentence 4\u2028."], "label": 1}
    everything = sorted(row["index"] for row in rows["train"] + rows["selection"])
    assert everything == list(range(200))
    for row in rows["train"] + rows["selection"]:
        assert row["text"] == [f"train sentence {row['index']}\u2028."]
        assert row["label"] == int(row["index"] % 10 > 2)


def test_selection_is_stratified_bounded_and_its_seed_is_its_own(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 200, 20)

    def held_out(selection: Selection) -> list[dict[str, Any]]:
        prepare(spec, source, selection, tmp_path / "out")
        return published(tmp_path / "out")["selection"]

    first = held_out(Selection())
    assert Counter(row["label"] for row in first) == {1: 14, 0: 6}
    assert [row["index"] for row in first] == sorted(row["index"] for row in first)
    assert held_out(Selection()) == first
    assert held_out(Selection(seed=14)) != first
    assert len(held_out(Selection(max_rows=10))) == 10
    assert len(held_out(Selection(fraction=1 / 7))) == 29


def test_selecting_on_dev_keeps_train_whole(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 50, 20)
    prepare(spec, source, Selection(split="dev"), tmp_path / "out")
    rows = published(tmp_path / "out")
    assert len(rows["train"]) == 50
    assert rows["selection"] == rows["dev"]
    split = read_task(tmp_path / "out")["splits"]["selection"]
    assert split == {"rows": 20, "source_rows": 20, "official_rows": 20}


def test_limit_is_stratified_and_marked(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 200, 50, limit={"train": 100, "dev": 10})
    prepare(spec, source, Selection(), tmp_path / "out")
    task, rows = read_task(tmp_path / "out"), published(tmp_path / "out")
    assert task["subset"] is True
    assert task["splits"]["train"] == {"rows": 90, "source_rows": 200, "official_rows": 200}
    assert task["splits"]["dev"] == {"rows": 10, "source_rows": 50, "official_rows": 50}
    assert Counter(row["label"] for row in rows["train"] + rows["selection"]) == {1: 70, 0: 30}
    assert Counter(row["label"] for row in rows["dev"]) == {1: 7, 0: 3}
    prepare(spec, source, Selection(), tmp_path / "again")
    assert published(tmp_path / "again") == rows


def test_limit_above_the_size_changes_nothing(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 50, 20, limit={"train": 50, "dev": 1000})
    prepare(spec, source, Selection(), tmp_path / "out")
    assert read_task(tmp_path / "out")["subset"] is False


def test_subset_is_marked_only_if_it_is_one(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 50, 20, subset=True)
    prepare(spec, source, Selection(), tmp_path / "out")
    assert read_task(tmp_path / "out")["subset"] is False
    smaller = spec.model_copy(update={"rows": {"train": 51, "dev": 20}})
    prepare(smaller, source, Selection(), tmp_path / "out")
    task = read_task(tmp_path / "out")
    assert task["subset"] is True
    assert task["splits"]["train"] == {"rows": 45, "source_rows": 50, "official_rows": 51}


def test_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    def fingerprint(folder: str, selection: Selection, **overrides: Any) -> str:
        spec, source = cola(tmp_path / folder / "glue", 50, 20, **overrides)
        prepare(spec, source, selection, tmp_path / folder / "out")
        return str(read_task(tmp_path / folder / "out")["fingerprint"])

    first = fingerprint("a", Selection())
    assert fingerprint("b", Selection()) == first
    assert fingerprint("c", Selection(), title="Other") == first
    assert fingerprint("d", Selection(seed=5)) != first
    assert fingerprint("e", Selection(), limit={"dev": 10}) != first
    swapped = {"values": {"0": "acceptable", "1": "unacceptable"}}
    assert fingerprint("f", Selection(), **swapped) != first
    assert fingerprint("g", Selection(), labels=["acceptable", "unacceptable"], **swapped) != first


def test_own_selection_file_and_generated_data(tmp_path: Path) -> None:
    for name, size in (("train", 6), ("pick", 4), ("dev", 2)):
        lines = [json.dumps({"text": f"{name} {i}", "label": i % 2}) for i in range(size)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    spec = resolve(
        "mine",
        {
            "title": "Mine",
            "text": ["text"],
            "labels": ["0", "1"],
            "metrics": ["accuracy"],
            "selection_metric": "accuracy",
            "files": {"train": "train.jsonl", "selection": "pick.jsonl", "dev": "dev.jsonl"},
        },
    )
    prepare(spec, Source(kind="files", folder=str(tmp_path)), Selection(), tmp_path / "out")
    task = read_task(tmp_path / "out")
    assert {name: split["rows"] for name, split in task["splits"].items()} == {
        **{"train": 6, "selection": 4, "dev": 2}
    }
    assert (task["source"], task["stand_in"], task["subset"]) == ("files", None, False)

    spec = resolve("inference", {"generate": {"train": 30, "dev": 6}})
    prepare(spec, Source(kind="generator"), Selection(fraction=0.2), tmp_path / "out")
    task = read_task(tmp_path / "out")
    assert list(task["splits"]) == ["train", "selection", "dev", "dev_mm"]
    assert task["stand_in"] == "generated stand-in data"
    assert task["splits"]["train"] == {"rows": 24, "source_rows": 30, "official_rows": None}


def test_a_fault_publishes_nothing_and_leaves_what_is_there(tmp_path: Path) -> None:
    spec, source = cola(tmp_path / "glue", 50, 20)
    prepare(spec, source, Selection(), tmp_path / "out")
    before = read_task(tmp_path / "out")
    (tmp_path / "glue" / "CoLA" / "dev.tsv").write_text("x\t2\t\ta\n")
    with pytest.raises(InputError, match=r"dev\.tsv: line 1: label '2'"):
        prepare(spec, source, Selection(seed=1), tmp_path / "out")
    assert read_task(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glue", "out"]


def test_too_few_rows_to_split_are_refused() -> None:
    spec = resolve("rte")
    rows = [Example(i, ["a", "b"], int(i == 0)) for i in range(20)]
    with pytest.raises(InputError, match="class not_entailment has 1 row of 20"):
        hold_out(spec, rows, Selection())
    rows = [Example(i, ["a", "b"], i % 2) for i in range(6)]
    with pytest.raises(InputError, match=r"selection\.fraction: 1 of 6 rows"):
        hold_out(spec, rows, Selection())
    with pytest.raises(InputError, match=r"tasks\.rte\.limit\.dev: 1 of 6 rows"):
        limit(spec, rows, 1, "dev")
