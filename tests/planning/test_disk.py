"""What a study still writes; tests/workflow holds it against a study that was run."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import finish_run

from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.planning import disk
from acl_bert.planning.disk import UNCHECKED, DiskUse, check_disk, disk_use, in_bytes
from acl_bert.planning.hours import Costs
from acl_bert.planning.sizes import Sizes
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


def use_of(study: Study, folder: Path, at_a_time: int = 1, hardware: str = "A100") -> DiskUse:
    sizes = Sizes(study, folder)
    to_come = [run for run in planned_runs(study) if not run.path(folder).is_file()]
    return disk_use(sizes, to_come, Costs(sizes, on_gpu=True, hardware=hardware), at_a_time)


MODEL = 435e6  # of float32
ITEMS = 2241 * (768 + 2) * 4


def test_weights_are_what_the_study_keeps(tmp_path: Path) -> None:
    for keep, models in (("teachers", 1), ("all", 4), ("none", 1)):
        found = use_of(study_of(keep_models=keep), tmp_path)
        assert found.bytes["models"] == pytest.approx(models * MODEL, rel=0.05)
        assert found.bytes["teachers' outputs"] == ITEMS


def test_few_teachers_are_there_at_a_time(tmp_path: Path) -> None:
    """Where they go when their students are done: two a run that goes on, of the largest."""
    study = study_of(keep_models="none", tasks={"rte": {}, "mrpc": {}}, seeds=[1, 2, 3])
    rte, mrpc = (rows * (768 + 2) * 4 for rows in (2241, 3301))
    for at_a_time, outputs in ((1, 2 * mrpc), (2, 3 * mrpc + rte), (9, 3 * mrpc + 3 * rte)):
        found = use_of(study, tmp_path, at_a_time).bytes
        assert found["teachers' outputs"] == outputs
    assert use_of(study_of(seeds=[1, 2, 3]), tmp_path).bytes["teachers' outputs"] == 3 * rte


def test_every_exits_logits_are_kept_of_every_dev_row(tmp_path: Path) -> None:
    last, every = (
        use_of(study_of(tasks={"mnli": {}}, methods={name: {}}), tmp_path).bytes["runs"]
        for name in ("ce", "jt")
    )
    h = 500 * 768 * 4  # of the first quarter's exit too
    assert every - last == (9815 + 9832) * 11 * 3 * 4 + h


def test_each_run_in_progress_has_its_model_and_checkpoint(tmp_path: Path) -> None:
    """A checkpoint where a run lasts for longer than their interval: two while one is written."""
    study = study_of()
    one, three, many = (
        use_of(study, tmp_path, at_a_time).bytes["runs in progress"] for at_a_time in (1, 3, 100)
    )
    assert one == pytest.approx(MODEL, rel=0.1)
    # There are four runs, of which two have an exit on every layer and a few weights more.
    assert three == pytest.approx(3 * one, rel=0.1) and many == pytest.approx(4 * one, rel=0.1)
    often = study_of(checkpoints={"every_minutes": 1})
    quick, slow = (
        use_of(often, tmp_path, hardware=name).bytes["runs in progress"] for name in ("H100", "T4")
    )
    assert quick == one and slow == (1 + 2 * 4) * one


def test_what_is_there_needs_no_room(tmp_path: Path) -> None:
    study, folder = study_of(), tmp_path / "small"
    before = use_of(study, folder).bytes
    finish_run(folder, method="acl")
    after = use_of(study, folder).bytes
    assert before["logs, report"] - after["logs, report"] == 40_000
    assert before["runs"] > after["runs"] and before["MLflow"] > after["MLflow"]
    assert not {"models", "teachers' outputs"} & after.keys()


def test_a_store_elsewhere_takes_no_room_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "MLflow" not in use_of(study_of(tracking={"enabled": False}), tmp_path).bytes
    assert "MLflow" not in use_of(study_of(tracking={"uri": "http://x"}), tmp_path).bytes
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://x")
    assert "MLflow" not in use_of(study_of(), tmp_path).bytes


def test_a_disk_that_is_too_small_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, folder = study_of(), tmp_path / "results" / "small"
    needed = use_of(study, folder).needed
    free = needed
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage._replace(free=free))
    check_disk(use_of(study, folder))
    free = needed - 1
    with pytest.raises(InputError) as error:
        check_disk(use_of(study, folder))
    for part in (str(tmp_path), in_bytes(needed), in_bytes(free), f"{UNCHECKED}=1"):
        assert part in str(error.value)
    assert not folder.exists()
    monkeypatch.setenv(UNCHECKED, "1")
    check_disk(use_of(study, folder))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0.0 kB"), (1_234, "1.2 kB"), (999_600, "1.0 MB"), (64e9, "64 GB"), (4.2e15, "4,200 TB")],
)
def test_bytes_are_said_shortly(count: float, text: str) -> None:
    assert in_bytes(count) == text
