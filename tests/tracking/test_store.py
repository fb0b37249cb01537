"""Where a study's MLflow store is, and how it comes to be."""

import subprocess
import sys
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from acl_bert.tracking.store import StoreError, connect, initialise, tracking_uri


@pytest.fixture(autouse=True)
def no_store_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_the_environment_comes_before_the_config_and_sqlite_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracking_uri(None, tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert tracking_uri("http://one:5000", tmp_path) == "http://one:5000"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two:5000")
    assert tracking_uri("http://one:5000", tmp_path) == "http://two:5000"


def test_two_processes_at_once_create_one_store(tmp_path: Path) -> None:
    study = tmp_path / "study"
    code = (
        "import sys; from pathlib import Path; from acl_bert.tracking.store import initialise; "
        "initialise(None, Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(study)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert "not mirrored" not in "".join(errors)
    uri = initialise(None, study)  # and again, on a store that is there
    experiments = [e for e in MlflowClient(uri).search_experiments() if e.name == "study"]
    assert len(experiments) == 1
    assert experiments[0].artifact_location == (study / "mlartifacts").as_uri()


def test_a_store_that_cannot_be_had_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = initialise("http://127.0.0.1:9", tmp_path / "study")
    assert uri == "http://127.0.0.1:9"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "http://127.0.0.1:9" in record.message and "\n" not in record.message


def test_connecting_never_creates_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        connect(f"sqlite:///{tmp_path}/mlflow.db")
    assert list(tmp_path.iterdir()) == []
