"""A run's files in MLflow: can be called at any time, again and again, and adds only what is new.

Files are the truth: where MLflow shows a training that the files no longer hold, its run is
replaced.
"""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.tracking import MlflowClient

from acl_bert.runs.files import (
    LOGITS,
    PREDICTIONS,
    PUBLISHED,
    REPRESENTATIONS,
    Row,
    RunFolder,
    is_drawn,
)
from acl_bert.tracking.browsing import (
    DEV_SCORE,
    DIGEST,
    EPOCH_ROWS,
    RUN_HASH,
    STEPS,
    VARIANT,
    describing_tags,
    identity_of,
    run_name,
)
from acl_bert.tracking.store import Experiment

PARAMETER_LENGTH = 500
BATCH = 1000  # MLflow's limit of metrics, parameters and tags in one call
PARAMETERS = 100  # of parameters alone

T = TypeVar("T")


def mirror(
    files: RunFolder,
    experiment: Experiment,
    known: Iterable[Run],
    variant: str | None = None,
    digest: str | None = None,
) -> bool:
    """Bring MLflow up to date with a run's files; returns whether there was anything to do.

    `digest`: that of a finished run's manifest, None while the run is in progress. `variant`: which
    λ of the grid it tries, if it does. `known`: what MLflow has of the study's task, encoder,
    method, seed and variant. Of these the one that shows this training goes on, one that was ended
    too, once there are new points; the others are deleted: they are superseded.
    Raises InputError where the files are damaged, and whatever MLflow raises.
    """
    client, kept = experiment.client, None
    for run in known:
        if kept is None and _shows(run, files, digest):
            kept = run
        else:
            client.delete_run(run.info.run_id)
    if kept and kept.info.status == "FINISHED":
        return False
    run = kept or _create(experiment, files, variant)
    run_id = run.info.run_id
    _log_parameters(client, run, files.config())
    grows = _log_curves(client, run, files)
    if digest is None:
        if grows and run.info.status != "RUNNING":
            client.update_run(run_id, status="RUNNING")  # resumed
        return grows or kept is None
    end = _log_result(client, run_id, files, digest)
    _keep_artifacts(experiment, run, files)
    # Last, so that a mirror cut short is done again.
    client.set_terminated(run_id, "FINISHED", end)
    return True


def _shows(run: Run, files: RunFolder, digest: str | None) -> bool:
    """Whether the MLflow run shows this very training, and not an earlier one of equal address.

    A training that went on from a checkpoint before the last points has fewer rows than were drawn.
    """
    tags = run.data.tags
    if tags.get(RUN_HASH) != files.run_hash:
        return False
    if run.info.status == "FINISHED":
        return tags.get(DIGEST) == digest
    return int(tags.get(STEPS, "0")) <= files.steps()


def _create(experiment: Experiment, files: RunFolder, variant: str | None) -> Run:
    config = files.config()
    identity = identity_of(config)
    tags = identity | {RUN_HASH: files.run_hash} | _provenance(config)
    tags |= describing_tags(config, variant, experiment.id)
    if variant:
        tags[VARIANT] = variant
    start = _milliseconds(files.span()[0] if files.finished else time.time())
    return experiment.client.create_run(experiment.id, start, tags, run_name(identity, variant))


def _milliseconds(moment: float) -> int:
    return int(1000 * moment)


def _chunks(items: list[T], size: int) -> Iterable[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


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
    # MLflow refuses to change a parameter: what is missing is added.
    missing = [
        Param(name, text) for name, text in flatten(config).items() if name not in run.data.params
    ]
    for some in _chunks(missing, PARAMETERS):
        client.log_batch(run.info.run_id, params=some)


def _log_curves(client: MlflowClient, run: Run, folder: RunFolder) -> bool:
    """Whether there are rows that MLflow has no points of yet."""
    grows = False
    now = _milliseconds(folder.span()[1] if folder.finished else time.time())
    for tag, prefix, read in (
        (STEPS, "step", folder.history),
        (EPOCH_ROWS, "epoch", folder.epochs),
    ):
        done = int(run.data.tags.get(tag, "0"))
        rows = read(done)
        grows = grows or bool(rows)
        for some in _chunks(rows, (BATCH - 1) // len(rows[0]) if rows else 1):
            # Points and the count of rows they came from go in one call.
            done += len(some)
            drawn = [row for row in some if prefix == "epoch" or is_drawn(int(row["step"] or 0))]
            points = [point for row in drawn for point in _points(row, prefix, now)]
            client.log_batch(run.info.run_id, points, tags=[RunTag(tag, str(done))])
    return grows


def _points(row: Row, prefix: str, now: int) -> Iterable[Metric]:
    step = int(row["step"] or 0)
    for name, value in row.items():
        if name not in ("step", "epoch") and value is not None:
            yield Metric(f"{prefix}/{name}", value, now, step)


def _log_result(client: MlflowClient, run_id: str, folder: RunFolder, digest: str) -> int:
    """Log the final numbers; returns when the run ended, in milliseconds."""
    metrics, timings = folder.metrics(), folder.timings()
    finals = {f"dev/{name}": value for name, value in metrics["metrics"].items()}
    selection = metrics["selection"]
    finals[f"selection/{selection['metric']}"] = selection["value"]
    if selection["metric"] in metrics["metrics"]:
        finals[DEV_SCORE] = metrics["metrics"][selection["metric"]]
    finals["selection/epoch"] = selection["epoch"]
    finals |= {f"seconds/{phase}": value for phase, value in timings["seconds"].items()}
    finals["tokens_per_second"] = timings["tokens_per_second"]
    for name, value in (metrics["gate"] or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            finals[f"gate/{name}"] = value
    tags = _provenance(
        {"commit": timings["commit"], "data_fingerprint": metrics["data"]["fingerprint"]}
    ) | {DIGEST: digest, "degenerate": str(metrics["degenerate"]).lower()}
    # Not the time of this call: done twice, it is the same point.
    end = _milliseconds(folder.span()[1])
    points = [Metric(name, value, end, 0) for name, value in finals.items()]
    if len(metrics["exits"]) > 1:  # a curve over layers, which MLflow draws as one over steps
        points += [
            Metric(f"exits/{name}", value, end, int(layer))
            for layer, scores in metrics["exits"].items()
            for name, value in scores.items()
        ]
    client.log_batch(run_id, points, tags=[RunTag(name, value) for name, value in tags.items()])
    return end


def _keep_artifacts(experiment: Experiment, run: Run, folder: RunFolder) -> None:
    scored = bool(folder.metrics()["metrics"])  # a run that tries a λ never saw dev
    for name in PUBLISHED:  # not the model: no second copy of it
        if scored or name not in (PREDICTIONS, LOGITS, REPRESENTATIONS):
            experiment.keep_artifact(run, folder.path / name)
