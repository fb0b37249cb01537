"""A study: one config file, everything that is run and how."""

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    Field,
    NonNegativeFloat,
    StringConstraints,
    ValidationError,
    model_validator,
)

from acl_bert.config.analyses import Analyses, Places
from acl_bert.config.base import Section, Seed, merge, patch_of
from acl_bert.config.explain import explain, nearest, unknown
from acl_bert.config.method import Method, method_rows
from acl_bert.config.training import Training, TrainingPatch
from acl_bert.config.variants import (
    Variants,
    audit_worlds,
    differences,
    observed_methods,
    sensitivity_points,
)
from acl_bert.config.yaml_file import read_yaml
from acl_bert.data.spec import Selection, Source, TaskSpec, resolve
from acl_bert.errors import InputError
from acl_bert.files import write_text

# Names become folders and wildcards of paths.
FolderName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
]

T = TypeVar("T")

MethodIds = Annotated[tuple[str, ...], Field(min_length=1)]

MethodPatch = patch_of(
    Method, like=(str, Field("", description="the row to start from, where not that of its own id"))
)
TaskPatch = patch_of(
    TaskSpec,
    without=("id",),
    training=(TrainingPatch, Field(TrainingPatch(), description="keys that differ for the task")),
    methods=(MethodIds | None, Field(None, description="the methods that run on it; all if empty")),
)


class Encoder(Section):
    path: str = Field(
        description="a hub id, a local folder in transformers' layout, or package:NAME for a "
        "Python package that carries such a folder"
    )
    revision: str | None = Field(None, description="the hub's commit; none for a local folder")
    methods: MethodIds | None = Field(
        None, description="the methods that run with it; all if empty"
    )


class Tuning(Section):
    """λ chosen per task, encoder and method on the selection split (docs/paper.md §2.8)."""

    enabled: bool = Field(False, description="false: each method has the λ of its row")
    lambdas: tuple[NonNegativeFloat, ...] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), min_length=1, description="the grid"
    )
    seeds: tuple[Seed, ...] = Field(
        (101, 102), min_length=1, description="of the tuning runs, none of the study's own"
    )
    max_rows: int = Field(
        20_000, ge=1, description="train rows of a tuning run; a stratified sample of longer tasks"
    )
    lambda_of: dict[str, str] = Field(
        {}, description="method: the tuned method whose λ it takes, and is not tuned itself"
    )


class Tracking(Section):
    enabled: bool = Field(True, description="mirror every run into MLflow")
    uri: str | None = Field(
        None, description="an MLflow store or server; SQLite in the study's folder where empty"
    )


class Checkpoints(Section):
    every_minutes: float = Field(
        10.0, gt=0, description="what a killed run loses at most; told to stop, it loses nothing"
    )


class RunSettings(Section):
    """All that determines a run, but for the data and the encoder's weights themselves.

    `device` and `precision` may still be auto; training settles them first.
    """

    task: str
    encoder: str
    method_id: str
    seed: Seed
    selection_metric: str
    method: Method
    training: Training
    train_rows: int | None = None
    """Trained on a stratified sample of so many train rows, where there are more."""

    def rows_of(self, train: int) -> int:
        """How many of so many train rows are trained on."""
        return train if self.train_rows is None else min(train, self.train_rows)

    def determinants(self) -> dict[str, Any]:
        """What changes the run's numbers, but for the rows, the encoder and the teacher.

        Not what a study calls anything, nor the keys of its method that `training` has already.
        """
        found = self.model_dump(by_alias=True, exclude={"task", "encoder", "method_id"})
        for key in ("title", "training", "epochs_factor"):
            del found["method"][key]
        found["method"]["teacher"] = self.method.teacher is not None
        return found


class Study(Section):
    """A whole study. `config/README.md` explains every key."""

    name: FolderName = Field(description="names the folder results/<name>")
    source: Source = Field(description="where the tasks' rows come from")
    tasks: dict[FolderName, TaskPatch] = Field(  # type: ignore[valid-type]
        min_length=1, description="task id: keys that differ from the registry's row"
    )
    encoders: dict[FolderName, Encoder] = Field(
        min_length=1, description="encoder's name in paths and tables: where it comes from"
    )
    methods: dict[FolderName, MethodPatch] = Field(  # type: ignore[valid-type]
        min_length=1, description="method id: keys that differ from the row of methods.yaml"
    )
    seeds: tuple[Seed, ...] = Field(
        min_length=1, description="one run for each, with every task, encoder and method"
    )
    selection: Selection = Field(Selection(), description="rows that choose the epoch and λ")
    training: Training = Field(Training(), description="how every run is trained")
    tuning: Tuning = Field(Tuning(), description="whether and how λ is tuned")
    analyses: Analyses = Field(Analyses(), description="the paper's analyses")
    tracking: Tracking = Field(Tracking(), description="the MLflow mirror")
    checkpoints: Checkpoints = Field(Checkpoints(), description="of runs in progress")
    keep_models: Literal["all", "teachers", "none"] = Field(
        "teachers", description="which runs keep their weights, as safetensors"
    )
    code: Literal["any", "same"] = Field(
        "any",
        description="which finished runs count: those trained by any state of the code, or by the "
        "present one alone",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for place, given in (
            ("seeds", self.seeds),
            ("tuning.seeds", self.tuning.seeds),
            ("tuning.lambdas", self.tuning.lambdas),
        ):
            if len(set(given)) != len(given):
                raise ValueError(f"{place}: {list(given)} names one of them twice")
        if self.tuning.enabled and (shared := set(self.tuning.seeds) & set(self.seeds)):
            raise ValueError(f"tuning.seeds: {sorted(shared)} are seeds of the study too")
        if self.name == "store":
            raise ValueError("name: store is the folder of all studies' runs; take another")
        return self

    @cached_property
    def task_specs(self) -> dict[str, TaskSpec]:
        return {
            name: resolve(name, _written(patch, without=("training", "methods")))
            for name, patch in self.tasks.items()
        }

    @cached_property
    def method_rows(self) -> dict[str, Method]:
        """The study's own methods, then the variants that its analyses need."""
        variants = {name: variant.row for name, variant in self._variants.items()}
        return self._own_rows | variants

    @cached_property
    def _own_rows(self) -> dict[str, Method]:
        known = method_rows()
        rows: dict[str, Method] = {}
        for name, patch in self.methods.items():
            like = _written(patch).get("like", name)
            if like not in known and "like" in _written(patch):
                raise InputError(f"methods.{name}.like: {unknown(like, known)}")
            base = known[like].model_dump(by_alias=True) if like in known else {}
            if like != name and base:
                base["title"] = name
            try:
                rows[name] = Method.model_validate(merge(base, _written(patch, without=("like",))))
            except ValidationError as error:
                if name in known or "title" in _written(patch) or "like" in _written(patch):
                    raise explain(error, Method, "methods", name) from None
                raise InputError(
                    f"methods.{name}: a row of your own needs a title, or `like: <known method>`; "
                    f"{nearest(name, known)}"
                ) from None
        titles = [row.title for row in rows.values()]
        if twice := sorted({title for title in titles if titles.count(title) > 1}):
            raise InputError(f"methods: {twice} is the title of two; give each its own")
        return rows

    def changed_rows(self) -> dict[str, list[str]]:
        """By method, the keys that the study changes in a row of methods.yaml, with their values.

        A key of a row's `like` is none: that is a method of the study's own.
        """
        known = method_rows()
        changed = {}
        for name, row in self._own_rows.items():
            if name not in known or "like" in _written(self.methods[name]):
                continue
            before, after = known[name].model_dump(by_alias=True), row.model_dump(by_alias=True)
            keys = [f"{key} {value}" for key, value in differences(before, after) if key != "title"]
            if keys:
                changed[name] = keys
        return changed

    @cached_property
    def _points(self) -> tuple[list[dict[str, Any]], Variants]:
        settings = self.analyses.sensitivity
        if settings is None:
            return [], {}
        return sensitivity_points(settings, self._own_rows, self.tuned)

    @cached_property
    def _observed(self) -> tuple[dict[str, str], Variants]:
        settings = self.analyses.gradients
        asked, variants = (
            ({}, {}) if settings is None else observed_methods(settings, self._own_rows)
        )
        rows = self._own_rows.items()
        return {name: name for name, row in rows if row.gate.mode == "log_only"} | asked, variants

    @cached_property
    def _worlds(self) -> tuple[list[dict[str, Any]], Variants]:
        settings = self.analyses.audit
        return (
            ([], {})
            if settings is None
            else audit_worlds(
                settings, self._own_rows, self.tuned, self._observed[0], self.training.model_dump()
            )
        )

    @cached_property
    def _variants(self) -> Variants:
        return self._observed[1] | self._points[1] | self._worlds[1]

    @cached_property
    def _places(self) -> dict[str, set[tuple[str, str]]]:
        """Task and encoder of each variant's runs: where its analyses are, and its method is."""
        places: dict[str, set[tuple[str, str]]] = {}
        for settings, (_, variants) in (
            (self.analyses.gradients, self._observed),
            (self.analyses.sensitivity, self._points),
            (self.analyses.audit, self._worlds),
        ):
            for name, variant in variants.items():
                assert settings is not None
                places.setdefault(name, set()).update(
                    place
                    for place in self._places_of(settings)
                    if variant.method in self._own_methods(*place)
                )
        return places

    def _places_of(self, settings: Places | None) -> list[tuple[str, str]]:
        """Task and encoder where an analysis is made; none without it."""
        if settings is None:
            return []
        return list(
            itertools.product(settings.tasks or self.tasks, settings.encoders or self.encoders)
        )

    @cached_property
    def tuned(self) -> frozenset[str]:
        """The methods whose λ is chosen."""
        takers = self.tuning.lambda_of
        return frozenset(name for name in self.methods if self.is_tuned(takers.get(name, name)))

    def task_spec(self, name: str) -> TaskSpec:
        return self._named("tasks", self.task_specs, name)

    def encoder(self, name: str) -> Encoder:
        return self._named("encoders", self.encoders, name)

    def _named(self, kind: str, known: Mapping[str, T], name: str) -> T:
        if name not in known:
            raise InputError(f"study {self.name}, {kind}: {unknown(name, known)}")
        return known[name]

    def method_row(self, name: str, weight: float | None = None) -> Method:
        """The method's row, under another λ where one is given. InputError if unknown."""
        row = self._named("methods", self.method_rows, name)
        if weight is None:
            return row
        try:
            return Method.model_validate(row.model_dump(by_alias=True) | {"lambda": weight})
        except ValidationError as error:
            raise explain(error, Method, "methods", name) from None

    def methods_of(self, task: str, encoder: str) -> list[str]:
        """The methods that run on a task with an encoder, in the study's order; variants last."""
        variants = [name for name, places in self._places.items() if (task, encoder) in places]
        return self._own_methods(task, encoder) + variants

    def _own_methods(self, task: str, encoder: str) -> list[str]:
        kept = (self.tasks[task].methods, self.encoders[encoder].methods)  # type: ignore[attr-defined]
        return [name for name in self.methods if all(not some or name in some for some in kept)]

    def is_teacher(self, method: str, encoder: str) -> bool:
        """Whether another method starts or learns from this one's runs with the encoder.

        Not by task: the workflow's wildcards tell methods and encoders apart.
        """
        return (method, encoder) in self._teachers

    @cached_property
    def observing(self) -> set[str]:
        """The methods whose gate records and does nothing else."""
        return {name for name, row in self.method_rows.items() if row.gate.mode == "log_only"}

    @cached_property
    def compared(self) -> set[str]:
        """The methods whose representations are compared, in the audit too."""
        stand_ins = {
            world["methods"][name]
            for world in self._worlds[0]
            for name in self.analyses.clusters
            if name in world["methods"]
        }
        return {*self.analyses.clusters} | stand_ins

    @cached_property
    def _teachers(self) -> set[tuple[str, str]]:
        rows = self.method_rows
        return {
            (teacher, encoder)
            for task, encoder in itertools.product(self.tasks, self.encoders)
            for student in self.methods_of(task, encoder)
            if (teacher := rows[student].teacher)
        }

    def saves_model(self, method: str, encoder: str) -> bool:
        """Whether a run leaves its weights: a teacher does, until its students have learned."""
        return self.keep_models == "all" or self.is_teacher(method, encoder)

    def keeps_model(self, method: str, encoder: str) -> bool:
        """Whether a finished run without its weights is not enough."""
        return self.keep_models != "none" and self.saves_model(method, encoder)

    def has_run(self, task: str, encoder: str, method: str, seed: int) -> bool:
        """Whether a run is one of the study's own, or teaches one that tries a λ."""
        return (task, encoder, method, seed) in self._runs

    @cached_property
    def _runs(self) -> frozenset[tuple[str, str, str, int]]:
        return frozenset((*self.cells(), *self.teachers_of_tuning()))

    def _check_methods(self) -> None:
        """Raises InputError for a method that is named and not there, or that lacks its teacher."""
        for kind, sections in (("tasks", self.tasks), ("encoders", self.encoders)):
            for name, section in sections.items():
                for method in section.methods or ():
                    if method not in self.methods:
                        raise InputError(f"{kind}.{name}.methods: {unknown(method, self.methods)}")
        for task, encoder in itertools.product(self.tasks, self.encoders):
            methods = self.methods_of(task, encoder)
            for method in methods:
                if (teacher := self.method_rows[method].teacher) in (None, *methods):
                    continue
                raise InputError(
                    f"methods.{method}.teacher: {teacher} is not among the methods that run on "
                    f"{task} with {encoder}; add it there"
                )
        somewhere = {cell[2] for cell in self.cells()}
        if idle := [method for method in self.methods if method not in somewhere]:
            raise InputError(
                f"methods.{idle[0]}: runs on no task with any encoder; name it in their `methods`, "
                "or leave it out"
            )
        for method, row in self.method_rows.items():
            if row.teacher in self.method_rows:
                self._check_teacher(method, row, self.method_rows[row.teacher])

    def _check_circles(self) -> None:
        """Raises InputError where methods teach each other. Variants follow their teachers."""
        rows = self._own_rows
        for method, row in rows.items():
            above, seen = row.teacher, {method}
            while above in rows:
                if above in seen:
                    raise InputError(
                        f"methods.{method}.teacher: {row.teacher} is taught by {method} in turn; "
                        "break the circle"
                    )
                seen.add(above)
                above = rows[above].teacher

    def _check_analyses(self) -> None:
        """Raises InputError for a name in `analyses` that is none."""
        for key in ("gradients", "sensitivity", "audit"):
            self._check_places(f"analyses.{key}", getattr(self.analyses, key))
        known = {**self._own_rows, **method_rows()}
        compared = {"clusters": self.analyses.clusters} | {
            f"ablation.{full}": (full, *others) for full, others in self.analyses.ablation.items()
        }
        for key, names in compared.items():
            for name in names:
                if name not in known:
                    raise InputError(f"analyses.{key}: {unknown(name, known)}")

    def _check_tuning(self) -> None:
        """Raises InputError where a λ would be chosen by the dev set, or taken from nowhere."""
        for taker, giver in self.tuning.lambda_of.items():
            place = f"tuning.lambda_of.{taker}"
            for name in (taker, giver):
                if name not in self.methods:
                    raise InputError(f"{place}: {unknown(name, self.methods)}")
            if not self._own_rows[taker].has_term or "lambda" in _written(self.methods[taker]):
                raise InputError(f"{place}: {taker} has no λ that could be chosen; leave it out")
            if self.tuning.enabled and not self.is_tuned(giver):
                raise InputError(f"{place}: {giver} is not tuned; name one that is")
            for place_of_runs in itertools.product(self.tasks, self.encoders):
                methods = self._own_methods(*place_of_runs)
                if taker in methods and giver not in methods:
                    raise InputError(
                        f"{place}: {giver} does not run on {' with '.join(place_of_runs)}, where "
                        f"{taker} does; add it there"
                    )
        for method, task in itertools.product(self.tuned, self.tasks):
            if self.training_of(task, method).selection_split == "dev":
                raise InputError(
                    f"training.selection_split: dev, but λ of {method} is tuned on held-out rows; "
                    "leave tuning out, or choose on the selection split"
                )

    def _check_places(self, place: str, settings: Places | None) -> None:
        for kind, known in (("tasks", self.tasks), ("encoders", self.encoders)):
            for name in getattr(settings, kind, None) or ():
                if name not in known:
                    raise InputError(f"{place}.{kind}: {unknown(name, known)}")

    def _check_teacher(self, method: str, row: Method, teacher: Method) -> None:
        place = f"methods.{method}.teacher: {row.teacher}"
        if row.representation != teacher.representation:
            raise InputError(
                f"{place} has the representation {teacher.representation}, {method} "
                f"{row.representation}; give both the same"
            )
        if row.cosine_temperature != teacher.cosine_temperature:
            raise InputError(
                f"{place} has the classifier {teacher.classifier}, {method} {row.classifier}, or "
                "another τ in it; give both the same"
            )
        if row.has_term and not row.is_multi_exit and row.layers == teacher.layers:
            raise InputError(
                f"{place} is as deep as {method}, whose one exit would learn nothing from it; give "
                f"{method} `layers`, or a regime with more exits"
            )
        if teacher.layers is not None and (row.layers is None or row.layers > teacher.layers):
            raise InputError(
                f"{place} has {teacher.layers} layers, and {method} more; set its `layers`"
            )

    def training_of(self, task: str, method: str | None = None) -> Training:
        """The study's training keys under those of the task, and these under a method's."""
        patch = self._named("tasks", self.tasks, task).training  # type: ignore[attr-defined]
        keys = merge(self.training.model_dump(), patch)
        return Training.model_validate(
            keys if method is None else merge(keys, self.method_row(method).training)
        )

    def is_tuned(self, method: str) -> bool:
        """Whether λ is chosen on the selection split.

        A λ written in the study stays as it is, that of another method is taken from there, and one
        without CE beside its term is no weight.
        """
        return (
            self.tuning.enabled
            and method in self.methods
            and method not in self.tuning.lambda_of
            and self._own_rows[method].has_term
            and self._own_rows[method].ce_weight > 0
            and "lambda" not in _written(self.methods[method])
        )

    def lambda_of(self, method: str) -> str | None:
        """The method whose tuning gives this one's λ; None where its own row does.

        A variant that is not about λ has the λ of its method.
        """
        if method in self._variants:
            variant = self._variants[method]
            return self.lambda_of(variant.method) if "lambda" not in variant.patch else None
        giver = self.tuning.lambda_of.get(method, method)
        return giver if self.is_tuned(giver) else None

    def cells(self) -> Iterator[tuple[str, str, str, int]]:
        """Task, encoder, method and seed of every run."""
        for task, encoder in itertools.product(self.tasks, self.encoders):
            for method, seed in itertools.product(self.methods_of(task, encoder), self.seeds):
                yield task, encoder, method, seed

    def tuning_cells(self) -> Iterator[tuple[str, str, str, float, int]]:
        """Task, encoder, method, λ and seed of every run that tries a λ."""
        for task, encoder in itertools.product(self.tasks, self.encoders):
            tuned = filter(self.is_tuned, self.methods_of(task, encoder))
            grid = itertools.product(tuned, self.tuning.lambdas, self.tuning.seeds)
            for method, weight, seed in grid:
                yield task, encoder, method, weight, seed

    def is_tuning_seed(self, seed: int) -> bool:
        """Whether runs with this seed are there to choose a λ, and no more."""
        return self.tuning.enabled and seed in self.tuning.seeds

    def teachers_of_tuning(self) -> list[tuple[str, str, str, int]]:
        """Task, encoder, method and seed of the runs that tuning runs learn from."""
        found = {
            (task, encoder, teacher, seed): None
            for task, encoder, method, _, seed in self.tuning_cells()
            if (teacher := self.method_row(method).teacher)
        }
        return list(found)

    def shown(self) -> dict[str, Any]:
        """What tables and figures depend on besides the runs: rows, names, order."""
        return {
            "tasks": {name: spec.title for name, spec in self.task_specs.items()},
            "encoders": {name: encoder.path for name, encoder in self.encoders.items()},
            "methods": {name: row.title for name, row in self.method_rows.items()},
            "multi_exit": [name for name, row in self.method_rows.items() if row.is_multi_exit],
            "teachers": {
                name: row.teacher for name, row in self.method_rows.items() if row.teacher
            },
            "cells": list(dict.fromkeys(cell[:3] for cell in self.cells())),
            "seeds": self.seeds,
            "variants": list(self._variants),
            "sensitivity": self._points[0],
            "sensitivity_places": self._places_of(self.analyses.sensitivity),
            "audit": self._worlds[0],
            "observed": self._observed[0],
            "clusters": [name for name in self.analyses.clusters if name in self._own_rows],
            "unlike": [name for name, row in self._own_rows.items() if self._is_unlike(name, row)],
            "ablation": {
                full: [name for name in others if name in self._own_rows]
                for full, others in self.analyses.ablation.items()
                if full in self._own_rows
            },
        }

    def _is_unlike(self, name: str, row: Method) -> bool:
        """Whether a method is called as one of the project's and is another kind of method."""
        if name not in method_rows():
            return False
        kinds = [
            (r.regime, r.contrastive, r.distillation, r.teacher, r.start, r.layers, r.acts)
            for r in (row, method_rows()[name])
        ]
        return kinds[0] != kinds[1]

    def run_settings(
        self, task: str, encoder: str, method: str, seed: int, weight: float | None = None
    ) -> RunSettings:
        """What one run is made of; `weight` replaces the method's λ (a tuned or tuning run's)."""
        _ = self.task_spec(task), self.encoder(encoder), self.method_row(method)
        if method not in self.methods_of(task, encoder):
            raise InputError(
                f"study {self.name}: {method} does not run on {task} with {encoder}; see the "
                "`methods` of that task and encoder"
            )
        row, training = self.method_row(method, weight), self.training_of(task, method)
        epochs = row.epochs_factor * training.epochs
        try:
            return RunSettings(
                task=task,
                encoder=encoder,
                method_id=method,
                seed=seed,
                selection_metric=self.task_spec(task).selection_metric,
                method=row,
                training=training.model_copy(update={"epochs": epochs}),
                train_rows=self.tuning.max_rows if self.is_tuning_seed(seed) else None,
            )
        except ValidationError as error:
            raise explain(error, RunSettings) from None


def _written(patch: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    written = patch.model_dump(exclude_unset=True, by_alias=True)
    return {key: value for key, value in written.items() if key not in without}


def load_study(
    config: Path | Mapping[str, Any],
    origin: str = "config",
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """The study in a YAML file, or in a mapping already read from `origin`; every fault at once.

    `changes` take the place of its keys, as those of Snakemake's --config do. Raises InputError
    naming file, key, fault and the nearest valid key.
    """
    if isinstance(config, Path):
        origin = str(config)
        config = read_yaml(config)
    if not isinstance(config, Mapping):
        raise InputError(f"{origin}: a study is a mapping of keys; see config/README.md")
    try:
        study = Study.model_validate({**config, **(changes or {})})
        _ = study.task_specs  # rows are checked here, not at first use
        study._check_circles()
        study._check_analyses()
        study._check_methods()
        study._check_tuning()
        for task in study.tasks:
            study.training_of(task)
        for method in filter(study.is_tuned, study.methods):
            for weight in study.tuning.lambdas:
                study.method_row(method, weight)
    except (ValidationError, InputError) as error:
        faults = explain(error, Study) if isinstance(error, ValidationError) else error
        lines = str(faults).splitlines()
        raise InputError("\n".join(f"{origin}: {line}" for line in lines)) from None
    return study


def write_study(study: Study, path: str | Path) -> None:
    """The keys that were given, in a file that `load_study` reads as the same study."""
    given = study.model_dump(mode="json", exclude_unset=True)
    write_text(Path(path), yaml.safe_dump(given, sort_keys=False, allow_unicode=True))
