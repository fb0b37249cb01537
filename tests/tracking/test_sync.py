"""All of a study's files in MLflow again, whatever was missed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from acl_bert.spares import keep_spare, put_back
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from mlflow_store import curve, everything, mirror, runs_of
from run_folders import append, finish_run, history_line, start_run

from acl_bert.runs.files import lease_path, tuning_path, tuning_run_path
from acl_bert.runs.lease import hold
from acl_bert.tracking.sync import sync


def all_of(uri: str, study: Path) -> dict[str, Any]:
    """All that MLflow has, deleted runs too."""
    runs = runs_of(uri, study, ViewType.ALL)
    return {run.info.run_id: everything(uri, study, run.info.run_id) for run in runs}


def statuses(uri: str, study: Path) -> dict[str, str]:
    return {run.info.run_name: run.info.status for run in runs_of(uri, study)}


def test_everything_is_mirrored_and_twice_changes_nothing(study: Path, sqlite: str) -> None:
    finish_run(study, seed=1)
    finish_run(study, seed=2, run_hash="b" * 64)
    tried = finish_run(study / "aside", seed=101, run_hash="c" * 64)
    target = tuning_run_path(tuning_path(study, "rte", "tiny", "acl"), 0.5, 101)
    target.parent.mkdir(parents=True)
    tried.rename(target)
    start_run(study, seed=3, run_hash="d" * 64)  # killed before anything was mirrored
    start_run(study, seed=102, run_hash="e" * 64)
    done = sync(study, sqlite, tuning_seeds=(101, 102))
    assert (done.mirrored, done.unchanged, done.failed, done.faults) == (3, 0, 2, [])
    assert statuses(sqlite, study) == {
        "rte · acl · tiny · seed 1": "FINISHED",
        "rte · acl · tiny · seed 2": "FINISHED",
        "rte · acl · tiny · seed 3": "FAILED",
        "rte · acl · tiny · λ 0.5 · seed 101": "FINISHED",
        "rte · acl · tiny · λ 0.5 · seed 102": "FAILED",
    }
    before = all_of(sqlite, study)
    again = sync(study, sqlite, tuning_seeds=(101, 102))
    assert (again.mirrored, again.unchanged, again.failed) == (0, 3, 2)
    assert all_of(sqlite, study) == before


def test_more_runs_than_a_page_of_mlflow_holds_are_all_found(
    study: Path, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1, 6):
        finish_run(study, seed=seed, run_hash=f"{seed:064x}")
    search = MlflowClient.search_runs

    def in_pages_of_two(self: MlflowClient, *args: Any, **kwargs: Any) -> Any:
        return search(self, *args, **kwargs | {"max_results": 2})

    monkeypatch.setattr(MlflowClient, "search_runs", in_pages_of_two)
    assert sync(study, sqlite).mirrored == 5
    assert sync(study, sqlite).unchanged == 5


def test_runs_left_running_by_a_kill_are_set_right(study: Path, sqlite: str) -> None:
    ended = mirror(start_run(study, seed=1), sqlite, study)
    append(study / "work" / ("a" * 64) / "history.csv", history_line(4))
    published = mirror(start_run(study, seed=2, run_hash="b" * 64), sqlite, study)
    shutil.rmtree(study / "work" / ("b" * 64))
    finish_run(study, seed=2, run_hash="b" * 64)
    superseded = mirror(start_run(study, seed=3, run_hash="c" * 64), sqlite, study)
    finish_run(study, seed=3, run_hash="d" * 64)
    starting = mirror(start_run(study, seed=5, run_hash="f" * 64), sqlite, study)
    shutil.rmtree(study / "work" / ("f" * 64))
    lost = mirror(start_run(study, seed=4, run_hash="e" * 64), sqlite, study)
    shutil.rmtree(study / "work" / ("e" * 64))
    with hold(lease_path(study / "work" / ("f" * 64)), print):  # about to have its folder
        sync(study, sqlite)
        assert MlflowClient(sqlite).get_run(starting).info.status == "RUNNING"
    sync(study, sqlite)
    runs = {run.info.run_id: run.info.status for run in runs_of(sqlite, study)}
    assert (runs[ended], runs[published], runs[lost]) == ("FAILED", "FINISHED", "FAILED")
    assert len(curve(sqlite, ended, "step/loss")) == 4
    assert superseded not in runs and len(runs) == 5
    before = all_of(sqlite, study)
    sync(study, sqlite)
    assert all_of(sqlite, study) == before


def test_what_else_mlflow_has_of_a_mirrored_run_is_deleted(study: Path, sqlite: str) -> None:
    first = mirror(finish_run(study), sqlite, study)
    client = MlflowClient(sqlite)
    run = client.get_run(first)
    tags = {k: v for k, v in run.data.tags.items() if k != "mlflow.runName"}
    client.create_run(run.info.experiment_id, tags=tags)
    sync(study, sqlite)
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [first]


def test_a_spare_stands_for_its_run_until_that_is_there_or_another_is_begun(
    study: Path, sqlite: str
) -> None:
    live = mirror(start_run(study), sqlite, study)  # its follower ended with the node
    shutil.rmtree(study / "work" / ("a" * 64))
    place = finish_run(study)
    keep_spare(study, place)
    shutil.rmtree(place)  # as Snakemake does with the results of a group that failed
    assert sync(study, sqlite).mirrored == 1
    (run,) = runs_of(sqlite, study)
    assert (run.info.run_id, run.info.status) == (live, "FINISHED")
    put_back(study, place)
    assert sync(study, sqlite).unchanged == 1

    shutil.rmtree(place)
    start_run(study, run_hash="b" * 64)
    for finish, status in ((False, "FAILED"), (True, "FINISHED")):
        if finish:
            finish_run(study, run_hash="b" * 64)
        sync(study, sqlite)
        (run,) = runs_of(sqlite, study)
        assert (run.data.tags["acl.run_hash"], run.info.status) == ("b" * 64, status)


def test_of_two_work_folders_of_a_run_the_later_begun_counts(study: Path, sqlite: str) -> None:
    for run_hash in "ba":
        start_run(study, run_hash=run_hash * 64)
    for _ in range(2):
        sync(study, sqlite)
        (run,) = runs_of(sqlite, study)
        assert run.data.tags["acl.run_hash"] == "a" * 64


def test_a_run_in_training_is_left_to_its_follower(study: Path, sqlite: str) -> None:
    finish_run(study, seed=1, run_hash="d" * 64)  # the result that it will replace
    live = mirror(start_run(study, seed=1, steps=2), sqlite, study)
    append(study / "work" / ("a" * 64) / "history.csv", history_line(3))
    before = all_of(sqlite, study)
    with hold(lease_path(study / "work" / ("a" * 64)), print):
        done = sync(study, sqlite)
    assert (done.mirrored, done.failed, done.in_training) == (0, 0, 1)
    assert all_of(sqlite, study) == before
    sync(study, sqlite)
    (run,) = runs_of(sqlite, study)
    assert (run.info.run_id != live, run.data.tags["acl.run_hash"]) == (True, "d" * 64)


def test_a_run_whose_files_are_damaged_is_named_and_the_others_go_on(
    study: Path, sqlite: str
) -> None:
    for seed in (1, 2, 3):
        finish_run(study, seed=seed, run_hash=f"{seed:064x}")
    append(study / "runs/rte/tiny/acl/seed-1/history.csv", "4,not a number\n")
    (study / "runs/rte/tiny/acl/seed-2/predictions.csv").unlink()
    done = sync(study, sqlite)
    assert done.mirrored == 1
    assert "seed-1/history.csv" in done.faults[0] and "seed-2/predictions" in done.faults[1]
