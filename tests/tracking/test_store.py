"""Where a study's MLflow store is, and how it comes to be."""

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from acl_bert.tracking.store import (
    StoreError,
    complaint,
    open_experiment,
    shown,
    tracking_uri,
)


def test_the_environment_comes_before_the_config_and_sqlite_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracking_uri(None, tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert tracking_uri("http://one:5000", tmp_path) == "http://one:5000"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two:5000")
    assert tracking_uri("http://one:5000", tmp_path) == "http://two:5000"


def test_a_store_comes_whole_and_stays_as_it_is(sqlite: str, tmp_path: Path) -> None:
    study = tmp_path / "study"
    first = open_experiment(sqlite, study, create=True)
    tags = first.client.get_experiment(first.id).tags
    first.client.set_experiment_tag(first.id, "mine", "kept")
    assert open_experiment(sqlite, study, create=True).id == first.id
    found = first.client.get_experiment(first.id)
    assert found.tags == tags | {"mine": "kept"}
    assert found.tags["mlflow.experimentKind"] == "custom_model_development"
    file = Path(sqlite.removeprefix("sqlite:///"))
    assert list(file.parent.glob(f".{file.name}*")) == []  # nothing of what was made aside


def test_an_experiment_that_was_deleted_is_restored(sqlite: str, tmp_path: Path) -> None:
    study = tmp_path / "deleted"
    first = open_experiment(sqlite, study, create=True)
    first.client.delete_experiment(first.id)
    assert open_experiment(sqlite, study, create=True).id == first.id
    assert first.client.get_experiment(first.id).lifecycle_stage == "active"


def test_artifacts_at_an_absolute_place_are_a_warning(
    sqlite: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = tmp_path / "absolute"
    client = open_experiment(sqlite, tmp_path / "other", create=True).client
    client.create_experiment(study.name, (study / "mlartifacts").as_uri())
    with caplog.at_level(logging.WARNING):
        open_experiment(sqlite, study, create=True)
    assert str(study) in caplog.text and "make sync-tracking" in caplog.text


def test_a_store_that_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        open_experiment("http://127.0.0.1:9", tmp_path / "study", create=True)
    assert "\n" not in str(raised.value)


def test_opening_never_creates_a_store(sqlite: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        open_experiment(f"sqlite:///{tmp_path}/mlflow.db", tmp_path)
    assert list(tmp_path.iterdir()) == []
    open_experiment(sqlite, tmp_path / "other", create=True)
    with pytest.raises(StoreError, match="no experiment"):
        open_experiment(sqlite, tmp_path)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("a folder", "is not a file that can be read and written"),
        ("rubbish", "is not an SQLite database"),
        ("nowhere", "no such folder"),
    ],
)
@pytest.mark.parametrize("opened", [partial(open_experiment, create=True), open_experiment])
def test_a_file_that_is_no_store_is_said_at_once(
    tmp_path: Path, state: str, said: str, opened: Callable[[str, Path], object]
) -> None:
    file = tmp_path / ("none" if state == "nowhere" else "") / "mlflow.db"
    if state == "a folder":
        file.mkdir()
    elif state == "rubbish":
        file.write_bytes(bytes(3000))
    with pytest.raises(StoreError, match=said):
        opened(f"sqlite:///{file}", tmp_path / "study")
    assert not (tmp_path / "none").exists()


def test_opening_leaves_this_process_its_locks(sqlite: str, study: Path) -> None:
    file = sqlite.removeprefix("sqlite:///")
    other = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")
        open_experiment(sqlite, study)
        done = subprocess.run([sys.executable, "-c", other, file], capture_output=True, text=True)
        assert "database is locked" in done.stderr


def test_no_password_is_shown() -> None:
    uri = "postgresql://me:secret@server:1/db"
    line = complaint(uri, OSError("away"))
    assert "secret" not in line and "postgresql://me:***@server:1/db" in line and "away" in line
    assert shown("http://server:5000") == "http://server:5000"
    assert shown("sqlite:////a:b@c/mlflow.db") == "sqlite:////a:b@c/mlflow.db"
