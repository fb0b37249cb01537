"""The process that mirrors a run while it trains."""

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from mlflow.tracking import MlflowClient
from mlflow_store import curve, mirror, runs_of, wait_until
from run_folders import append, finish_run, history_line, start_run

from acl_bert.runs.files import tuning_path
from acl_bert.tracking.follow import follow


def write_study(folder: Path, name: str) -> Path:
    path = folder / "study.yaml"
    study = {"name": name, "source": {"kind": "generator"}, "seeds": [1], "methods": {"acl": {}}}
    study |= {"tasks": {"acceptability": {}}, "encoders": {"tiny": {"path": "none"}}}
    path.write_text(yaml.safe_dump(study))
    return path


def test_following_a_run_from_work_to_its_place(
    study: Path,
    sqlite: str,
    training: subprocess.Popen[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = finish_run(study)  # of the same settings: not to be taken for the result
    work = start_run(study, steps=1)
    arguments = (work, old, sqlite, study, training.pid, 0.1)
    with ThreadPoolExecutor() as pool:
        following = pool.submit(follow, *arguments)
        wait_until(lambda: any(run.info.status == "RUNNING" for run in runs_of(sqlite, study)))
        (live,) = runs_of(sqlite, study)
        append(work / "history.csv", history_line(2))
        wait_until(lambda: len(curve(sqlite, live.info.run_id, "step/loss")) == 2)
        shutil.rmtree(old)
        aside = study / "elsewhere"
        result = finish_run(aside, started="2026-02-02T00:00:00+00:00")
        result.rename(old)
        shutil.rmtree(work)
        following.result(60)  # though the training process still lives
    assert "not mirrored" not in caplog.text
    (run,) = runs_of(sqlite, study)
    assert (run.info.run_id, run.info.status) == (live.info.run_id, "FINISHED")
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 3


def test_a_store_that_fails_at_the_end_is_asked_again(
    study: Path, sqlite: str, training: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    run_folder = finish_run(study)
    with (
        closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as store,
        ThreadPoolExecutor() as pool,
    ):
        store.executescript(
            "CREATE TRIGGER refuse BEFORE UPDATE OF end_time ON runs"
            " BEGIN SELECT RAISE(ABORT, 'database is locked'); END"
        )
        work = study / "work" / ("a" * 64)  # removed already
        following = pool.submit(follow, work, run_folder, sqlite, study, training.pid, 0.1)
        try:
            wait_until(lambda: "tried again" in caplog.text)
        finally:
            store.executescript("DROP TRIGGER refuse")
        following.result(60)
    assert "not mirrored" not in caplog.text
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "FINISHED"


def test_a_training_that_dies_is_marked_and_goes_on_when_resumed(
    study: Path, sqlite: str, training: subprocess.Popen[bytes]
) -> None:
    work = start_run(study, steps=2)
    training.kill()
    training.wait()
    follow(work, study / "runs/none", sqlite, study, training.pid, interval=0.1)
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "FAILED"
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 2
    append(work / "history.csv", history_line(3))
    assert mirror(work, sqlite, study) == run.info.run_id
    assert [run.info.status for run in runs_of(sqlite, study)] == ["RUNNING"]
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 3


def test_twelve_runs_that_start_at_once_share_a_store_that_was_not_there(
    tmp_path: Path, training: subprocess.Popen[bytes]
) -> None:
    """Their followers outlive the SIGTERM that a scheduler sends to all processes of a job."""
    study = tmp_path / "tiny"
    config = write_study(tmp_path, study.name)
    followers = []
    for seed in range(1, 13):
        work = start_run(study, seed=seed, run_hash=f"{seed:064x}")
        command = [sys.executable, "-m", "acl_bert", "follow", "--config", config]
        command += ["--results", tmp_path, "--work", work, "--run", study / "runs" / "none"]
        command += ["--parent", training.pid]
        followers.append(subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True))
    uri = f"sqlite:///{study}/mlflow.db"
    wait_until(lambda: (study / "mlflow.db").is_file() and len(runs_of(uri, study)) == 12, 300)
    for follower in followers:
        follower.terminate()
    training.kill()
    training.wait()
    errors = "".join(follower.communicate(timeout=60)[1] for follower in followers)
    assert {follower.returncode for follower in followers} == {0}
    assert "not mirrored" not in errors
    runs = {run.data.tags["seed"]: run for run in runs_of(uri, study)}
    assert sorted(map(int, runs)) == list(range(1, 13))
    for run in runs.values():
        assert run.info.status == "FAILED"
        assert curve(uri, run.info.run_id, "step/loss") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    (experiment,) = MlflowClient(uri).search_experiments(filter_string="name = 'tiny'")
    assert experiment.artifact_location == "mlflow-artifacts:/"


@pytest.mark.parametrize("has_result", [True, False])
@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////dev/null/mlflow.db"])
def test_a_store_that_cannot_be_reached_is_a_warning_at_first_and_one_in_the_end(
    uri: str, has_result: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work, run_folder = start_run(tmp_path), tmp_path / "run"

    def looks() -> Iterator[bool]:
        yield from (True, True)
        if has_result:
            finish_run(tmp_path / "elsewhere").rename(run_folder)
            shutil.rmtree(work)
        while True:
            yield has_result

    seen = looks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acl_bert.tracking.follow._watch", lambda pid: lambda: next(seen))
        follow(work, run_folder, uri, tmp_path, os.getpid(), interval=0.01, patience=0.01)
    first, last = (record.message for record in caplog.records if record.levelno >= logging.WARNING)
    for message in (first, last):
        assert uri in message and str(run_folder) in message and "\n" not in message
    assert "tried again" in first and "make sync-tracking" in last


def test_tuning_runs_live_side_by_side(
    study: Path, sqlite: str, training: subprocess.Popen[bytes]
) -> None:
    training.kill()
    training.wait()
    for weight in (0.1, 0.3, 0.1):
        run_hash = f"{weight}".ljust(64, "0")
        work = start_run(study, run_hash=run_hash, seed=101)
        target = tuning_path(study, "rte", "tiny", "acl") / f"lambda-{weight}" / "seed-101"
        follow(work, target, sqlite, study, training.pid)
    mirror(finish_run(study, seed=101), sqlite, study)
    assert sorted(run.info.run_name for run in runs_of(sqlite, study)) == [
        "rte · acl · tiny · seed 101",
        "rte · acl · tiny · λ 0.1 · seed 101",
        "rte · acl · tiny · λ 0.3 · seed 101",
    ]
    tags = [run.data.tags for run in runs_of(sqlite, study)]
    assert sorted((tag["kind"], tag.get("lambda")) for tag in tags if tag["kind"] == "tuning") == [
        ("tuning", "0.1"),
        ("tuning", "0.3"),
    ]
