"""How much a study still writes, and whether its disk can hold it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.planning.hours import Costs
from acl_bert.planning.sizes import Configuration, Sizes, costs
from acl_bert.runs.files import TASK, TOKENS, data_path, drawn, tokens_path
from acl_bert.study.planned import Run

UNCHECKED = "ACL_BERT_DISK_UNCHECKED"
"""Set in the environment, it lets a study start on a disk that seems too small."""

# Bytes, measured on the demo and the studies in docs/evidence.
_STEP = 120  # a row of history.csv
_PREDICTION, _LOGIT = 12, 13  # a row of predictions.csv, and each of its logits
_REPRESENTED = 500  # dev rows whose h is kept
_RUN = 53_000  # the other files and folders of a run, in whole blocks
_ROW = 45  # a prepared row, besides its texts
_TOKEN, _TOKENISED_ROW = 3, 24  # a token (id, segment); a row (offset, index, label)
_FOLDER = 100_000  # the small files beside tokens
_JOB = 40_000  # a job's log and Snakemake's records of its outputs
_PAGES = 5_000_000  # tables, figures, report
_POINT = 270  # a metric's point in MLflow's SQLite, with its indices
_MIRRORED = 25_000  # the rest of a run in MLflow
_STORE = 950_000  # an empty MLflow store
# A checkpoint has the weights, AdamW's two moments and the best epoch's weights. While it is
# written, the one before it is still there.
_CHECKPOINT = 2 * 4


@dataclass(frozen=True)
class DiskUse:
    """What a study still writes, at most at a time."""

    bytes: Mapping[str, int]
    """By kind of file."""
    free: int
    folder: Path
    """Where `free` was read: the study's folder, or the nearest one above that exists."""

    @property
    def needed(self) -> int:
        return sum(self.bytes.values())


def disk_use(sizes: Sizes, runs: Iterable[Run], speed: Costs, at_a_time: int) -> DiskUse:
    """The disk that `runs`, all still to come, and the stages around them need.

    `at_a_time` runs go on at once. Where the study keeps no models, at most twice as many teachers
    have theirs at a time, since the workflow trains students before the next teacher.
    """
    study, folder, runs = sizes.study, sizes.folder, list(runs)
    sums = Counter({"rows, tokens": _prepared(sizes)})
    sums["logs, report"] = _JOB * len(runs) + _PAGES * bool(runs)
    uri = study.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    mirrored = study.tracking.enabled and not uri
    if mirrored and runs:
        sums["MLflow"] += _STORE
    saved: list[tuple[int, int]] = []  # bytes of each saved model, and of its outputs for students
    in_progress = []
    for run in runs:
        known = sizes.configuration(run)
        files = _run_files(known, tuning=run.weight is not None)
        sums["runs"] += files
        if mirrored:
            sums["MLflow"] += files + _MIRRORED + _POINT * _points(known)
        if run.weight is None and study.saves_model(run.method, run.encoder):
            width = known.encoder.hidden + known.task.classes
            outputs = 4 * known.task.rows["train"] * width * sizes.gives_items(run)
            saved.append((known.model_bytes, outputs))
        long = speed.seconds(run) > 60 * study.checkpoints.every_minutes
        in_progress.append(known.model_bytes * (1 + _CHECKPOINT * long))
    if study.keep_models == "none":
        saved = sorted(saved, key=sum)[-2 * at_a_time :]
    sums["models"] = sum(model for model, _ in saved)
    sums["teachers' outputs"] = sum(outputs for _, outputs in saved)
    sums["runs in progress"] = sum(sorted(in_progress)[-at_a_time:])
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return DiskUse(+sums, shutil.disk_usage(there).free, there)


def check_disk(use: DiskUse) -> None:
    """Raise InputError where the disk cannot hold what is about to start."""
    if os.environ.get(UNCHECKED) or use.needed <= use.free:
        return
    largest = max(use.bytes, key=use.bytes.__getitem__)
    raise InputError(
        f"{use.folder}: {in_bytes(use.free)} free, but this study writes up to "
        f"{in_bytes(use.needed)}, most of it {largest}; `make plan` lists all of it. Free some "
        "disk, put results/ on a larger one (it may be a link), run less, keep fewer models "
        f"(keep_models), or start anyway with {UNCHECKED}=1 in the environment"
    )


def in_bytes(count: float) -> str:
    """Such as "1.5 GB"; decimal, as disks are sold."""
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5 or unit == "TB":
            break
    return f"{count:.1f} {unit}" if count < 9.95 else f"{count:,.0f} {unit}"


def _prepared(sizes: Sizes) -> int:
    """Of the rows and tokens that do not exist yet."""
    size = 0.0
    for name in sizes.study.tasks:
        task = sizes.task(name)
        rows = sum(task.rows.values())
        if not (data_path(sizes.folder, name) / TASK).is_file():
            size += rows * (task.length * costs()["bytes_per_token"] + _ROW)
        for encoder in sizes.study.encoders:
            if not (tokens_path(sizes.folder, name, encoder) / TOKENS).is_file():
                size += rows * (task.length * _TOKEN + _TOKENISED_ROW) + _FOLDER
    return round(size)


def _points(run: Configuration) -> int:
    """Points of a run's curves in MLflow: per drawn update, the filled columns of history.csv."""
    gate = run.method.gate.mode
    columns = 5 + run.method.has_auxiliary_loss + 2 * (gate != "off") + (gate == "log_only")
    return columns * drawn(run.updates)


def _run_files(run: Configuration, tuning: bool) -> int:
    """Of a finished run's files but its model. A tuning run is not evaluated on dev."""
    size = _RUN + _STEP * run.updates
    if tuning:
        return size
    task = run.task
    logits = 4 * run.exits * task.classes + 8
    size += task.dev_rows * (logits + _PREDICTION + _LOGIT * task.classes)
    size += task.test_rows * _PREDICTION
    represented = min(_REPRESENTED, task.rows["dev"])
    return size + 4 * represented * run.encoder.hidden * min(run.exits, 2)
