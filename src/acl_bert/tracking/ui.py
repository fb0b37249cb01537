"""MLflow's pages of a study."""

import os
import sys
from pathlib import Path

from acl_bert.tracking.store import ARTIFACTS, connect, tracking_uri


def runs_page(base: str, uri: str, experiment: str) -> str:
    """The address of an experiment's training runs, MLflow's own start page being another."""
    found = connect(uri).get_experiment_by_name(experiment)
    return f"{base}/#/experiments/{found.experiment_id}/runs" if found else base


def serve(configured: str | None, study_folder: Path, port: int) -> None:
    """Become `mlflow server` on loopback; does not return. A remote store only has its page named.

    Raises StoreError where the study has no store yet.
    """
    uri = tracking_uri(configured, study_folder)
    if uri.startswith("http"):
        print(f"The study's runs: {runs_page(uri.rstrip('/'), uri, study_folder.name)}")
        return
    page = runs_page(f"http://127.0.0.1:{port}", uri, study_folder.name)
    print(f"The study's runs, in some seconds: {page}\nStop with Ctrl-C.", flush=True)
    artifacts = (study_folder / ARTIFACTS).resolve().as_uri()
    command = [sys.executable, "-m", "mlflow", "server"]
    command += ["--backend-store-uri", uri, "--artifacts-destination", artifacts]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # The job runner is for MLflow's own evaluations: five more processes and a gigabyte.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    os.execve(sys.executable, command, environment)
