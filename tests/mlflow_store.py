"""What tests ask of MLflow stores."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow.entities import Run, ViewType
from mlflow.tracking import MlflowClient

from acl_bert.runs.files import RunFolder
from acl_bert.runs.store import Store
from acl_bert.tracking import mirror as mirroring
from acl_bert.tracking.browsing import RUN_HASH, identity_of
from acl_bert.tracking.store import ARTIFACTS, SERVED, open_experiment


def mirror(folder: Path, uri: str, study: Path) -> str:
    """As the tracker does it; returns MLflow's id of the run."""
    files, experiment = RunFolder(folder), open_experiment(uri, study)
    digest = Store(folder.parent).name_of(folder.name)["digest"] if files.finished else None
    identity = identity_of(files.config())
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in identity.items())
    mirroring.mirror(files, experiment, list(experiment.runs(query)), digest=digest)
    (run,) = experiment.runs(f"tags.`{RUN_HASH}` = '{files.run_hash}'")
    return str(run.info.run_id)


def runs_of(uri: str, study: Path, view: int = ViewType.ACTIVE_ONLY) -> list[Run]:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(study.name)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], run_view_type=view))


def curve(uri: str, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in MlflowClient(uri).get_metric_history(run_id, name)]


def everything(uri: str, study: Path, run_id: str) -> dict[str, Any]:
    """All that MLflow knows about a run."""
    client = MlflowClient(uri)
    run = client.get_run(run_id).to_dictionary()
    names = run["data"]["metrics"]
    points = {
        name: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run_id, name)]
        for name in names
    }
    return {"run": run, "points": points, "files": artifacts(uri, study, run_id)}


def artifacts(uri: str, study: Path, run_id: str) -> list[str]:
    """Names of a run's artifacts; those of a store that is a file lie in the study's folder."""
    client = MlflowClient(uri)
    if uri.startswith("http"):
        return [file.path for file in client.list_artifacts(run_id)]
    location = client.get_run(run_id).info.artifact_uri
    assert location.startswith(SERVED)
    folder = study / ARTIFACTS / location.removeprefix(SERVED)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
