"""What a study's tables and figures show: in which order, under which names, with which marks."""

import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from acl_bert.config.study import Study
from acl_bert.errors import InputError
from acl_bert.files import read_json
from acl_bert.runs.files import TASK, data_path

T = TypeVar("T")

# A method's place in tables and figures: `multi_exit`, a classifier on every layer; `student`, one
# classifier, and a teacher; `plain`, one classifier and no teacher. A `variant`, one of them with
# a few keys changed, is shown by the analysis that it runs for, and nowhere else.
Kind = Literal["multi_exit", "student", "plain", "variant"]

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
    """A task's metrics, each with its dev set's suffix, and its dev sets (name → suffix).

    `marks` says what keeps its numbers from being the official ones.
    """

    title: str
    metrics: tuple[str, ...]
    main_metric: str
    dev_sets: Mapping[str, str]
    stand_in: str | None = None
    subset: str | None = None
    own: bool = False
    """Whether the rows are files of the user's, whatever the task is called."""

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for mark in (self.stand_in, self.subset) if mark)

    @property
    def main_metrics(self) -> dict[str, str]:
        """Dev set → its main metric's name."""
        return {name: self.main_metric + suffix for name, suffix in self.dev_sets.items()}

    @property
    def axis(self) -> str:
        """What an axis of its main metric is called."""
        return f"{METRIC_NAMES.get(self.main_metric, self.main_metric)} (%)"

    def panel_title(self, *names: str) -> str:
        """The title of a panel, which carries what is a part of the official rows."""
        subset = textwrap.wrap(self.subset, 40) if self.subset else []
        return "\n".join([" · ".join([self.title, *names]), *subset])


@dataclass(frozen=True)
class Point:
    """A method under a value of λ or τ: `method` is the one whose runs have it."""

    of: str
    combination: str
    key: Literal["lambda", "temperature"]
    value: float
    method: str

    @property
    def default(self) -> bool:
        return self.method == self.of


@dataclass(frozen=True)
class World:
    """One thing that the paper leaves open, decided otherwise.

    `methods` names, for each method that this changes, the one that is it then. `about` are all
    that it would change, were they varied.
    """

    choice: str
    title: str
    default: str
    variant: str
    methods: Mapping[str, str]
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Tasks, encoders (name → hub id or folder) and methods (id → title) in the config's order.

    `cells` are the (task, encoder, method) that the study runs: it need not run them all.
    `multi_exit` are the methods with a classifier on every layer, `teachers` (method → its teacher)
    those that learn from a run of another method. `variants` are methods with a few keys changed:
    `sensitivity` (on the tasks and encoders of `sensitivity_places`) and `audit` say for what.
    `observed` names, for each method of the gradient pilot, the one whose gate records and does
    nothing else: it, or a variant. `unlike` are those that bear the id of a row of methods.yaml and
    are another method. `clusters` are the methods whose representations are compared,
    `ablation` (a full method → the others) those whose differences are.
    """

    study: str
    tasks: Mapping[str, TaskLayout]
    encoders: Mapping[str, str]
    methods: Mapping[str, str]
    seeds: tuple[int, ...]
    cells: frozenset[tuple[str, str, str]]
    multi_exit: frozenset[str]
    teachers: Mapping[str, str]
    variants: frozenset[str] = frozenset()
    sensitivity: tuple[Point, ...] = ()
    sensitivity_places: frozenset[tuple[str, str]] = frozenset()
    audit: tuple[World, ...] = ()
    observed: Mapping[str, str] = field(default_factory=dict)
    clusters: tuple[str, ...] = ()
    unlike: frozenset[str] = frozenset()
    ablation: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def kind(self, method: str) -> Kind:
        if method in self.variants:
            return "variant"
        if method in self.multi_exit:
            return "multi_exit"
        return "student" if method in self.teachers else "plain"

    @property
    def clustered(self) -> tuple[str, ...]:
        """The methods whose representations are compared, in the audit too."""
        return self.and_variants(self.clusters)

    def and_variants(self, methods: Iterable[str]) -> tuple[str, ...]:
        """The methods, and what stands for each of them in the audit."""
        found = dict.fromkeys(methods)
        for world in self.audit:
            found |= {world.methods[name]: None for name in tuple(found) if name in world.methods}
        return tuple(found)

    @property
    def observing(self) -> tuple[str, ...]:
        """The methods whose gate records and does nothing else, those of the audit among them."""
        varied = [
            world.methods[name]
            for world in self.audit
            for name in self.observed
            if name in world.methods
        ]
        return tuple(dict.fromkeys([*self.observed.values(), *varied]))

    def part(self, *kinds: Kind) -> "Layout":
        """The methods of some kinds alone, and what they run on."""
        cells = {cell for cell in self.cells if self.kind(cell[2]) in kinds}
        tasks, encoders, methods = ({cell[place] for cell in cells} for place in range(3))
        return replace(
            self,
            tasks=_among(self.tasks, tasks),
            encoders=_among(self.encoders, encoders),
            methods=_among(self.methods, methods),
            cells=frozenset(cells),
            multi_exit=self.multi_exit & methods,
            teachers=_among(self.teachers, methods),
        )

    def methods_of(self, encoder: str, task: str | None = None) -> dict[str, str]:
        """The methods (id → title) that run with the encoder, on any task or on one."""
        run = {m for t, e, m in self.cells if e == encoder and task in (None, t)}
        return _among(self.methods, run)

    def in_order(self) -> list[tuple[str, str, str]]:
        """`cells`, ordered as the study names their parts."""
        return [
            (task, encoder, method)
            for task in self.tasks
            for encoder in self.encoders
            for method in self.methods_of(encoder, task)
        ]

    def notes(self, *only: str) -> list[str]:
        """A sentence for each mark that a table must carry, of some tasks or of all."""
        tasks = [self.tasks[name] for name in only or self.tasks]
        notes = []
        for stand_in in sorted({task.stand_in for task in tasks if task.stand_in}):
            titles = [task.title for task in tasks if task.stand_in == stand_in]
            notes.append(f"{', '.join(titles)}: {stand_in}.")
        return notes + [f"{task.title}: {task.subset}." for task in tasks if task.subset]

    def headline(self, what: str) -> str:
        """The title of a figure, which carries what is no official data."""
        stand_ins = sorted({task.stand_in for task in self.tasks.values() if task.stand_in})
        return " – ".join([f"{what}, dev: {self.study}", *stand_ins])


def _among(named: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in named.items() if name in names}


def study_layout(study: Study, folder: Path | None = None) -> Layout:
    """The layout of a study whose prepared data lies in `folder`; without one it has no tasks.

    Raises InputError where a task is not prepared yet.
    """
    titles = {name: spec.title for name, spec in study.task_specs.items()}
    rows = study.method_rows
    return Layout(
        study=study.name,
        tasks=read_tasks(folder, titles) if folder else {},
        encoders={name: encoder.path for name, encoder in study.encoders.items()},
        methods={name: row.title for name, row in rows.items()},
        seeds=study.seeds,
        cells=frozenset(cell[:3] for cell in study.cells()),
        multi_exit=frozenset(name for name, row in rows.items() if row.is_multi_exit),
        teachers={name: row.teacher for name, row in rows.items() if row.teacher},
        variants=frozenset(study.variants),
        sensitivity=tuple(Point(**point) for point in study.points),
        sensitivity_places=frozenset(study.sensitivity_places),
        audit=tuple(World(**world) for world in study.worlds),
        observed=study.observed,
        clusters=tuple(name for name in study.analyses.clusters if name in study.methods),
        unlike=study.unlike,
        ablation={
            full: tuple(name for name in others if name in study.methods)
            for full, others in study.analyses.ablation.items()
            if full in study.methods
        },
    )


def read_tasks(study_folder: Path, titles: Mapping[str, str]) -> dict[str, TaskLayout]:
    """The tasks of `titles` (id → title), as `task.json` in the study's folder describes each."""
    return {
        task: _task(data_path(study_folder, task) / TASK, title) for task, title in titles.items()
    }


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
        dev_sets=task["dev_sets"],
        stand_in=task["stand_in"],
        subset=_subset(task) if task["subset"] else None,
        own=task["source"] == "files",
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
