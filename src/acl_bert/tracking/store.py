"""The MLflow store of a study: where it is, and how it comes to be."""

import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from acl_bert.errors import first_line
from acl_bert.files import atomic_file
from acl_bert.tracking.browsing import experiment_tags

STORE = "mlflow.db"
ARTIFACTS = "mlartifacts"
SQLITE = "sqlite:///"
# Where a run's artifacts are, for MLflow: below what its server serves, wherever that lies. A
# study can so be moved, or be seen under other paths from other machines.
SERVED = "mlflow-artifacts:/"

logger = logging.getLogger(__name__)


class StoreError(Exception):
    """The store cannot be used now. Nothing depends on it: report it and go on."""


@dataclass(frozen=True)
class Experiment:
    """A study's experiment in a store that is there; `artifacts` is None where a server has them.

    Methods raise MlflowException where the store fails.
    """

    client: MlflowClient
    id: str
    artifacts: Path | None

    def runs(self, query: str = "") -> Iterator[Run]:
        """Live runs that MLflow finds by a query, or all; the oldest first."""
        page = None
        while True:
            found = self.client.search_runs(
                [self.id],
                query,
                ViewType.ACTIVE_ONLY,
                order_by=["attributes.start_time ASC"],
                page_token=page,
            )
            yield from found
            page = found.token
            if not page:
                return

    def keep_artifact(self, run: Run, path: Path) -> None:
        """Copy a file to where the run's artifacts are."""
        location = run.info.artifact_uri
        if self.artifacts is None or not location.startswith(SERVED):
            self.client.log_artifact(run.info.run_id, str(path))
            return
        folder = self.artifacts / location.removeprefix(SERVED)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.name)


def tracking_uri(configured: str | None, study_folder: Path) -> str:
    """`MLFLOW_TRACKING_URI`, else the configured store, else SQLite in the study's folder."""
    default = f"{SQLITE}{study_folder.resolve() / STORE}"
    return os.environ.get("MLFLOW_TRACKING_URI") or configured or default


def is_server(uri: str) -> bool:
    """Whether a store is reached by HTTP: it then has a place of its own for artifacts."""
    return uri.startswith("http")


def open_experiment(uri: str, study_folder: Path, create: bool = False) -> Experiment:
    """The study's experiment, named like its folder. Raises StoreError where it cannot be had.

    Only the study's tracker may `create` it, and the store: where two processes open an absent
    SQLite store at once, each makes its tables and they leave it unreadable. The artifacts lie in
    the study's folder, unless the store is a server, which has a place of its own.
    """
    _be_quick_and_quiet()
    try:
        _check_file(uri)
        file = _sqlite_file(uri) if uri.startswith(SQLITE) else None
        if file and not file.exists():
            if not create:
                raise StoreError(f"{uri}: no such store")
            # Aside, so that a tracker that is killed leaves no store without its tables.
            with atomic_file(file) as aside:
                _create_experiment(f"{SQLITE}{aside}", study_folder.name)
        if create:
            _create_experiment(uri, study_folder.name)
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(study_folder.name)
    except Exception as error:  # MLflow, its database and its HTTP client each raise their own
        raise StoreError(first_line(error)) from error
    if found is None:
        raise StoreError(f"{shown(uri)}: it has no experiment {study_folder.name}")
    artifacts = None if is_server(uri) else study_folder / ARTIFACTS
    return Experiment(client, found.experiment_id, artifacts)


def _create_experiment(uri: str, name: str) -> None:
    """Make the experiment where it is not there, and give it what its page opens with."""
    client = MlflowClient(tracking_uri=uri)
    location = None if is_server(uri) else SERVED
    if client.get_experiment_by_name(name) is None:
        try:
            client.create_experiment(name, location, experiment_tags())
        except MlflowException as error:  # another machine was first
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    for tag, value in experiment_tags().items():
        if experiment.tags.get(tag) != value:
            client.set_experiment_tag(experiment.experiment_id, tag, value)
    if location and experiment.artifact_location != location:
        logger.warning(
            "MLflow keeps the artifacts of %s in %s, and does not find them once the study is "
            "moved. To mend it, remove %s and run make sync-tracking",
            name,
            experiment.artifact_location,
            uri.removeprefix(SQLITE),
        )


def _sqlite_file(uri: str) -> Path:
    return Path(uri.removeprefix(SQLITE).split("?")[0])


def _check_file(uri: str) -> None:
    """Raise StoreError for an SQLite file that cannot be one: MLflow would try it for minutes."""
    if not uri.startswith(SQLITE):
        return
    file = _sqlite_file(uri)
    if not file.parent.is_dir():
        raise StoreError(f"{file.parent}: no such folder")
    if not file.exists():
        return
    if not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
        raise StoreError(f"{file}: is not a file that can be read and written")
    try:
        # By SQLite: a file that this process opens and closes itself loses all locks it has on it.
        with closing(sqlite3.connect(file, timeout=0)) as store:
            store.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:  # busy: it is one
        pass
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{file}: is not an SQLite database") from error


def shown(uri: str) -> str:
    """A store's place without the password that it may have in it."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", uri)


def complaint(uri: str, error: Exception) -> str:
    """One line about a store that takes nothing."""
    return f"MLflow at {shown(uri)} cannot be brought up to date: {first_line(error)}"


def _be_quick_and_quiet() -> None:
    """MLflow would try a dead server for minutes, and print where each run can be seen.

    A mirror can be brought up to date later. What the user has set stays.
    """
    for name, value in (
        ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"),
        ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10"),
        ("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1"),
        ("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true"),
    ):
        os.environ.setdefault(name, value)
    # Its retries are told once, by whoever reports the failure.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
