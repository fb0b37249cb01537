"""A real MLflow server, there and away."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow_store import curve, everything, mirror, runs_of, wait_until
from run_folders import append, finish_run, history_line, start_run

from acl_bert.tracking.follow import follow
from acl_bert.tracking.store import initialise, tracking_uri


def test_a_real_server(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    study = tmp_path / "served"
    uri = tracking_uri(None, study)
    initialise(uri, study)
    work = start_run(study, steps=2)
    run_id = mirror(work, uri, study)
    assert mirror(finish_run(study), uri, study) == run_id
    before = everything(uri, study, run_id)
    assert mirror(finish_run(study), uri, study) == run_id
    assert everything(uri, study, run_id) == before
    assert before["run"]["info"]["status"] == "FINISHED"
    assert sorted(step for step, _, _ in before["points"]["step/loss"]) == [1, 2, 3]
    assert "predictions.csv" in before["files"]
    assert not (study / "mlartifacts").exists()
    other = mirror(start_run(study, run_hash="b" * 64), uri, study)
    assert [run.info.run_id for run in runs_of(uri, study)] == [other]


def test_a_server_that_goes_away_and_comes_back_gets_everything(
    server: Any, tmp_path: Path, training: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    study = tmp_path / "interrupted"
    work = start_run(study, steps=1)
    with ThreadPoolExecutor() as pool:
        following = pool.submit(
            follow, work, study / "none", server.address, study, training.pid, 0.1
        )
        wait_until(lambda: server_has_run(server, study))
        (run,) = runs_of(server.address, study)
        server.stop()
        append(work / "history.csv", history_line(2))
        wait_until(lambda: "tried again" in caplog.text)
        append(work / "history.csv", history_line(3))
        server.start()
        wait_until(lambda: len(curve(server.address, run.info.run_id, "step/loss")) == 3)
        training.kill()
        training.wait()
        following.result(60)
    (after,) = runs_of(server.address, study)
    assert (after.info.run_id, after.info.status) == (run.info.run_id, "FAILED")
    assert caplog.text.count("tried again") == 1 and "not mirrored" not in caplog.text


def server_has_run(server: Any, study: Path) -> bool:
    try:
        return bool(runs_of(server.address, study))
    except AssertionError:  # no experiment yet
        return False
