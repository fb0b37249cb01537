"""A file is the old one or the new one, whatever happens while it is written."""

import errno
import json
import math
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from acl_bert.files import (
    atomic_file,
    atomic_folder,
    canonical_hash,
    publish_folder,
    read_json,
    write_csv,
    write_json,
    write_tensors,
    write_text,
)


class Broken(Exception):
    pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with atomic_file(path) as aside:
        aside.write_text("half")
        assert not path.exists()
        aside.write_text("whole")
    assert path.read_text() == "whole"
    assert names(path.parent) == ["a.txt"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(Broken), atomic_file(path) as aside:
        aside.write_text("new")
        raise Broken
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_no_file_where_none_was(tmp_path: Path) -> None:
    with pytest.raises(Broken), atomic_file(tmp_path / "a.txt") as aside:
        aside.write_text("new")
        raise Broken
    assert names(tmp_path) == []


def test_rows_that_fail_midway_leave_the_old_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, ["n"], [[1]])

    def rows() -> object:
        yield [2]
        raise Broken

    with pytest.raises(Broken):
        write_csv(path, ["n"], rows())  # type: ignore[arg-type]
    assert path.read_bytes() == b"n\n1\n"
    assert names(tmp_path) == ["a.csv"]


def test_a_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for name in ("old", "new"):
        with atomic_folder(path) as aside:
            (aside / "deep").mkdir()
            (aside / "deep" / name).write_text(name)
            assert not (path / "deep" / "new").exists()
    assert names(path / "deep") == ["new"]
    assert names(tmp_path) == ["data"]
    assert path.stat().st_mode & 0o777 == 0o755


def test_an_error_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with atomic_folder(path) as aside:
        (aside / "old").touch()
    with pytest.raises(Broken), atomic_folder(path) as aside:
        (aside / "new").touch()
        raise Broken
    assert names(path) == ["old"]
    assert names(tmp_path) == ["data"]


def test_a_folder_moves_to_a_place_that_is_not_there_yet(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("a")
    publish_folder(work, tmp_path / "runs" / "deep" / "seed-1")
    assert (tmp_path / "runs" / "deep" / "seed-1" / "a").read_text() == "a"
    assert not work.exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_json_is_refused_and_leaves_the_old_file(tmp_path: Path, value: float) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"value": 1})
    with pytest.raises(ValueError):
        write_json(path, {"value": value})
    with pytest.raises(ValueError):
        canonical_hash({"value": value})
    assert read_json(path) == {"value": 1}
    assert names(tmp_path) == ["a.json"]


@pytest.fixture
def no_room() -> Iterator[None]:
    """A file of more than 256 KiB is refused, as a full disk or a spent quota refuses it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITERS: list[Callable[[Path], None]] = [
    lambda path: write_text(path, "a" * 2**20),
    lambda path: write_csv(path, ["a"], [["b" * 1000]] * 1000),
    lambda path: write_tensors(path, {"a": np.zeros(2**18, np.float32)}),
]


@pytest.mark.parametrize("write", WRITERS, ids=["text", "csv", "tensors"])
def test_a_full_disk_is_an_error_that_names_the_file(
    tmp_path: Path, no_room: None, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "result"
    write_text(path, "old")
    with pytest.raises(OSError) as raised:
        write(path)
    assert raised.value.errno == errno.EFBIG
    assert raised.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_for_readers(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"λ": 0.5})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "λ": 0.5\n}\n'


def test_a_hash_is_of_the_value_not_of_its_spelling() -> None:
    value = {"a": [1, 2.5], "b": {"c": None, "d": True}}
    turned = json.loads('{"b": {"d": true, "c": null}, "a": [1, 2.5]}')
    assert canonical_hash(value) == canonical_hash(turned)
    assert canonical_hash(value) != canonical_hash(value | {"a": [2.5, 1]})
    assert len(canonical_hash(value)) == 64
