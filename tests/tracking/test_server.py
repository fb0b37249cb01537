"""A real MLflow server, there and away."""

from pathlib import Path
from typing import Any

import pytest
from mlflow_store import curve, everything, runs_of
from run_folders import append, finish_run, history_line, start_run

from acl_bert.tracking.store import StoreError, tracking_uri
from acl_bert.tracking.sync import Tracker


def test_a_real_server(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    study = tmp_path / "served"
    uri = tracking_uri(None, study)
    start_run(study, run_hash="a" * 64, steps=2)
    Tracker(study, uri).sync(last=False)
    (live,) = runs_of(uri, study)
    finish_run(study, run_hash="a" * 64)
    assert Tracker(study, uri).sync().mirrored == 1
    before = everything(uri, study, live.info.run_id)
    assert Tracker(study, uri).sync().unchanged == 1
    assert everything(uri, study, live.info.run_id) == before
    assert before["run"]["info"]["status"] == "FINISHED"
    assert sorted(step for step, _, _ in before["points"]["step/loss"]) == [1, 2, 3]
    assert "predictions.csv" in before["files"]
    assert not (study / "mlartifacts").exists()


def test_a_server_that_goes_away_and_comes_back_gets_everything(
    server: Any, tmp_path: Path
) -> None:
    study = tmp_path / "interrupted"
    work = start_run(study, steps=1)
    tracker = Tracker(study, server.address)
    tracker.sync(last=False)
    (run,) = runs_of(server.address, study)
    server.stop()
    append(work / "history.csv", history_line(2))
    with pytest.raises(StoreError):
        tracker.sync(last=False)
    append(work / "history.csv", history_line(3))
    server.start()
    tracker.sync(last=False)
    assert len(curve(server.address, run.info.run_id, "step/loss")) == 3
    tracker.sync()
    (after,) = runs_of(server.address, study)
    assert (after.info.run_id, after.info.status) == (run.info.run_id, "FAILED")
