"""What a study's tables and figures show: in which order, under which names, with which marks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError
from acl_bert.files import read_json
from acl_bert.run_files import TASK, data_path

METRIC_NAMES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "accuracy_f1": "mean of accuracy and F1",
    "matthews": "Matthews",
    "accuracy_mm": "accuracy (mm)",
}
SHORT_METRIC_NAMES = {
    "accuracy": "acc",
    "f1": "F1",
    "accuracy_f1": "acc/F1",
    "matthews": "Matthews",
    "accuracy_mm": "acc (mm)",
}


@dataclass(frozen=True)
class TaskLayout:
    """A task's columns. `marks` says what keeps its numbers from being the official ones."""

    title: str
    metrics: tuple[str, ...]
    main_metric: str
    stand_in: str | None = None
    subset: str | None = None

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for mark in (self.stand_in, self.subset) if mark)


@dataclass(frozen=True)
class Layout:
    """Tasks, encoders (name → hub id or folder) and methods (id → title) in the config's order."""

    study: str
    tasks: Mapping[str, TaskLayout]
    encoders: Mapping[str, str]
    methods: Mapping[str, str]
    seeds: tuple[int, ...]

    def notes(self) -> list[str]:
        """A sentence for each mark that a table of this study must carry."""
        notes = []
        for stand_in in sorted({task.stand_in for task in self.tasks.values() if task.stand_in}):
            titles = [task.title for task in self.tasks.values() if task.stand_in == stand_in]
            notes.append(f"{', '.join(titles)}: {stand_in}.")
        notes += [f"{task.title}: {task.subset}." for task in self.tasks.values() if task.subset]
        return notes


def read_layout(
    study_folder: Path,
    tasks: Mapping[str, str],
    encoders: Mapping[str, str],
    methods: Mapping[str, str],
    seeds: Iterable[int],
) -> Layout:
    """The layout of a study whose data is prepared: each task's `task.json` names its metrics.

    Raises InputError where a task was not prepared yet.
    """
    return Layout(
        study=study_folder.name,
        tasks={
            task: _task(data_path(study_folder, task) / TASK, title)
            for task, title in tasks.items()
        },
        encoders=dict(encoders),
        methods=dict(methods),
        seeds=tuple(seeds),
    )


def _task(path: Path, title: str) -> TaskLayout:
    try:
        task = read_json(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; prepare the task's data first") from error
    return TaskLayout(
        title=title,
        metrics=tuple(
            name + suffix for suffix in task["dev_sets"].values() for name in task["metrics"]
        ),
        main_metric=task["selection_metric"],
        stand_in=task["stand_in"],
        subset=_subset(task) if task["subset"] else None,
    )


def _subset(task: dict[str, Any]) -> str:
    """Such as "subset, 1,024 of 2,490 training rows, 100 of 277 dev rows"."""
    splits = task["splits"]
    parts = []
    for name, shown in (("train", "training"), *((dev, dev) for dev in task["dev_sets"])):
        rows = splits[name]["rows"]
        if name == "train" and _held_out(splits):
            # The held-out rows are the user's training rows too.
            rows += splits["selection"]["rows"]
        whole = splits[name]["official_rows"] or splits[name]["source_rows"]
        if rows != whole:
            parts.append(f"{rows:,} of {whole:,} {shown} rows")
    return ", ".join(("subset", *parts))


def _held_out(splits: Mapping[str, Any]) -> bool:
    """Whether the selection split was cut from train, as against being dev."""
    selection, train = splits.get("selection"), splits["train"]
    return (
        selection is not None
        and selection["source_rows"] == train["source_rows"]
        and selection["rows"] + train["rows"] <= train["source_rows"]
    )
