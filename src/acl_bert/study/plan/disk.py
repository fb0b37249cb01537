"""What a study still writes, and whether its disk can hold it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.runs.files import (
    TASK,
    TOKENS,
    data_path,
    drawn,
    tokens_path,
)
from acl_bert.settings.study import Study
from acl_bert.study.plan.sizes import Cell, Sizes
from acl_bert.study.planned import Run

UNCHECKED = "ACL_BERT_DISK_UNCHECKED"
"""Set in the environment, it lets a study start on a disk that seems too small."""

# Bytes, as the demo and the studies in docs/evidence left them.
_STEP = 120  # a row of history.csv
_PREDICTION = 12, 13  # a row of predictions.csv, and each of its logits
_REPRESENTED = 500  # dev rows whose h is kept
_RUN = 28_000  # of a run's other files, whole blocks counted
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
# A checkpoint has the weights, AdamW's two moments and the best epoch's weights; two are kept.
_CHECKPOINTS = 2 * 4


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


def room(study: Study, sizes: Sizes, folder: Path, runs: Iterable[Run], at_a_time: int) -> Room:
    """What `runs` and all before them add to the study's `folder`, `at_a_time` of them at once.

    A run that is there and is repeated takes the place of the one before, and adds nothing.
    """
    lasting: Counter[str] = Counter()
    passing: Counter[str] = Counter()
    until_learned = passing if study.keep_models == "none" else lasting
    for task, size in sizes.tasks.items():
        rows = sum(size.rows.values())
        if not (data_path(folder, task) / TASK).is_file():
            lasting["rows, tokens"] += round(rows * (size.text_bytes + _ROW))
        for encoder in study.encoders:
            if not (tokens_path(folder, task, encoder) / TOKENS).is_file():
                a_token, a_row = _TOKENS
                arrays = round(rows * (size.length * a_token + a_row))
                lasting["rows, tokens"] += arrays + _FOLDER
    mirrored = study.tracking.enabled and not (
        study.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    )
    runs = list(runs)
    teachers = set()
    for run in runs:
        cell, path = sizes.cell(*run.cell), run.path(folder)
        if not path.is_file():
            files = _files(cell, tuning=run.weight is not None)
            lasting["runs"] += files
            lasting["logs, records"] += _JOB
            if mirrored:
                lasting["MLflow"] += files + _MIRRORED + _POINT * _points(cell)
        saves = run.weight is None and study.saves_model(run.method, run.encoder)
        if saves and not path.is_file():
            until_learned["models"] += cell.model_bytes + _TOKENIZER
        if cell.row.needs_teacher_items:
            teachers.add((run.task, run.encoder, str(cell.row.teacher), run.seed))
    for teacher in teachers:
        cell = sizes.cell(*teacher[:3])
        width = cell.encoder.hidden + cell.task.classes
        until_learned["teachers' outputs"] += 4 * cell.task.train * width
    if "MLflow" in lasting:
        lasting["MLflow"] += _STORE
    if runs:
        cells = [sizes.cell(*run.cell) for run in runs]
        lasting["report"] += _PAGES + _SWEEP * sum(cell.exits > 1 for cell in cells)
        largest = max(cell.model_bytes for cell in cells)
        passing["runs in progress"] = largest * _CHECKPOINTS * min(at_a_time, len(runs))
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return Room(lasting, passing, shutil.disk_usage(place).free, place)


def check_room(study: Study, folder: Path, runs: Iterable[Run], at_a_time: int) -> None:
    """Raise InputError where the disk cannot hold what is about to start; see `room`."""
    if os.environ.get(UNCHECKED):
        return
    found = room(study, Sizes(study, folder), folder, runs, at_a_time)
    if found.needed <= found.free:
        return
    parts = {**found.lasting, **found.passing}
    largest = max(parts, key=parts.__getitem__)
    raise InputError(
        f"{found.folder}: {in_bytes(found.free)} free, and what is to run writes up to "
        f"{in_bytes(found.needed)}, most of it {largest}; `make plan` tells the parts. Free some, "
        "put results/ on a larger disk (it may be a link), run less, keep fewer models "
        f"(keep_models), or start all the same with {UNCHECKED}=1 in the environment"
    )


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
    columns = 5 + row.has_term + 2 * (row.gate.mode != "off") + (row.gate.mode == "observe")
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
