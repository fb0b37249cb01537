"""A run's files in MLflow: can be called at any time, again and again, and adds only what is new.

Files are the truth: where MLflow shows a training that the files no longer hold, its run is
replaced.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from mlflow.entities import Metric, Param, Run, RunTag, ViewType
from mlflow.tracking import MlflowClient

from acl_bert.errors import InputError
from acl_bert.run_files import (
    CONFIG,
    LOGITS,
    PREDICTIONS,
    PUBLISHED,
    REPRESENTATIONS,
    Row,
    RunFolder,
    Timings,
    variant_of,
)
from acl_bert.tracking.store import StoreError, connect, not_mirrored

# The mirror's own tags: whose files a run shows, and how many of their rows it has.
RUN_HASH = "acl.run_hash"
STEPS = "acl.mirrored_steps"
EPOCH_ROWS = "acl.mirrored_epochs"
STARTED = "acl.started"
VARIANT = "acl.variant"
TEACHER = "acl.teacher_hash"  # the run hash of the run that came first

PARAMETER_LENGTH = 500
BATCH = 1000  # metrics in one call, MLflow's limit
PARAMETERS = 100  # likewise

T = TypeVar("T")

logger = logging.getLogger(__name__)


def mirror(folder: Path, uri: str, experiment: str, variant: str | None = None) -> str:
    """Bring MLflow up to date with a run's folder, finished or not; returns MLflow's run id.

    A run is found by its hash. Other live runs of its task, encoder, method, seed and `variant`
    (which λ of the grid it tries, if it does) are deleted: they are superseded. So is a run of the
    same hash when the files are of a later training.
    Raises StoreError (and whatever MLflow raises) when the store cannot be used.
    """
    client = connect(uri)
    place = client.get_experiment_by_name(experiment)
    if place is None:
        raise StoreError(f"it has no experiment {experiment}; initialise it first")
    files = RunFolder(folder)
    run = _find_or_create(client, place.experiment_id, files, variant)
    if run.info.status == "FINISHED":
        return str(run.info.run_id)
    if run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status="RUNNING")  # resumed
    _log_parameters(client, run, files.config())
    _log_curves(client, run, files)
    if files.finished:
        _finish(client, run, files)
    return str(run.info.run_id)


def follow(
    work_folder: Path,
    run_folder: Path,
    uri: str,
    experiment: str,
    parent_pid: int,
    interval: float = 5.0,
) -> None:
    """Mirror a run while it trains: until it is published, or the process that trains has ended.

    The run grows in `work_folder`, named by the run's hash, and moves to `run_folder`, where an
    older run may lie until then: start this when `work_folder` is there. A run that ended without
    a result is marked FAILED; resumed, it goes on. What goes wrong here is one warning and is tried
    again while the training lasts; it never raises.
    """
    parent_is_alive = _watch(parent_pid)
    warned = False
    while True:
        # Asked before the files are looked at: the last thing the training wrote is then seen.
        training = parent_is_alive()
        published = not work_folder.exists() and _is_result_of(run_folder, work_folder.name)
        folder = run_folder if published else work_folder
        try:
            if (folder / CONFIG).is_file():
                run_id = mirror(folder, uri, experiment, variant_of(run_folder))
                if not training and not RunFolder(folder).finished:
                    connect(uri).set_terminated(run_id, "FAILED")
        except Exception as error:  # whatever it is, it must not reach the training
            published_meanwhile = not published and not work_folder.exists()
            if not warned and not published_meanwhile:
                warned = True
                logger.warning("%s", not_mirrored(uri, error))
        if published or not training:
            return
        time.sleep(interval)


def _watch(pid: int) -> Callable[[], bool]:
    """Whether a process still runs."""
    if os.getppid() == pid:
        # A child whose parent ends is given another: sure even where the number is used again.
        return lambda: os.getppid() == pid

    def exists() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    return exists


def _is_result_of(folder: Path, run_hash: str) -> bool:
    try:
        return RunFolder(folder).metrics()["run_hash"] == run_hash
    except InputError:  # none yet, or just being replaced
        return False


def _search(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> list[Run]:
    """Live runs that have these tags, the oldest first."""
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
    return list(
        client.search_runs(
            [experiment_id], query, ViewType.ACTIVE_ONLY, order_by=["attributes.start_time ASC"]
        )
    )


def _find_or_create(
    client: MlflowClient, experiment_id: str, folder: RunFolder, variant: str | None
) -> Run:
    config = folder.config()
    identity = {
        "task": config["task"],
        "encoder": config["encoder"],
        "method": config["method_id"],
        "seed": str(config["seed"]),
    }
    kept = None
    for run in _search(client, experiment_id, identity):
        if run.data.tags.get(VARIANT) != variant:
            continue
        if kept is None and _is_mirror_of(run, folder):
            kept = run
        else:
            client.delete_run(run.info.run_id)
    if kept is not None:
        return kept
    tags = identity | {RUN_HASH: folder.run_hash} | _provenance(config)
    if variant:
        tags[VARIANT] = variant
    parts = (identity["task"], identity["method"], identity["encoder"], variant)
    name = " · ".join(part for part in (*parts, f"seed {identity['seed']}") if part)
    start = _milliseconds(folder.timings()["started"]) if folder.finished else _now()
    return client.create_run(experiment_id, start, tags, name)


def _now() -> int:
    return int(time.time() * 1000)


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


def _end(timings: Timings) -> int:
    return _milliseconds(timings["started"]) + int(1000 * timings["seconds"]["total"])


def _chunks(items: list[T], size: int) -> Iterable[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _is_mirror_of(run: Run, folder: RunFolder) -> bool:
    """Whether the MLflow run shows this very training, and not an earlier one of equal hash."""
    tags = run.data.tags
    if tags.get(RUN_HASH) != folder.run_hash:
        return False
    if run.info.status != "FINISHED":
        return int(tags.get(STEPS, "0")) <= folder.steps()
    return folder.finished and tags.get(STARTED) == folder.timings()["started"]


def _provenance(source: Mapping[str, Any]) -> dict[str, str]:
    """Tags of what the run was made from, as far as known: all of it once it is finished."""
    tags: dict[str, str] = {}
    if commit := source.get("commit"):
        tags |= {"commit": commit, "mlflow.source.git.commit": commit}
    if fingerprint := source.get("data_fingerprint"):
        tags["data_fingerprint"] = fingerprint
    return tags


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as MLflow parameters: `training.lr`, text of at most 500 characters."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            short = text if len(text) <= PARAMETER_LENGTH else text[: PARAMETER_LENGTH - 1] + "…"
            flat[name] = short
    return flat


def _log_parameters(client: MlflowClient, run: Run, config: Mapping[str, Any]) -> None:
    # MLflow refuses to change a parameter; those of one hash are the same, so add what is missing.
    config = {name: value for name, value in config.items() if name != "identity"}
    missing = [
        Param(name, text) for name, text in flatten(config).items() if name not in run.data.params
    ]
    for some in _chunks(missing, PARAMETERS):
        client.log_batch(run.info.run_id, params=some)


def _log_curves(client: MlflowClient, run: Run, folder: RunFolder) -> None:
    now = _end(folder.timings()) if folder.finished else _now()
    for tag, prefix, read in (
        (STEPS, "step", folder.history),
        (EPOCH_ROWS, "epoch", folder.epochs),
    ):
        done = int(run.data.tags.get(tag, "0"))
        rows = read(done)
        for some in _chunks(rows, BATCH // len(rows[0]) if rows else 1):
            # Points and the count of rows they came from go in one call.
            done += len(some)
            points = [point for row in some for point in _points(row, prefix, now)]
            client.log_batch(run.info.run_id, metrics=points, tags=[RunTag(tag, str(done))])


def _points(row: Row, prefix: str, now: int) -> Iterable[Metric]:
    step = int(row["step"] or 0)
    for name, value in row.items():
        if name not in ("step", "epoch") and value is not None:
            yield Metric(f"{prefix}/{name}", value, now, step)


def _finish(client: MlflowClient, run: Run, folder: RunFolder) -> None:
    """Final numbers and artifacts; the status last, so that a mirror cut short is done again."""
    run_id = run.info.run_id
    metrics, timings = folder.metrics(), folder.timings()
    finals = {f"dev/{name}": value for name, value in metrics["metrics"].items()}
    selection = metrics["selection"]
    finals[f"selection/{selection['metric']}"] = selection["value"]
    finals["selection/epoch"] = selection["epoch"]
    finals |= {f"seconds/{phase}": value for phase, value in timings["seconds"].items()}
    finals["tokens_per_second"] = timings["tokens_per_second"]
    for name, value in (metrics["gate"] or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            finals[f"gate/{name}"] = value
    tags = _provenance(
        {"commit": timings["commit"], "data_fingerprint": metrics["data"]["fingerprint"]}
    ) | {STARTED: timings["started"], "degenerate": str(metrics["degenerate"]).lower()}
    if teacher := metrics.get("teacher"):
        tags[TEACHER] = teacher
    end = _end(timings)  # not the time of this call: done twice, it is the same point
    points = [Metric(name, value, end, 0) for name, value in finals.items()]
    if len(metrics["exits"]) > 1:  # a curve over layers, which MLflow draws as one over steps
        points += [
            Metric(f"exits/{name}", value, end, int(layer))
            for layer, scores in metrics["exits"].items()
            for name, value in scores.items()
        ]
    client.log_batch(
        run_id,
        metrics=points,
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    for name in PUBLISHED:  # not the model: no second copy of it
        # A run that tries a λ never saw dev.
        if name not in (PREDICTIONS, LOGITS, REPRESENTATIONS) or metrics["metrics"]:
            client.log_artifact(run_id, str(folder.path / name))
    client.set_terminated(run_id, "FINISHED", end)
