"""The store finds a run by its key, proves it by its content, and lets studies name it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.errors import InputError
from acl_bert.runs.files import METRICS, PREDICTIONS, find_names, name_path
from acl_bert.runs.store import MANIFEST, Store, address_of, fault_of, key_of, write_manifest

KEY, OTHER_KEY = "a" * 64, "b" * 64


def put(store: Store, key: str = KEY, code: str = "code") -> Path:
    """A run of this key and code, with two files."""
    folder = store.run(address_of(key, code)).path
    folder.mkdir(parents=True)
    (folder / METRICS).write_text(f'{{"by": "{code}"}}')
    (folder / PREDICTIONS).write_text("split,index\ndev,0\n")
    write_manifest(folder)
    return folder


def flip(folder: Path) -> None:
    content = bytearray((folder / PREDICTIONS).read_bytes())
    content[-2] ^= 1
    (folder / PREDICTIONS).write_bytes(content)


def test_runs_of_another_key_or_code_have_another_address() -> None:
    addresses = {address_of(key, code) for key in (KEY, OTHER_KEY) for code in ("one", "two")}
    assert len(addresses) == 4
    assert key_of(address_of(KEY, "one")) == key_of(address_of(KEY, "two"))
    assert key_of(address_of(KEY, "one")) != key_of(address_of(OTHER_KEY, "one"))


def test_a_run_of_other_code_counts_where_any_does_and_after_ones_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.find(KEY, "mine", "any") is None
    put(store, OTHER_KEY, "mine")
    assert store.find(KEY, "mine", "any") is None
    theirs = {put(store, code=code).name for code in ("theirs", "older", "newer")}
    assert store.find(KEY, "mine", "same") is None
    assert store.find(KEY, "mine", "any") == min(theirs)
    mine = put(store, code="mine").name
    for states in ("any", "same"):
        assert store.find(KEY, "mine", states) == mine  # type: ignore[arg-type]
    assert set(store.addresses()) == {*theirs, mine, address_of(OTHER_KEY, "mine")}


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (flip, f"{PREDICTIONS} is damaged: its content is not what was written"),
    "a shorter file": (lambda run: (run / PREDICTIONS).write_text("s"), "has 1 bytes, not 18"),
    "a missing file": (lambda run: (run / PREDICTIONS).unlink(), f"{PREDICTIONS} is missing"),
    "a torn manifest": (
        lambda run: (run / MANIFEST).write_text((run / MANIFEST).read_text()[:50]),
        f"{MANIFEST} cannot be read",
    ),
    "no manifest": (lambda run: (run / MANIFEST).unlink(), f"{MANIFEST} cannot be read"),
    "another manifest": (lambda run: (run / MANIFEST).write_text("[1]"), "cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_run_is_set_aside_when_it_is_looked_for(tmp_path: Path, fault: str) -> None:
    store = Store(tmp_path)
    run, whole = put(store), put(store, code="older")
    damage, said = FAULTS[fault]
    damage(run)
    before = {path.name for path in run.iterdir()}
    assert said in (fault_of(run) or "")
    assert store.find(KEY, "code", "same") is None
    assert not run.exists()
    (aside,) = (tmp_path / "damaged").iterdir()
    assert said in (aside / "FAULT").read_text()
    assert {path.name for path in aside.iterdir()} == before | {"FAULT"}
    assert store.find(KEY, "code", "any") == whole.name
    assert store.find(KEY, "older", "any") == whole.name


def test_sizes_alone_do_not_tell_a_flipped_bit(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = put(store)
    assert fault_of(run) is None
    flip(run)
    assert fault_of(run, contents=False) is None
    assert fault_of(run) is not None


def test_a_name_is_of_that_very_run(tmp_path: Path) -> None:
    study = tmp_path / "study"
    run = finish_run(study)
    store, name = Store.beside(study), name_path(study, "rte", "tiny", "acl", 1)
    assert store.named(name, contents=True).path == run
    assert set(json.loads(name.read_text())) == {"run", "digest"}
    # The same address, whole, with other numbers.
    (run / METRICS).write_text((run / METRICS).read_text().replace("0.51", "0.99"))
    (run / MANIFEST).unlink()
    write_manifest(run)
    assert fault_of(run) is None
    with pytest.raises(InputError, match="is not the run that is named"):
        store.named(name)
    for text in ("", "{", "[]", '{"run": "x"}'):
        name.write_text(text)
        with pytest.raises(InputError, match=r"seed-1\.json: names no run"):
            store.named(name)
    with pytest.raises(InputError, match=r"seed-2\.json: no such file, the run is not finished"):
        store.named(name.with_name("seed-2.json"))


def test_reading_with_contents_sets_a_damaged_run_aside_and_without_does_not(
    tmp_path: Path,
) -> None:
    study = tmp_path / "study"
    run = finish_run(study)
    store, name = Store.beside(study), name_path(study, "rte", "tiny", "acl", 1)
    flip(run)
    assert store.named(name).path == run
    with pytest.raises(InputError, match="start the workflow again, which trains it anew"):
        store.named(name, contents=True)
    assert not run.exists()
    with pytest.raises(InputError, match="is not in .*/store"):
        store.named(name)


def test_names_of_what_the_store_lost_are_removed_with_the_reason(tmp_path: Path) -> None:
    study, other = tmp_path / "study", tmp_path / "other"
    whole, gone, torn = (finish_run(study, seed=seed) for seed in (1, 2, 3))
    tuned = finish_run(study, seed=101, weight=0.5)
    assert finish_run(other, seed=2) == gone
    store = Store.beside(study)
    assert store.forget_lost(study) == []
    for folder in (gone, tuned):
        shutil.rmtree(folder)
    (torn / METRICS).write_text("{")
    lost = store.forget_lost(study)
    names = [name_path(study, "rte", "tiny", "acl", seed) for seed in (1, 2, 3)]
    assert [f"{names[1]}: the run {gone.name} is not in" in fault for fault in lost] == [1, 0, 0]
    assert str(names[2]) in lost[1] and "has 1 bytes, not" in lost[1]
    assert "lambda-0.5/seed-101.json" in lost[2]
    assert list(find_names(study)) == names[:1] and not list(find_names(study, tuning=True))
    assert whole.is_dir() and not torn.exists()
    assert len(list(find_names(other))) == 1, "each study forgets its own"


def test_what_is_published_stays(tmp_path: Path) -> None:
    """A second one of the same address goes: studies name the first by its digest."""
    store = Store(tmp_path)
    for text in ("first", "second"):
        work = store.work("address")
        work.mkdir(parents=True)
        (work / METRICS).write_text(text)
        store.publish(work, "address")
        assert not work.exists()
        assert (store.run("address").path / METRICS).read_text() == "first"
    assert fault_of(store.run("address").path) is None


def test_another_model_takes_the_outputs_of_the_one_before_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for text in ("first", "second"):
        made = tmp_path / "made"
        made.mkdir()
        (made / "weights").write_text(text)
        store.publish_model(made, "address")
        assert (store.model("address") / "weights").read_text() == text
        assert not store.teacher_outputs("address").exists()
        store.teacher_outputs("address").write_text("of it")
    assert store.has_model("address") and not list(store.addresses())
