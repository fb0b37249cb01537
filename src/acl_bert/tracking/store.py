"""The MLflow store of a study: where it is, and how it comes to be."""

import fcntl
import logging
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
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
    study_folder: Path
    artifacts: Path | None

    def runs(self, tags: Mapping[str, str] | None = None) -> Iterator[Run]:
        """Live runs that have these tags, or all; the oldest first."""
        query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in (tags or {}).items())
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


def open_experiment(uri: str, study_folder: Path) -> Experiment:
    """The study's experiment, named like its folder. Raises StoreError where it is not there.

    Opening an absent SQLite store would create it, and two processes that do so at once leave it
    unreadable: only `initialise` may.
    """
    _be_quick_and_quiet()
    _check_file(uri)
    if uri.startswith(SQLITE) and not _sqlite_file(uri).exists():
        raise StoreError(f"{uri}: no such store; initialise it first")
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(study_folder.name)
    if found is None:
        raise StoreError(f"it has no experiment {study_folder.name}; initialise it first")
    artifacts = None if is_server(uri) else study_folder / ARTIFACTS
    return Experiment(client, found.experiment_id, study_folder, artifacts)


def initialise(uri: str, study_folder: Path) -> Experiment:
    """Create the study's store and experiment where they are not there yet, and open them.

    The experiment is named like the study's folder. Its artifacts lie in the study's folder too,
    unless the store is a server, which has a place of its own. Processes that call this at once on
    one machine wait for each other. Raises StoreError where the store cannot be used.
    """
    _be_quick_and_quiet()
    study_folder.mkdir(parents=True, exist_ok=True)
    try:
        _check_file(uri)
        with alone(study_folder, STORE):
            file = _sqlite_file(uri) if uri.startswith(SQLITE) else None
            if file and not file.exists():
                # Aside, so that nobody opens a store whose tables are still being made.
                with atomic_file(file) as aside:
                    _create_experiment(f"{SQLITE}{aside}", study_folder.name)
            _create_experiment(uri, study_folder.name)
    except Exception as error:  # MLflow, its database and its HTTP client each raise their own
        raise StoreError(first_line(error)) from error
    return open_experiment(uri, study_folder)


@contextmanager
def alone(study_folder: Path, name: str) -> Iterator[None]:
    """Let processes that write one thing to a study's store, called `name`, do it in turn.

    A name's lock is a byte of one file, which no run's folder holds and nobody removes: NFS keeps a
    folder whose file is open. It is a POSIX lock, as what passes locks on between machines does so
    with these first; it keeps processes apart, not threads. On a file system without locks nobody
    waits: `initialise` is the workflow's first step, and what may be in MLflow twice is a run until
    it is mirrored again, and a point that one process drew while the run went on and another one
    when it was finished.
    """
    with (study_folder / f".{STORE}.lock").open("w") as lock:
        with suppress(OSError):
            # Two names of one byte only wait for each other; 31 bits fit all of NFS's versions.
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, zlib.crc32(name.encode()) >> 1)
        yield


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


def not_mirrored(uri: str, error: Exception) -> str:
    """One line about what kept a run out of MLflow."""
    return (
        f"not mirrored to MLflow at {shown(uri)}: {first_line(error)}; the results are in the "
        "study's folder, and make sync-tracking mirrors them later"
    )


def not_synced(uri: str, error: Exception) -> str:
    """The same where just that was tried."""
    anew = ", or remove that file: it is made anew" if uri.startswith(SQLITE) else ""
    return (
        f"not mirrored to MLflow at {shown(uri)}: {first_line(error)}; do it again once the store "
        f"can be used{anew}"
    )


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
