"""The MLflow store of a study: where it is, and how it comes to be."""

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path

from mlflow.tracking import MlflowClient

STORE = "mlflow.db"
ARTIFACTS = "mlartifacts"
SQLITE = "sqlite:///"

# Opens the experiment's page on its training runs: MLflow takes any other for a GenAI project.
EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}

logger = logging.getLogger(__name__)


class StoreError(Exception):
    """The store cannot be used now. Nothing depends on it: report it and go on."""


def tracking_uri(configured: str | None, study_folder: Path) -> str:
    """`MLFLOW_TRACKING_URI`, else the configured store, else SQLite in the study's folder."""
    default = f"{SQLITE}{study_folder.resolve() / STORE}"
    return os.environ.get("MLFLOW_TRACKING_URI") or configured or default


def connect(uri: str) -> MlflowClient:
    """A client of a store that is there. Raises StoreError where a SQLite file is not.

    Opening an absent SQLite store would create it, and two processes that do so at once leave it
    unreadable: only `initialise` may.
    """
    _be_quick_and_quiet()
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE).split("?")[0]).is_file():
        raise StoreError(f"{uri}: no such store; initialise it first")
    return MlflowClient(tracking_uri=uri)


def initialise(configured: str | None, study_folder: Path) -> str:
    """Create the study's store and experiment where they are not there yet; returns its URI.

    The experiment is named like the study's folder. Its artifacts lie in the study's folder too,
    unless the store is a server, which has a place of its own. Processes that call this at once on
    one machine wait for each other. A store that cannot be used is a warning: files are the truth.
    """
    uri = tracking_uri(configured, study_folder)
    _be_quick_and_quiet()
    study_folder.mkdir(parents=True, exist_ok=True)
    artifacts = None if uri.startswith("http") else (study_folder / ARTIFACTS).resolve().as_uri()
    try:
        with (study_folder / f".{STORE}.lock").open("w") as lock:
            with suppress(OSError):  # a file system without locks: the workflow calls this once
                fcntl.flock(lock, fcntl.LOCK_EX)
            client = MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(study_folder.name)
            if experiment is None:
                client.create_experiment(study_folder.name, artifacts, EXPERIMENT_TAGS)
            elif experiment.lifecycle_stage != "active":
                client.restore_experiment(experiment.experiment_id)
    except Exception as error:  # MLflow, its database and its HTTP client each raise their own
        logger.warning("%s", not_mirrored(uri, error))
        return uri
    if experiment and artifacts and experiment.artifact_location != artifacts:
        logger.warning(
            "MLflow keeps the artifacts of %s in %s: the study was moved. To mend it, remove %s "
            "and mirror the runs again",
            study_folder.name,
            experiment.artifact_location,
            uri.removeprefix(SQLITE),
        )
    return uri


def not_mirrored(uri: str, error: Exception) -> str:
    """One line about what kept a run out of MLflow."""
    reason = (str(error) or type(error).__name__).splitlines()[0][:200]
    return f"not mirrored to MLflow at {uri}: {reason}; the results are in the study's folder"


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
