"""What a study does otherwise than the paper is known to, or than this project's defaults."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from acl_bert.config.method import known_methods
from acl_bert.config.study import Study, Tuning
from acl_bert.config.training import Training
from acl_bert.data.spec import Selection

SEEDS = 5
TASKS = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte")
# The pinned ones (docs/paper.md §5).
ENCODERS = {
    "google-bert/bert-base-uncased",
    "FacebookAI/roberta-base",
    "distilbert/distilbert-base-uncased",
    "distilbert/distilroberta-base",
    "huawei-noah/TinyBERT_General_6L_768D",
}
# The tasks that are trained for longer (docs/paper.md §2.8, row "optimisation").
EPOCHS = {"cola": 10, "mrpc": 10, "rte": 10}
# On what a run is computed does not belong to the method.
HARDWARE = {"precision", "device", "threads"}


def deviations(study: Study) -> list[str]:
    """A sentence each, naming the key; none for a study such as config/paper.yaml."""
    return list(_deviations(study))


def _deviations(study: Study) -> Iterator[str]:
    if len(study.seeds) != SEEDS:
        yield f"seeds: {len(study.seeds)}, not {SEEDS}."
    if study.tuning.enabled:
        usual = Tuning(enabled=True, **study.tuning.model_dump(include={"max_rows", "lambda_of"}))
        yield from (f"tuning.{change}" for change in _changes(study.tuning, usual))
        yield from _untuned(study)
    else:
        yield "tuning.enabled: λ is not tuned; each method has that of its row."
    if missing := [task for task in TASKS if task not in study.tasks]:
        yield f"tasks: no {', '.join(missing)}."
    for task, spec in study.task_specs.items():
        if limit := spec.limit.model_dump(exclude_none=True):
            rows = ", ".join(f"{count:,} {split}" for split, count in limit.items())
            yield f"tasks.{task}.limit: {rows} rows."
    yield from (f"selection.{change}" for change in _changes(study.selection, Selection()))
    tasks: dict[str, list[str]] = {}
    for task in study.tasks:
        training = Training(epochs=EPOCHS.get(task, 3))
        for change in _changes(study.training_of(task), training):
            tasks.setdefault(change, []).append(task)
    for change, some in tasks.items():
        where = "" if len(some) == len(study.tasks) else f" ({', '.join(some)})"
        yield f"training.{change[:-1]}{where}."
    for name, written in study.changed_rows().items():
        yield f"methods.{name}: {', '.join(written)}."
    if own := [name for name in study.methods if name not in known_methods()]:
        yield f"methods: {', '.join(own)}, of the study's own."
    for name, encoder in study.encoders.items():
        if encoder.path not in ENCODERS:
            yield f"encoders.{name}: {encoder.path}."


def _untuned(study: Study) -> Iterator[str]:
    """What λ is not tuned for itself, or not on all rows."""
    tuning, rows = study.tuning, study.method_rows
    if pairs := [f"{taker} of {giver}" for taker, giver in tuning.lambda_of.items()]:
        yield f"tuning.lambda_of: some methods take the λ of another: {', '.join(pairs)}."
    weighted = {n: row for n, row in rows.items() if row.has_auxiliary_loss and row.ce_weight > 0}
    weights = {n: row.weight for n, row in weighted.items()}
    if fixed := [f"{n} {weights[n]:g}" for n in study.methods if n in weights.keys() - study.tuned]:
        yield f"tuning: λ of some methods is not tuned: {', '.join(fixed)}."
    sizes = {name: (spec.rows or {}).get("train", 0) for name, spec in study.task_specs.items()}
    if sampled := [name for name, size in sizes.items() if size > tuning.max_rows]:
        yield (
            f"tuning.max_rows: on {', '.join(sampled)} λ is tuned on a stratified sample of "
            f"{tuning.max_rows:,} train rows."
        )


def _changes(given: BaseModel, usual: BaseModel) -> Iterator[str]:
    before: dict[str, Any] = usual.model_dump(exclude=HARDWARE)
    for key, value in given.model_dump(exclude=HARDWARE).items():
        if value != before[key]:
            yield f"{key}: {value}, not {before[key]}."
