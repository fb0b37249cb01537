"""One process tracks a study: what its files say is in MLflow, once, whatever dies."""

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from mlflow_store import curve, everything, runs_of, wait_until
from run_folders import append, finish_run, history_line, name_run, start_run

from acl_bert.config.study import load_study
from acl_bert.files import read_json, write_json
from acl_bert.runs.files import in_progress_path, lease_path
from acl_bert.runs.lease import hold
from acl_bert.tracking.sync import Tracker, only_tracker, watch


def all_of(uri: str, study: Path) -> dict[str, Any]:
    """All that MLflow has, deleted runs too."""
    runs = runs_of(uri, study, ViewType.ALL)
    return {run.info.run_id: everything(uri, study, run.info.run_id) for run in runs}


def statuses(uri: str, study: Path) -> dict[str, str]:
    return {run.info.run_name: run.info.status for run in runs_of(uri, study)}


def test_everything_is_mirrored_and_twice_changes_nothing(study: Path, sqlite: str) -> None:
    finish_run(study, seed=1)
    finish_run(study, seed=2)
    finish_run(study, seed=101, weight=0.5)
    start_run(study, seed=3, run_hash="d" * 64)  # killed before anything was mirrored
    done = Tracker(study, sqlite).sync()
    assert (done.mirrored, done.unchanged, done.failed, done.faults) == (3, 0, 1, [])
    assert statuses(sqlite, study) == {
        "rte · acl · tiny · seed 1": "FINISHED",
        "rte · acl · tiny · seed 2": "FINISHED",
        "rte · acl · tiny · seed 3": "FAILED",
        "rte · acl · tiny · λ 0.5 · seed 101": "FINISHED",
    }
    before = all_of(sqlite, study)
    again = Tracker(study, sqlite).sync()
    assert (again.mirrored, again.unchanged, again.failed) == (0, 3, 0)
    assert all_of(sqlite, study) == before


def test_more_runs_than_a_page_of_mlflow_holds_are_all_found(
    study: Path, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1, 6):
        finish_run(study, seed=seed)
    search = MlflowClient.search_runs

    def in_pages_of_two(self: MlflowClient, *args: Any, **kwargs: Any) -> Any:
        return search(self, *args, **kwargs | {"max_results": 2})

    monkeypatch.setattr(MlflowClient, "search_runs", in_pages_of_two)
    assert Tracker(study, sqlite).sync().mirrored == 5
    assert Tracker(study, sqlite).sync().unchanged == 5


def test_a_tracker_that_was_killed_is_followed_by_one_that_repeats_no_point(
    study: Path, sqlite: str
) -> None:
    work = start_run(study, steps=2)
    Tracker(study, sqlite).sync(last=False)
    append(work / "history.csv", history_line(3))
    second = Tracker(study, sqlite)
    second.sync(last=False)
    append(work / "history.csv", history_line(4))
    second.sync(last=False)
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "RUNNING"
    assert curve(sqlite, run.info.run_id, "step/loss") == [(n, 1 / n) for n in range(1, 5)]


def test_a_run_that_was_killed_is_failed_and_resumed_it_is_the_same_run(
    study: Path, sqlite: str
) -> None:
    work = start_run(study, run_hash="f" * 64, steps=2)
    with hold(lease_path(work), print):
        assert Tracker(study, sqlite).sync().failed == 0, "it is being trained"
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "RUNNING"
    assert Tracker(study, sqlite).sync().failed == 1
    assert set(statuses(sqlite, study).values()) == {"FAILED"}
    append(work / "history.csv", history_line(3))
    Tracker(study, sqlite).sync(last=False)
    assert set(statuses(sqlite, study).values()) == {"RUNNING"}
    finish_run(study, run_hash="f" * 64)
    Tracker(study, sqlite).sync()
    (after,) = runs_of(sqlite, study)
    assert (after.info.run_id, after.info.status) == (run.info.run_id, "FINISHED")
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 3


def test_a_run_of_other_settings_takes_the_place_of_the_one_before(
    study: Path, sqlite: str
) -> None:
    finish_run(study, run_hash="a" * 64)
    tracker = Tracker(study, sqlite)
    tracker.sync()
    finish_run(study, run_hash="b" * 64)
    tracker.sync()
    (run,) = runs_of(sqlite, study)
    assert run.data.tags["acl.run_hash"] == "b" * 64


def test_two_studies_show_a_run_that_they_share_under_their_own_names(
    study: Path, sqlite: str
) -> None:
    """Its own and its teacher's; its title too."""
    teacher, student = finish_run(study), finish_run(study, method="acl_cl")
    config = read_json(student / "config.json")
    config["method"] |= {"title": "Student", "teacher": "acl"}
    write_json(student / "config.json", config | {"teacher_run": teacher.name})
    name_run(study, student, method="acl_cl")
    other = study.with_name("other")
    name_run(other, teacher, task="acceptability", encoder="mine", method="ours")
    name_run(other, student, task="acceptability", encoder="mine", method="theirs")
    names = {
        "ours": {"like": "acl", "title": "Ours"},
        "theirs": {"like": "acl_cl", "title": "Theirs", "teacher": "ours"},
    }
    given = yaml.safe_load(study_file(other).read_text())
    given |= {"methods": names, "encoders": {"mine": {"path": "none"}}}
    Tracker(study, sqlite).sync()
    Tracker(other, sqlite, load_study(given)).sync()
    assert set(statuses(sqlite, study)) == {
        "rte · acl · tiny · seed 1",
        "rte · acl_cl · tiny · seed 1",
    }
    (shown,) = (run for run in runs_of(sqlite, other) if run.data.tags["method"] == "theirs")
    own = "acceptability · theirs · mine · seed 1", "acceptability · ours · mine · seed 1", "Theirs"
    tags = shown.data.tags
    assert (shown.info.run_name, tags["teacher"], tags["title"]) == own
    assert tags["mlflow.note.content"].startswith("Theirs on acceptability with mine.")


def test_what_is_neither_in_progress_nor_named_any_more_is_ended(study: Path, sqlite: str) -> None:
    """As a run of other settings that was begun before the study's file was changed."""
    work = start_run(study)
    tracker = Tracker(study, sqlite)
    tracker.sync(last=False)
    in_progress_path(study, work.name).unlink()
    assert tracker.sync(last=False).failed == 0
    assert list(statuses(sqlite, study).values()) == ["RUNNING"]
    assert tracker.sync().failed == 1
    assert list(statuses(sqlite, study).values()) == ["FAILED"]


def test_what_is_damaged_is_named_and_the_others_are_mirrored(study: Path, sqlite: str) -> None:
    finish_run(study, seed=1)
    torn = finish_run(study, seed=2)
    (torn / "metrics.json").write_text("{")
    done = Tracker(study, sqlite).sync()
    assert done.mirrored == 1
    assert len(done.faults) == 1 and torn.name in done.faults[0]


def test_a_store_that_was_removed_comes_again(tmp_path: Path) -> None:
    study = tmp_path / "mine"
    finish_run(study)
    uri = f"sqlite:///{study}/mlflow.db"
    Tracker(study, uri).sync()
    (study / "mlflow.db").unlink()
    shutil.rmtree(study / "mlartifacts")
    assert Tracker(study, f"sqlite:///{study}/./mlflow.db").sync().mirrored == 1
    assert list(statuses(uri, study).values()) == ["FINISHED"]


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for a workflow."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def study_file(study: Path) -> Path:
    path = study.parent / f"{study.name}.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "name": study.name,
                "source": {"kind": "generator"},
                "tasks": {"acceptability": {}},
                "encoders": {"tiny": {"path": "none"}},
                "methods": {"acl": {}},
                "seeds": [1],
            }
        )
    )
    return path


def tracker_of(study: Path, owner: int, *more: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "acl_bert",
        "sync-tracking",
        "--config",
        str(study_file(study)),
    ]
    command += ["--results", str(study.parent), *more]
    if owner:
        command += ["--watch", "--owner", str(owner)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the owner dies", "told"])
def test_a_watch_goes_on_until_the_workflow_ends(
    tmp_path: Path, owner: subprocess.Popen[bytes], how: str
) -> None:
    study = tmp_path / "watched"
    work = start_run(study, run_hash="f" * 64, steps=1)
    uri = f"sqlite:///{study}/mlflow.db"
    tracker = tracker_of(study, owner.pid)
    wait_until(lambda: (study / "mlflow.db").is_file() and len(runs_of(uri, study)) == 1)
    (live,) = runs_of(uri, study)
    append(work / "history.csv", history_line(2))
    wait_until(lambda: len(curve(uri, live.info.run_id, "step/loss")) == 2)
    finish_run(study, run_hash="f" * 64)
    if how == "told":
        tracker.terminate()
    else:
        owner.kill()
        owner.wait()
    said, _ = tracker.communicate(timeout=60)
    assert tracker.returncode == 0, said
    (run,) = runs_of(uri, study)
    assert (run.info.run_id, run.info.status) == (live.info.run_id, "FINISHED")


def test_a_second_tracker_leaves_the_study_to_the_first(tmp_path: Path) -> None:
    study = tmp_path / "two"
    finish_run(study)
    with only_tracker(study) as alone:
        assert alone
        second = tracker_of(study, 0)
        said, _ = second.communicate()
    assert second.returncode == 0 and "another process" in said
    assert not (study / "mlflow.db").exists()


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////dev/null/mlflow.db"])
def test_a_store_that_cannot_be_reached_is_a_warning_at_first_and_one_in_the_end(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = tmp_path / "away"
    finish_run(study)
    gone = subprocess.Popen(["true"])
    gone.wait()
    with caplog.at_level(logging.WARNING):
        assert not watch(Tracker(study, uri), gone.pid, interval=0.01, patience=0.01)
    said = [record.message for record in caplog.records if "MLflow at" in record.message]
    assert said and all("\n" not in message and uri in message for message in said)
    assert "make sync-tracking" in said[-1]
