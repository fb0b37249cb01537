"""What a study does otherwise than the paper is known to, or than this project's defaults."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from acl_bert.settings.study import Study
from acl_bert.settings.training import Training
from acl_bert.tasks.spec import Selection

SEEDS = 5
# The tasks that are trained for longer (paper.md, [?] table, row "training").
EPOCHS = {"cola": 10, "mrpc": 10, "rte": 10}
# On what a run is computed does not belong to the method.
HARDWARE = {"precision", "device", "threads"}


def deviations(study: Study) -> list[str]:
    """A sentence each, naming the key; none for a study such as config/paper.yaml."""
    return list(_deviations(study))


def _deviations(study: Study) -> Iterator[str]:
    if len(study.seeds) != SEEDS:
        yield f"seeds: {len(study.seeds)}, not {SEEDS}."
    if not study.tuning.enabled:
        yield "tuning.enabled: λ is not tuned; each method has that of its row."
    yield from (f"selection.{change}" for change in _changes(study.selection, Selection()))
    tasks: dict[str, list[str]] = {}
    for task in study.tasks:
        usual = Training(epochs=EPOCHS.get(task, 3))
        for change in _changes(study.training_of(task), usual):
            tasks.setdefault(change, []).append(task)
    for change, some in tasks.items():
        where = "" if len(some) == len(study.tasks) else f" ({', '.join(some)})"
        yield f"training.{change[:-1]}{where}."
    for name, written in study.changed_rows().items():
        yield f"methods.{name}: {', '.join(written)}."


def _changes(given: BaseModel, usual: BaseModel) -> Iterator[str]:
    before: dict[str, Any] = usual.model_dump(exclude=HARDWARE)
    for key, value in given.model_dump(exclude=HARDWARE).items():
        if value != before[key]:
            yield f"{key}: {value}, not {before[key]}."
