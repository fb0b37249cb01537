"""A study: one config file, what it runs and how."""

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from acl_bert.config.analyses import Places
from acl_bert.config.base import merge, written
from acl_bert.config.checks import check
from acl_bert.config.explain import explain, nearest, unknown
from acl_bert.config.method import Method, known_methods
from acl_bert.config.run_settings import RunSettings

# mypy looks here for the types of inherited fields.
from acl_bert.config.schema import Encoder, MethodPatch, StudyKeys, TaskPatch, Tuning  # noqa: F401
from acl_bert.config.training import Training
from acl_bert.config.variants import Analysed, Variant, differences
from acl_bert.config.yaml_file import read_yaml
from acl_bert.data.spec import TaskSpec, resolve
from acl_bert.errors import InputError
from acl_bert.files import write_text

__all__ = ["Encoder", "RunSettings", "Study", "Tuning", "load_study", "write_study"]

T = TypeVar("T")


class Study(StudyKeys):
    """A study's keys and what follows from them: its methods, their runs, who teaches whom."""

    @cached_property
    def task_specs(self) -> dict[str, TaskSpec]:
        return {
            name: resolve(name, written(patch, without=("training", "methods")))
            for name, patch in self.tasks.items()
        }

    @cached_property
    def own_methods(self) -> dict[str, Method]:
        """The methods that the study lists."""
        methods = {name: self._own_method(name) for name in self.methods}
        titles = [method.title for method in methods.values()]
        if twice := sorted({title for title in titles if titles.count(title) > 1}):
            raise InputError(f"methods: {twice} is the title of two; give each its own")
        return methods

    def _own_method(self, name: str) -> Method:
        known, keys = known_methods(), written(self.methods[name])
        like = keys.pop("like", name)
        base: dict[str, Any] = {}
        if like in known:
            base = known[like].model_dump(by_alias=True)
            base["title"] = base["title"] if like == name else name
        elif like != name:
            raise InputError(f"methods.{name}.like: {unknown(like, known)}")
        elif "title" not in keys:
            raise InputError(
                f"methods.{name}: a method of your own needs a title, or `like: <known method>`; "
                f"{nearest(name, known)}"
            )
        try:
            return Method.model_validate(merge(base, keys))
        except ValidationError as error:
            raise explain(error, Method, "methods", name) from None

    @cached_property
    def method_rows(self) -> dict[str, Method]:
        """The study's own methods, then the variants that its analyses need."""
        return self.own_methods | {name: variant.row for name, variant in self._variants.items()}

    def changed_rows(self) -> dict[str, list[str]]:
        """By method of methods.yaml, the keys that the study changes, each with its new value.

        A method with `like` is one of the study's own and has none.
        """
        changed = {}
        for name, method in self.own_methods.items():
            if name not in known_methods() or "like" in written(self.methods[name]):
                continue
            before = known_methods()[name].model_dump(by_alias=True)
            changes = differences(before, method.model_dump(by_alias=True))
            if keys := [f"{key} {value}" for key, value in changes if key != "title"]:
                changed[name] = keys
        return changed

    @cached_property
    def _analysed(self) -> Analysed:
        analysed = Analysed(self.own_methods, self.tuned, self.training.model_dump())
        analysed.add(self.analyses)
        return analysed

    @property
    def _variants(self) -> dict[str, Variant]:
        return self._analysed.variants

    def _places_of(self, settings: Places | None) -> list[tuple[str, str]]:
        """Task and encoder where an analysis is made; none without it."""
        if settings is None:
            return []
        return list(
            itertools.product(settings.tasks or self.tasks, settings.encoders or self.encoders)
        )

    def task_spec(self, name: str) -> TaskSpec:
        return self._named("tasks", self.task_specs, name)

    def encoder(self, name: str) -> Encoder:
        return self._named("encoders", self.encoders, name)

    def _named(self, kind: str, known: Mapping[str, T], name: str) -> T:
        if name not in known:
            raise InputError(f"study {self.name}, {kind}: {unknown(name, known)}")
        return known[name]

    def method_row(self, name: str, weight: float | None = None) -> Method:
        """The method, with another λ where one is given. InputError if unknown."""
        method = self._named("methods", self.method_rows, name)
        if weight is None:
            return method
        try:
            return Method.model_validate(method.model_dump(by_alias=True) | {"lambda": weight})
        except ValidationError as error:
            raise explain(error, Method, "methods", name) from None

    def training_of(self, task: str, method: str | None = None) -> Training:
        """The study's training keys, under those of the task, under those of the method."""
        patch = self._named("tasks", self.tasks, task).training  # type: ignore[attr-defined]
        keys = merge(self.training.model_dump(), patch)
        return Training.model_validate(
            keys if method is None else merge(keys, self.method_row(method).training)
        )

    def methods_of(self, task: str, encoder: str) -> list[str]:
        """The methods that run on a task with an encoder, in the study's order; variants last."""
        return self._methods_of[task, encoder]

    @cached_property
    def _methods_of(self) -> dict[tuple[str, str], list[str]]:
        methods = {}
        for task, encoder in itertools.product(self.tasks, self.encoders):
            kept = (self.tasks[task].methods, self.encoders[encoder].methods)  # type: ignore[attr-defined]
            own = [name for name in self.methods if all(not some or name in some for some in kept)]
            methods[task, encoder] = own + [
                name
                for name, variant in self._variants.items()
                if variant.method in own
                and any((task, encoder) in self._places_of(asked) for asked in variant.analyses)
            ]
        return methods

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

    def teachers_of_tuning(self) -> list[tuple[str, str, str, int]]:
        """Task, encoder, method and seed of the runs that tuning runs learn from."""
        runs = {
            (task, encoder, teacher, seed): None
            for task, encoder, method, _, seed in self.tuning_cells()
            if (teacher := self.method_row(method).teacher)
        }
        return list(runs)

    def has_run(self, task: str, encoder: str, method: str, seed: int) -> bool:
        """Whether a run is one of the study's own, or teaches one that tries a λ."""
        return (task, encoder, method, seed) in self._runs

    @cached_property
    def _runs(self) -> frozenset[tuple[str, str, str, int]]:
        return frozenset((*self.cells(), *self.teachers_of_tuning()))

    def is_tuning_seed(self, seed: int) -> bool:
        """Whether runs with this seed serve only to choose a λ."""
        return self.tuning.enabled and seed in self.tuning.seeds

    def is_tuned(self, method: str) -> bool:
        """Whether runs of this method choose its λ.

        A λ written in the study stays as it is, `lambda_of` takes that of another method, and
        without CE beside its auxiliary loss a method has no λ to choose.
        """
        return (
            self.tuning.enabled
            and method in self.methods
            and method not in self.tuning.lambda_of
            and self.own_methods[method].has_auxiliary_loss
            and self.own_methods[method].ce_weight > 0
            and "lambda" not in written(self.methods[method])
        )

    def lambda_of(self, method: str) -> str | None:
        """The method whose tuning gives this one's λ; None where λ is not tuned.

        A variant that does not change λ has the λ of its method.
        """
        if method not in self.methods:
            variant = self._variants[method]
            return self.lambda_of(variant.method) if "lambda" not in variant.patch else None
        giver = self.tuning.lambda_of.get(method, method)
        return giver if self.is_tuned(giver) else None

    @cached_property
    def tuned(self) -> frozenset[str]:
        """The study's own methods whose λ is chosen."""
        return frozenset(filter(self.lambda_of, self.methods))

    def is_teacher(self, method: str, encoder: str) -> bool:
        """Whether another method starts or learns from this one's runs with the encoder.

        The task is not asked for: the workflow's rules tell apart methods and encoders alone.
        """
        return (method, encoder) in self._teachers

    @cached_property
    def _teachers(self) -> set[tuple[str, str]]:
        return {
            (teacher, encoder)
            for task, encoder in itertools.product(self.tasks, self.encoders)
            for student in self.methods_of(task, encoder)
            if (teacher := self.method_rows[student].teacher)
        }

    def saves_model(self, method: str, encoder: str) -> bool:
        """Whether a run saves its weights: a teacher does, until its students have learned."""
        return self.keep_models == "all" or self.is_teacher(method, encoder)

    def keeps_model(self, method: str, encoder: str) -> bool:
        """Whether a finished run counts only with its weights."""
        return self.keep_models != "none" and self.saves_model(method, encoder)

    @property
    def variants(self) -> tuple[str, ...]:
        """The methods with a few keys changed that analyses run."""
        return tuple(self._variants)

    @property
    def points(self) -> list[dict[str, Any]]:
        """Which method stands for each value of λ and τ."""
        return self._analysed.points

    @property
    def sensitivity_places(self) -> list[tuple[str, str]]:
        """Task and encoder of each of these values' runs."""
        return self._places_of(self.analyses.sensitivity)

    @property
    def worlds(self) -> list[dict[str, Any]]:
        """The audit's choices, decided otherwise."""
        return self._analysed.worlds

    @property
    def observed(self) -> dict[str, str]:
        """Each method of the gradient pilot → the one whose gate records and does nothing else."""
        return self._analysed.observed

    @property
    def unlike(self) -> frozenset[str]:
        """The methods that have a known method's id and are another kind of method."""

        def kind(m: Method) -> tuple[Any, ...]:
            return m.regime, m.contrastive, m.distillation, m.teacher, m.start, m.layers, m.acts

        known = known_methods()
        own = self.own_methods.items()
        return frozenset(n for n, m in own if n in known and kind(m) != kind(known[n]))

    def run_settings(
        self, task: str, encoder: str, method: str, seed: int, weight: float | None = None
    ) -> RunSettings:
        """What determines one run; `weight` replaces the method's λ (a tuned or tuning run's)."""
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


def load_study(
    config: Path | Mapping[str, Any],
    origin: str = "config",
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """The study in a YAML file, or in a mapping already read from `origin`.

    `changes` replace its keys, as those of Snakemake's --config do. Raises InputError naming file,
    key, fault and the nearest valid key; every wrong key or value at once.
    """
    if isinstance(config, Path):
        origin = str(config)
        config = read_yaml(config)
    if not isinstance(config, Mapping):
        raise InputError(f"{origin}: a study is a mapping of keys; see config/README.md")
    try:
        study = Study.model_validate({**config, **(changes or {})})
        check(study)
    except (ValidationError, InputError) as error:
        faults = explain(error, Study) if isinstance(error, ValidationError) else error
        lines = str(faults).splitlines()
        raise InputError("\n".join(f"{origin}: {line}" for line in lines)) from None
    return study


def write_study(study: Study, path: str | Path) -> None:
    """The keys that were given, in a file that `load_study` reads as the same study."""
    given = study.model_dump(mode="json", exclude_unset=True)
    write_text(Path(path), yaml.safe_dump(given, sort_keys=False, allow_unicode=True))
