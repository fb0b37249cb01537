"""What a study still writes; tests/workflow holds it against a study that was run."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import finish_run

from acl_bert.errors import InputError
from acl_bert.runs.files import teacher_path
from acl_bert.settings.study import Study, load_study
from acl_bert.study.plan import disk
from acl_bert.study.plan.disk import UNCHECKED, Room, check_room, in_bytes, room
from acl_bert.study.plan.sizes import Sizes
from acl_bert.study.planned import planned_runs


def study_of(**more: Any) -> Study:
    return load_study(
        {
            "name": "small",
            "source": {"kind": "glue"},
            "tasks": {"rte": {}},
            "encoders": {"tiny": {"path": "google-bert/bert-base-uncased"}},
            "methods": {"ce": {}, "acl": {}, "jt": {}, "acl_cl": {}},
            "seeds": [1],
        }
        | more
    )


def room_of(study: Study, folder: Path, at_a_time: int = 1) -> Room:
    return room(study, Sizes(study, folder), folder, planned_runs(study), at_a_time)


def test_weights_are_what_the_study_keeps(tmp_path: Path) -> None:
    one = 435e6  # of float32
    for keep, lasting, passing in (("teachers", 1, 0), ("all", 4, 0), ("none", 0, 1)):
        found = room_of(study_of(keep_models=keep), tmp_path)
        assert found.lasting.get("models", 0) == pytest.approx(lasting * one, rel=0.05)
        assert found.passing.get("models", 0) == pytest.approx(passing * one, rel=0.05)
    items = 2241 * (768 + 2) * 4
    assert found.passing["teachers' outputs"] == items
    assert room_of(study_of(), tmp_path).lasting["teachers' outputs"] == items


def test_every_exits_logits_are_kept_of_every_dev_row(tmp_path: Path) -> None:
    last, every = (
        room_of(study_of(tasks={"mnli": {}}, methods={name: {}}), tmp_path).lasting["runs"]
        for name in ("ce", "jt")
    )
    h = 500 * 768 * 4  # of the first quarter's exit too
    assert every - last == (9815 + 9832) * 11 * 3 * 4 + h


def test_each_run_in_progress_has_its_checkpoints(tmp_path: Path) -> None:
    one, three, many = (
        room_of(study_of(), tmp_path, at_a_time).passing["runs in progress"]
        for at_a_time in (1, 3, 100)
    )
    assert (three, many) == (3 * one, 4 * one)  # there are four runs


def test_what_is_there_needs_no_room(tmp_path: Path) -> None:
    study = study_of()
    before = room_of(study, tmp_path).lasting
    acl = finish_run(tmp_path, method="acl")
    after = room_of(study, tmp_path).lasting
    assert before["logs, records"] == pytest.approx(after["logs, records"] * 4 / 3)
    assert before["runs"] > after["runs"] and before["MLflow"] > after["MLflow"]
    assert after["models"] == before["models"], "its model is not there"
    (acl / "model").mkdir()
    outputs = teacher_path(tmp_path, "rte", "tiny", "acl", 1)
    outputs.parent.mkdir(parents=True)
    outputs.touch()
    assert not {"models", "teachers' outputs"} & room_of(study, tmp_path).lasting.keys()


def test_a_store_elsewhere_takes_no_room_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "MLflow" not in room_of(study_of(tracking={"enabled": False}), tmp_path).lasting
    assert "MLflow" not in room_of(study_of(tracking={"uri": "http://x"}), tmp_path).lasting
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://x")
    assert "MLflow" not in room_of(study_of(), tmp_path).lasting


def test_a_disk_that_is_too_small_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, folder = study_of(), tmp_path / "results" / "small"
    needed = room_of(study, folder).needed
    free = needed
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage._replace(free=free))
    check_room(study, folder, planned_runs(study), 1)
    free = needed - 1
    with pytest.raises(InputError) as error:
        check_room(study, folder, planned_runs(study), 1)
    for part in (str(tmp_path), in_bytes(needed), "runs in progress", f"{UNCHECKED}=1"):
        assert part in str(error.value)
    assert not folder.exists()
    monkeypatch.setenv(UNCHECKED, "1")
    check_room(study, folder, planned_runs(study), 1)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0.0 kB"), (1_234, "1.2 kB"), (999_600, "1.0 MB"), (64e9, "64 GB"), (4.2e15, "4,200 TB")],
)
def test_bytes_are_said_shortly(count: float, text: str) -> None:
    assert in_bytes(count) == text
