"""What a study still writes, and whether its disk can hold it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.planning.hours import Costs
from acl_bert.planning.sizes import Cell, Sizes
from acl_bert.runs.files import (
    TASK,
    TOKENS,
    data_path,
    drawn,
    tokens_path,
)
from acl_bert.study.planned import Run

UNCHECKED = "ACL_BERT_DISK_UNCHECKED"
"""Set in the environment, it lets a study start on a disk that seems too small."""

# Bytes, as the demo and the studies in docs/evidence left them.
_STEP = 120  # a row of history.csv
_PREDICTION = 12, 13  # a row of predictions.csv, and each of its logits
_REPRESENTED = 500  # dev rows whose h is kept
_RUN = 53_000  # of a run's other files and folders, its name in the study too; whole blocks
_TOKENIZER = 1_000_000  # beside a kept model's weights
_ROW = 45  # of a prepared row, besides its texts
_TOKENS = 3, 24  # of a token (id, segment) and of a row (offset, index, label)
_FOLDER = 100_000  # of the small files that tokens are in
_JOB = 44_000  # log, benchmark, Snakemake's own records of the outputs
_PAGES = 4_500_000  # tables, figures, report
_SWEEP = 40_000  # of a run with several exits in early_exit.csv
_POINT = 270  # of a metric's point in MLflow's SQLite, its indices included
_MIRRORED = 25_000  # of a run in MLflow besides
_STORE = 950_000  # of an empty MLflow store
# A checkpoint has the weights, AdamW's two moments and the best epoch's weights; while it is
# written the one before is there too.
_CHECKPOINT = 4


@dataclass(frozen=True)
class Room:
    """Bytes that a study still writes, by what they are; `passing` ones are removed again."""

    lasting: Mapping[str, int]
    passing: Mapping[str, int]
    free: int
    folder: Path
    """Where there is so much free: the study's, or the nearest above it that there is."""

    @property
    def needed(self) -> int:
        return sum(self.lasting.values()) + sum(self.passing.values())


def room(sizes: Sizes, runs: Iterable[Run], costs: Costs, at_a_time: int) -> Room:
    """What `runs`, which are to come, and all before them add, `at_a_time` of them at once.

    Where the study keeps no models, those of at most twice as many teachers are there at a time:
    students come before the next teacher.
    """
    study, folder, runs = sizes.study, sizes.folder, list(runs)
    lasting, passing = _inputs(sizes), Counter[str]()
    mirrored = study.tracking.enabled and not (
        study.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    )
    taught: list[tuple[int, int]] = []  # of each model that is saved, its bytes and its outputs'
    progressing = []
    for run in runs:
        cell = sizes.cell(run)
        files = _files(cell, tuning=run.weight is not None)
        lasting["runs"] += files
        lasting["logs, records"] += _JOB
        if mirrored:
            lasting["MLflow"] += files + _MIRRORED + _POINT * _points(cell)
        lasting["report"] += _SWEEP * (cell.exits > 1)
        if run.weight is None and study.saves_model(run.method, run.encoder):
            width = cell.encoder.hidden + cell.task.classes
            outputs = 4 * cell.task.train * width * sizes.gives_items(run)
            taught.append((cell.model_bytes + _TOKENIZER, outputs))
        long = costs.seconds(run) > 60 * study.checkpoints.every_minutes
        progressing.append(cell.model_bytes * (1 + 2 * _CHECKPOINT * long))
    if mirrored and runs:
        lasting["MLflow"] += _STORE
    if runs:
        lasting["report"] += _PAGES
    kept = passing if study.keep_models == "none" else lasting
    if study.keep_models == "none":
        taught = sorted(taught, key=sum)[-2 * at_a_time :]
    kept["models"] += sum(model for model, _ in taught)
    kept["teachers' outputs"] += sum(outputs for _, outputs in taught)
    passing["runs in progress"] += sum(sorted(progressing)[-at_a_time:])
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return Room(+lasting, +passing, shutil.disk_usage(place).free, place)


def check_room(found: Room) -> None:
    """Raise InputError where the disk cannot hold what is about to start."""
    if os.environ.get(UNCHECKED) or found.needed <= found.free:
        return
    parts = {**found.lasting, **found.passing}
    largest = max(parts, key=parts.__getitem__)
    raise InputError(
        f"{found.folder}: {in_bytes(found.free)} free, and what is to run writes up to "
        f"{in_bytes(found.needed)}, most of it {largest}; `make plan` tells the parts. Free some, "
        "put results/ on a larger disk (it may be a link), run less, keep fewer models "
        f"(keep_models), or start all the same with {UNCHECKED}=1 in the environment"
    )


def _inputs(sizes: Sizes) -> Counter[str]:
    """Rows and tokens that are still to be made."""
    made: Counter[str] = Counter()
    a_token, a_row = _TOKENS
    for task in sizes.study.tasks:
        size = sizes.task(task)
        rows = sum(size.rows.values())
        if not (data_path(sizes.folder, task) / TASK).is_file():
            made["rows, tokens"] += round(rows * (size.text_bytes + _ROW))
        for encoder in sizes.study.encoders:
            if not (tokens_path(sizes.folder, task, encoder) / TOKENS).is_file():
                made["rows, tokens"] += round(rows * (size.length * a_token + a_row)) + _FOLDER
    return made


def in_bytes(count: float) -> str:
    """Such as "1.5 GB", decimal as disks are sold."""
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5 or unit == "TB":
            break
    return f"{count:.1f} {unit}" if count < 9.95 else f"{count:,.0f} {unit}"


def _points(cell: Cell) -> int:
    """Of a run's curves in MLflow: one an update and column of history.csv that has a value."""
    row = cell.row
    columns = 5 + row.has_auxiliary_loss
    columns += 2 * (row.gate.mode != "off") + (row.gate.mode == "log_only")
    return columns * drawn(cell.updates)


def _files(cell: Cell, tuning: bool) -> int:
    """Of a run's published files, the model left out. One that tries a λ never sees dev."""
    size = _RUN + _STEP * cell.updates
    if tuning:
        return size
    task, (a_row, a_logit) = cell.task, _PREDICTION
    size += task.dev * (4 * cell.exits * task.classes + 8 + a_row + a_logit * task.classes)
    size += task.others * a_row
    shown = min(_REPRESENTED, task.rows["dev"])
    return size + 4 * shown * cell.encoder.hidden * min(cell.exits, 2)
