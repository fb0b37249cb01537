"""The mirror of a run's files in MLflow, against real stores."""

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient
from run_folders import append, finish_run, history_line, start_run

from acl_bert.files import read_json, write_json
from acl_bert.run_files import tuning_path
from acl_bert.tracking.mirror import flatten, follow, mirror
from acl_bert.tracking.store import initialise

HASH = "a" * 64


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for the module, created once: each test has an experiment of its own."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


@pytest.fixture
def study(sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / tmp_path.name
    initialise(sqlite, folder)
    return folder


def runs_of(uri: str, study: Path, view: int = ViewType.ACTIVE_ONLY) -> list[Run]:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(study.name)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], run_view_type=view))


def curve(uri: str, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in MlflowClient(uri).get_metric_history(run_id, name)]


def everything(uri: str, run_id: str) -> dict[str, Any]:
    """All that MLflow knows about a run."""
    client = MlflowClient(uri)
    run = client.get_run(run_id).to_dictionary()
    names = run["data"]["metrics"]
    points = {
        name: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run_id, name)]
        for name in names
    }
    return {"run": run, "points": points, "files": [f.path for f in client.list_artifacts(run_id)]}


def test_a_finished_run_is_all_there_and_twice_changes_nothing(study: Path, sqlite: str) -> None:
    folder = finish_run(study, seed=3)
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_text("large")
    run_id = mirror(folder, sqlite, study.name)
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "rte · acl · tiny · seed 3"
    assert run.info.end_time - run.info.start_time == 7000
    expected = {
        "task": "rte",
        "method": "acl",
        "encoder": "tiny",
        "seed": "3",
        "commit": "c" * 40,
        "data_fingerprint": "f" * 64,
        "degenerate": "false",
        "acl.run_hash": HASH,
        "acl.mirrored_steps": "3",
    }
    assert expected.items() <= run.data.tags.items()
    assert run.data.params["method.lambda"] == "0.5"
    assert len(run.data.params["training.note"]) == 500
    assert run.data.metrics["dev/accuracy"] == 0.53
    assert run.data.metrics["selection/accuracy"] == 0.75
    assert run.data.metrics["seconds/total"] == 7.0
    assert curve(sqlite, run_id, "step/loss") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert curve(sqlite, run_id, "epoch/selection_accuracy") == [(2, 0.5), (3, 0.75)]
    assert "step/contrastive" not in run.data.metrics  # its cells are empty
    before = everything(sqlite, run_id)
    assert before["files"] == [
        "config.json",
        "epochs.csv",
        "history.csv",
        "logits.safetensors",
        "metrics.json",
        "predictions.csv",
        "representations.safetensors",
        "timings.json",
    ]
    assert (study / "mlartifacts").is_dir()
    assert mirror(folder, sqlite, study.name) == run_id
    assert everything(sqlite, run_id) == before
    assert len(runs_of(sqlite, study, ViewType.ALL)) == 1


def test_the_exits_of_a_run_are_a_curve_over_layers(study: Path, sqlite: str) -> None:
    exits = {layer: {"accuracy": 0.5 + layer / 100} for layer in (1, 2, 3)}
    folder = finish_run(study, exits=exits)
    metrics = json.loads((folder / "metrics.json").read_text()) | {"teacher": "t" * 64}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    run_id = mirror(folder, sqlite, study.name)
    assert curve(sqlite, run_id, "exits/accuracy") == [(1, 0.51), (2, 0.52), (3, 0.53)]
    (run,) = runs_of(sqlite, study)
    assert run.data.tags["acl.teacher_hash"] == "t" * 64
    assert run.data.metrics["dev/accuracy"] == 0.53


def test_a_mirror_cut_short_is_completed_without_a_point_twice(study: Path, sqlite: str) -> None:
    folder = finish_run(study)
    (folder / "predictions.csv").rename(folder / "aside")
    with pytest.raises(Exception, match=r"predictions\.csv"):
        mirror(folder, sqlite, study.name)
    assert [run.info.status for run in runs_of(sqlite, study)] == ["RUNNING"]
    (folder / "aside").rename(folder / "predictions.csv")
    run_id = mirror(folder, sqlite, study.name)
    points = everything(sqlite, run_id)["points"]
    assert [len(values) for name, values in points.items() if name.startswith("step/")] == [3] * 8
    assert len(points["dev/accuracy"]) == 1
    assert [run.info.status for run in runs_of(sqlite, study)] == ["FINISHED"]


def test_growth_appends_whole_new_rows_only(study: Path, sqlite: str) -> None:
    work = start_run(study, steps=2)
    run_id = mirror(work, sqlite, study.name)
    assert MlflowClient(sqlite).get_run(run_id).info.status == "RUNNING"
    before = everything(sqlite, run_id)["points"]["step/loss"]
    time.sleep(0.01)
    append(work / "history.csv", history_line(3) + history_line(4)[:7])
    assert mirror(work, sqlite, study.name) == run_id
    after = everything(sqlite, run_id)["points"]["step/loss"]
    assert after[:2] == before  # time stamps too
    assert [step for step, _, _ in after] == [1, 2, 3]
    append(work / "history.csv", history_line(4)[7:])
    mirror(work, sqlite, study.name)
    assert curve(sqlite, run_id, "step/loss") == [(n, 1 / n) for n in range(1, 5)]


def test_a_setting_that_the_hash_leaves_out_may_change(study: Path, sqlite: str) -> None:
    work = start_run(study)
    run_id = mirror(work, sqlite, study.name)
    config = read_json(work / "config.json")
    config["method"] |= {"title": "another", "new": 1}
    write_json(work / "config.json", config)
    assert mirror(work, sqlite, study.name) == run_id
    params = MlflowClient(sqlite).get_run(run_id).data.params
    assert (params["method.title"], params["method.new"]) == ("acl", "1")


def test_more_rows_than_one_call_may_carry(study: Path, sqlite: str) -> None:
    run_id = mirror(start_run(study, steps=300), sqlite, study.name)
    assert len(curve(sqlite, run_id, "step/angle")) == 300
    assert MlflowClient(sqlite).get_run(run_id).data.tags["acl.mirrored_steps"] == "300"


def test_a_rerun_with_other_settings_leaves_one_live_run(study: Path, sqlite: str) -> None:
    first = mirror(finish_run(study), sqlite, study.name)
    other = [
        mirror(finish_run(study, seed=2, run_hash="d" * 64), sqlite, study.name),
        mirror(finish_run(study, method="ce", run_hash="e" * 64), sqlite, study.name),
    ]
    second = mirror(start_run(study, run_hash="b" * 64), sqlite, study.name)
    live = {run.info.run_id for run in runs_of(sqlite, study)}
    assert live == {second, *other}
    deleted = [run.info.run_id for run in runs_of(sqlite, study, ViewType.DELETED_ONLY)]
    assert deleted == [first]


def test_training_again_with_the_same_hash_starts_a_new_run(study: Path, sqlite: str) -> None:
    first = mirror(finish_run(study), sqlite, study.name)
    work = start_run(study, steps=1)
    live = mirror(work, sqlite, study.name)
    assert live != first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [live]
    again = finish_run(study, started="2026-02-02T00:00:00+00:00")
    assert mirror(again, sqlite, study.name) == live
    # Nobody followed this one: its files alone tell that they are of a later training.
    third = mirror(finish_run(study, started="2026-03-03T00:00:00+00:00"), sqlite, study.name)
    assert third != live
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [third]


def test_a_training_begun_again_does_not_keep_the_points_of_the_first(
    study: Path, sqlite: str
) -> None:
    first = mirror(start_run(study, steps=3), sqlite, study.name)
    second = mirror(start_run(study, steps=1), sqlite, study.name)
    assert second != first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [second]
    assert curve(sqlite, second, "step/loss") == [(1, 1.0)]


def test_tuning_runs_live_side_by_side(
    study: Path, sqlite: str, training: subprocess.Popen[bytes]
) -> None:
    training.kill()
    training.wait()
    for weight in (0.1, 0.3, 0.1):
        run_hash = f"{weight}".ljust(64, "0")
        work = start_run(study, run_hash=run_hash, seed=101)
        target = tuning_path(study, "rte", "tiny", "acl") / f"lambda-{weight}" / "seed-101"
        follow(work, target, sqlite, study.name, training.pid)
    mirror(finish_run(study, seed=101), sqlite, study.name)
    assert sorted(run.info.run_name for run in runs_of(sqlite, study)) == [
        "rte · acl · tiny · lambda-0.1 · seed 101",
        "rte · acl · tiny · lambda-0.3 · seed 101",
        "rte · acl · tiny · seed 101",
    ]


def test_duplicates_of_a_run_are_deleted(study: Path, sqlite: str) -> None:
    work = start_run(study)
    first = mirror(work, sqlite, study.name)
    client = MlflowClient(sqlite)
    run = client.get_run(first)
    tags = {k: v for k, v in run.data.tags.items() if k != "mlflow.runName"}
    client.create_run(run.info.experiment_id, tags=tags)
    assert mirror(work, sqlite, study.name) == first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [first]


def test_a_store_without_the_experiment_or_a_file_raises(tmp_path: Path, sqlite: str) -> None:
    folder = finish_run(tmp_path)
    with pytest.raises(Exception, match="no such store"):
        mirror(folder, f"sqlite:///{tmp_path}/none.db", "study")
    assert not (tmp_path / "none.db").exists()


def test_settings_are_flattened_and_cut() -> None:
    settings = {"a": {"b": 0.5, "c": [1, 2]}, "d": None, "e": True, "f": "x" * 501}
    assert flatten(settings) == {
        "a.b": "0.5",
        "a.c": "[1, 2]",
        "d": "null",
        "e": "true",
        "f": "x" * 499 + "…",
    }


@pytest.fixture
def training() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a training."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_following_a_run_from_work_to_its_place(
    study: Path,
    sqlite: str,
    training: subprocess.Popen[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = finish_run(study)  # of the same settings: not to be taken for the result
    work = start_run(study, steps=1)
    arguments = (work, old, sqlite, study.name, training.pid, 0.1)
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


def test_a_training_that_dies_is_marked_and_goes_on_when_resumed(
    study: Path, sqlite: str, training: subprocess.Popen[bytes]
) -> None:
    work = start_run(study, steps=2)
    training.kill()
    training.wait()
    follow(work, study / "runs/none", sqlite, study.name, training.pid, interval=0.1)
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "FAILED"
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 2
    append(work / "history.csv", history_line(3))
    assert mirror(work, sqlite, study.name) == run.info.run_id
    assert [run.info.status for run in runs_of(sqlite, study)] == ["RUNNING"]
    assert len(curve(sqlite, run.info.run_id, "step/loss")) == 3


def test_a_follower_ends_with_the_process_that_started_it(study: Path, sqlite: str) -> None:
    work = start_run(study)
    code = (
        "import os, subprocess, sys\n"
        "follow = 'import sys; from pathlib import Path; "
        'from acl_bert.tracking.mirror import follow; follow(Path(sys.argv[1]), Path("none"), '
        "sys.argv[2], sys.argv[3], int(sys.argv[4]), 0.1)'\n"
        "child = [sys.executable, '-c', follow, *sys.argv[1:], str(os.getpid())]\n"
        "print(subprocess.Popen(child, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(work), sqlite, study.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        wait_until(lambda: bool(runs_of(sqlite, study)))
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: [run.info.status for run in runs_of(sqlite, study)] == ["FAILED"])


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////nowhere/mlflow.db"])
def test_a_store_that_cannot_be_reached_is_one_warning(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = start_run(tmp_path)
    start = time.monotonic()
    attempts = iter([True, True, False])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acl_bert.tracking.mirror._watch", lambda pid: lambda: next(attempts))
        follow(work, tmp_path / "none", uri, "study", os.getpid(), interval=0.01)
    assert time.monotonic() - start < 60  # MLflow's own patience is minutes
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert uri in warnings[0].message and "\n" not in warnings[0].message


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{tmp_path}/server.db"]
    command += ["--artifacts-destination", str(tmp_path / "server-artifacts")]
    log = (tmp_path / "server.log").open("w")
    process = subprocess.Popen(
        command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=tmp_path
    )

    def ready() -> bool:
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(ready, seconds=180)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(20)
        log.close()


def test_a_real_server(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    study = tmp_path / "served"
    uri = initialise(None, study)
    assert uri == server
    work = start_run(study, steps=2)
    run_id = mirror(work, uri, study.name)
    assert mirror(finish_run(study), uri, study.name) == run_id
    before = everything(uri, run_id)
    assert mirror(finish_run(study), uri, study.name) == run_id
    assert everything(uri, run_id) == before
    assert before["run"]["info"]["status"] == "FINISHED"
    assert sorted(step for step, _, _ in before["points"]["step/loss"]) == [1, 2, 3]
    assert "predictions.csv" in before["files"]
    assert not (study / "mlartifacts").exists()
    other = mirror(start_run(study, run_hash="b" * 64), uri, study.name)
    assert [run.info.run_id for run in runs_of(uri, study)] == [other]
