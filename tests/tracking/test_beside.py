"""The tracker's process beside a workflow."""

from pathlib import Path

import pytest

from acl_bert.tracking.beside import TrackerProcess


def test_one_that_was_not_started_ends_silently(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    TrackerProcess("no.yaml", tmp_path / "tracking.log").end()
    assert capfd.readouterr().err == ""


def test_a_tracker_that_fails_is_reported_with_its_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "logs" / "tracking.log"
    tracker = TrackerProcess(str(tmp_path / "no.yaml"), log)
    tracker.start()
    tracker.end()
    assert f"MLflow is not up to date: see {log}" in capfd.readouterr().err
