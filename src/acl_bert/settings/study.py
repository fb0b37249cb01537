"""A study: one config file, everything that is run and how."""

import difflib
import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import Field, StringConstraints, ValidationError, model_validator

from acl_bert.errors import InputError
from acl_bert.files import canonical_hash
from acl_bert.settings.base import Section, merge, patch_of
from acl_bert.settings.method import Method, method_rows
from acl_bert.settings.training import Training
from acl_bert.tasks.spec import Selection, Source, TaskSpec, resolve

# Names become folders and wildcards of paths.
FolderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]

T = TypeVar("T")

TrainingPatch = patch_of(Training)
MethodPatch = patch_of(Method, like=(str, ""))
TaskPatch = patch_of(TaskSpec, without=("id",), training=(TrainingPatch, TrainingPatch()))


class Encoder(Section):
    path: str = Field(
        description="a hub id, a local folder in transformers' layout, or package:NAME for a "
        "Python package that carries such a folder"
    )
    revision: str | None = Field(None, description="the hub's commit; none for a local folder")


class Tuning(Section):
    """λ chosen per task, encoder and method on the selection split (paper.md, [?] table)."""

    enabled: bool = False
    lambdas: tuple[float, ...] = Field((0.1, 0.3, 0.5, 0.7, 0.9), min_length=1)
    seeds: tuple[int, ...] = Field(
        (101, 102), min_length=1, description="of the tuning runs, none of the study's own"
    )


class Tracking(Section):
    enabled: bool = True
    uri: str | None = Field(
        None, description="an MLflow store or server; SQLite in the study's folder where empty"
    )


class RunSettings(Section):
    """All that determines a run, but for the data and the encoder's weights themselves."""

    task: str
    encoder: str
    method_id: str
    seed: int
    selection_metric: str
    method: Method
    training: Training

    def identity(self, tokens_fingerprint: str, encoder_fingerprint: str) -> str:
        """The run's hash: equal runs have it in common, whatever the study or machine."""
        own = self.model_dump(by_alias=True)
        del own["method"]["title"]
        return canonical_hash([own, tokens_fingerprint, encoder_fingerprint])


class Study(Section):
    """A whole study. `config/README.md` explains every key."""

    name: FolderName = Field(description="names the folder results/<name>")
    source: Source = Field(description="where the rows of GLUE come from")
    tasks: dict[FolderName, TaskPatch] = Field(  # type: ignore[valid-type]
        min_length=1, description="task id: keys that differ from the registry's row"
    )
    encoders: dict[FolderName, Encoder] = Field(min_length=1)
    methods: dict[FolderName, MethodPatch] = Field(  # type: ignore[valid-type]
        min_length=1, description="method id: keys that differ from the row of methods.yaml"
    )
    seeds: tuple[int, ...] = Field(min_length=1)
    selection: Selection = Selection()
    training: Training = Training()
    tuning: Tuning = Tuning()
    tracking: Tracking = Tracking()
    keep_models: Literal["all", "teachers", "none"] = "none"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} names a seed twice")
        if self.tuning.enabled and (shared := set(self.tuning.seeds) & set(self.seeds)):
            raise ValueError(f"tuning.seeds: {sorted(shared)} are seeds of the study too")
        return self

    @cached_property
    def task_specs(self) -> dict[str, TaskSpec]:
        return {
            name: resolve(name, _written(patch, without=("training",)))
            for name, patch in self.tasks.items()
        }

    @cached_property
    def method_rows(self) -> dict[str, Method]:
        known = method_rows()
        rows: dict[str, Method] = {}
        for name, patch in self.methods.items():
            like = _written(patch).get("like", name)
            if like not in known and "like" in _written(patch):
                raise InputError(f"methods.{name}.like: {_unknown(like, known)}")
            base = known[like].model_dump(by_alias=True) if like in known else {}
            try:
                rows[name] = Method.model_validate(merge(base, _written(patch, without=("like",))))
            except ValidationError as error:
                raise InputError(
                    f"methods.{name}: {_unknown(name, known)}; or give the row a title of its own, "
                    f"or like: <a known method> ({error.error_count()} keys are missing)"
                ) from None
        return rows

    def task_spec(self, name: str) -> TaskSpec:
        return self._named("tasks", self.task_specs, name)

    def encoder(self, name: str) -> Encoder:
        return self._named("encoders", self.encoders, name)

    def _named(self, kind: str, known: Mapping[str, T], name: str) -> T:
        if name not in known:
            raise InputError(f"study {self.name}, {kind}: {_unknown(name, known)}")
        return known[name]

    def training_of(self, task: str) -> Training:
        """The study's training keys under those of the task."""
        patch = self.tasks[task].training  # type: ignore[attr-defined]
        return Training.model_validate(merge(self.training.model_dump(), patch))

    def is_tuned(self, method: str) -> bool:
        """Whether λ is chosen on the selection split; a λ written in the study stays as it is."""
        return (
            self.tuning.enabled
            and self.method_rows[method].contrastive != "none"
            and "lambda" not in _written(self.methods[method])
        )

    def cells(self) -> Iterator[tuple[str, str, str, int]]:
        """Task, encoder, method and seed of every run."""
        return itertools.product(self.tasks, self.encoders, self.methods, self.seeds)

    def data_settings(self, task: str) -> str:
        """What a task's prepared rows depend on, as JSON."""
        parts = (self.task_spec(task), self.source, self.selection)
        return "[" + ",".join(part.model_dump_json(by_alias=True) for part in parts) + "]"

    def shown(self) -> str:
        """What tables and figures depend on besides the runs, as JSON: rows, names, order."""
        return json.dumps(
            {
                "tasks": list(self.tasks),
                "encoders": {name: encoder.path for name, encoder in self.encoders.items()},
                "methods": {name: row.title for name, row in self.method_rows.items()},
                "seeds": self.seeds,
            },
            ensure_ascii=False,
        )

    def run_settings(
        self, task: str, encoder: str, method: str, seed: int, weight: float | None = None
    ) -> RunSettings:
        """What one run is made of; `weight` replaces the method's λ (a tuned or tuning run's)."""
        row = self._named("methods", self.method_rows, method)
        if weight is not None:
            row = Method.model_validate(row.model_dump(by_alias=True) | {"lambda": weight})
        self.encoder(encoder)
        return RunSettings(
            task=task,
            encoder=encoder,
            method_id=method,
            seed=seed,
            selection_metric=self.task_spec(task).selection_metric,
            method=row,
            training=self.training_of(task),
        )


def _written(patch: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    written = patch.model_dump(exclude_unset=True, by_alias=True)
    return {key: value for key, value in written.items() if key not in without}


def _unknown(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(map(str, known))}"
    return f"{name!r} is not known; {hint}"


def _keys_at(section: Any, place: tuple[Any, ...]) -> list[str]:
    """The keys that the section at `place` of the config knows."""
    for part in place:
        fields = {field.alias or name: field for name, field in section.model_fields.items()}
        if part in fields:
            section = fields[part].annotation
            if get_origin(section) is dict:
                section = get_args(section)[1]
        # otherwise `part` is the name of an entry of a mapping, whose section we stand on already
    return [field.alias or name for name, field in section.model_fields.items()]


def _explain(error: ValidationError, origin: str) -> InputError:
    lines = []
    for fault in error.errors():
        place = tuple(part for part in fault["loc"] if part != "[key]")
        name = ".".join(map(str, place))
        if fault["type"] == "extra_forbidden":
            what = f"unknown key; {_unknown(str(place[-1]), _keys_at(Study, place[:-1])).split('; ')[1]}"
        elif fault["type"] == "missing":
            what = "is missing"
        else:
            what = f"{fault['msg'].removeprefix('Value error, ')} (got {fault['input']!r})"
        lines.append(f"{origin}: {name + ': ' if name else ''}{what}")
    return InputError("\n".join(lines))


def load_study(config: Path | Mapping[str, Any]) -> Study:
    """The study in a YAML file, or in a mapping already read; every fault in it at once.

    Raises InputError naming file, key, fault and the nearest valid key.
    """
    origin = "config"
    if isinstance(config, Path):
        origin = str(config)
        try:
            config = yaml.safe_load(config.read_text("utf-8"))
        except OSError as error:
            raise InputError(f"{origin}: {error.strerror}; give an existing study file") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"{origin}: is not YAML: {error}") from None
    if not isinstance(config, Mapping):
        raise InputError(f"{origin}: a study is a mapping of keys; see config/README.md")
    try:
        study = Study.model_validate(config)
        _ = study.task_specs, study.method_rows  # their rows are checked here, not at first use
        for task in study.tasks:
            study.training_of(task)
    except ValidationError as error:
        raise _explain(error, origin) from None
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    return study
