"""How large a study's encoders, tasks and runs are, before anything is downloaded or prepared."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from acl_bert.config.method import Method
from acl_bert.config.study import Encoder, Study
from acl_bert.config.training import Training
from acl_bert.data.prepare import read_task, rows_of_splits
from acl_bert.data.sources import read, splits_of
from acl_bert.data.spec import TaskSpec
from acl_bert.encoders import read_config
from acl_bert.runs.files import TASK, data_path, tokens_path
from acl_bert.study.planned import Run

UNKNOWN_ROWS = 100_000
"""Assumed of each split of a hub task whose official sizes tasks.yaml does not have."""


@cache
def costs() -> dict[str, Any]:
    """The content of costs.yaml."""
    text = resources.files(__package__).joinpath("costs.yaml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


@dataclass(frozen=True)
class EncoderSize:
    """A BERT-like encoder; `known` is false where its size is an assumption."""

    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    positions: int
    known: bool = True

    @property
    def matrix_weights(self) -> int:
        """Weights of one layer's matrix products."""
        return self.hidden * (4 * self.hidden + 2 * self.intermediate)

    @property
    def parameters(self) -> int:
        """Of layers and embeddings, without a pooler; within a percent of the real number."""
        vectors = 9 * self.hidden + self.intermediate  # biases, and two LayerNorms
        embeddings = (self.vocabulary + self.positions) * self.hidden
        return self.layers * (self.matrix_weights + vectors) + embeddings

    def flop_per_token(self, length: float) -> float:
        """FLOP of a CE step, forward and backward, per token of rows `length` tokens long."""
        return 6 * self.layers * (self.matrix_weights + 2 * length * self.hidden)

    def model_bytes(self, exits: int, classes: int) -> int:
        """Of the float32 weights, with a pooler and a classifier on each exit."""
        head = self.hidden * (self.hidden + 1) + classes * (self.hidden + 1)
        return 4 * (self.parameters + exits * head)


def encoder_size(encoder: Encoder) -> EncoderSize:
    """From costs.yaml, else from the encoder's config.json, else assumed.

    Raises InputError where the encoder is a local folder that does not exist.
    """
    if recorded := costs()["encoders"].get(encoder.path):
        return EncoderSize(**recorded)
    config = read_config(encoder.path, encoder.revision)
    if config is None:
        return EncoderSize(**costs()["unknown_encoder"], known=False)

    def first(*names: str) -> int:
        return next(int(config[name]) for name in names if name in config)

    return EncoderSize(
        layers=first("num_hidden_layers", "n_layers"),
        hidden=first("hidden_size", "dim"),
        intermediate=first("intermediate_size", "hidden_dim"),
        vocabulary=first("vocab_size"),
        positions=first("max_position_embeddings"),
    )


@dataclass(frozen=True)
class TaskSize:
    rows: Mapping[str, int]
    """By split, as prepared: limited, and the selection split held out."""
    classes: int
    dev_rows: int
    """Rows of all dev sets."""
    test_rows: int
    """Rows of all test sets."""
    length: float
    """Mean tokens of a row."""
    known: bool
    """False where the rows or their length are an assumption."""


def task_size(study: Study, task: str, folder: Path) -> TaskSize:
    """From the official sizes, else the prepared rows, else by reading the source.

    `folder` is the study's. Raises InputError where the source has to be read and cannot be.
    """
    spec, known = study.task_spec(task), True
    longest = study.training_of(task).max_length
    length = _prepared_length(study, task, folder) or costs()["tokens"].get(task)
    splits, prepared = splits_of(spec, study.source), data_path(folder, task)
    if (rows := official_rows(study, spec)) is None:
        if (prepared / TASK).is_file():
            made = read_task(prepared)["splits"]
            rows = {name: made[name]["source_rows"] for name in splits if name in made}
        elif study.source.kind == "hub":
            rows, known = dict.fromkeys(splits, UNKNOWN_ROWS), False
        else:
            examples = {name: read(spec, study.source, name) for name in splits}
            rows = {name: len(split) for name, split in examples.items()}
            text = "".join(text for row in examples["train"] for text in row.text)
            length = len(text.encode()) / rows["train"] / costs()["bytes_per_token"]
    rows = rows_of_splits(spec, study.selection, rows)
    return TaskSize(
        rows=rows,
        classes=len(spec.labels),
        dev_rows=sum(rows[name] for name in spec.dev_sets),
        test_rows=sum(rows.get(name, 0) for name in spec.test_sets),
        length=min(length or longest / 2, longest),
        known=known and length is not None,
    )


def official_rows(study: Study, spec: TaskSpec) -> dict[str, int] | None:
    """The source's rows by split where the project knows them without reading."""
    source, names = study.source, splits_of(spec, study.source)
    if source.kind == "generator" and spec.generate:
        return {n: spec.generate.train if n == "train" else spec.generate.dev for n in names}
    if source.kind in ("hub", "glue") and not spec.subset and not set(names) - set(spec.rows):
        return {name: spec.rows[name] for name in names}
    return None


def _prepared_length(study: Study, task: str, folder: Path) -> float | None:
    """Mean tokens of the train rows, where some encoder's tokens are there."""
    import numpy as np

    for encoder in study.encoders:
        offsets = tokens_path(folder, task, encoder) / "train" / "offsets.npy"
        if offsets.is_file():
            ends = np.load(offsets, mmap_mode="r")
            return float(ends[-1]) / (len(ends) - 1)
    return None


@dataclass(frozen=True)
class Configuration:
    """What runs of one task, encoder and method have in common; tuning runs apart."""

    method: Method
    training: Training
    task: TaskSize
    encoder: EncoderSize
    """As deep as the method's model is."""
    train_rows: int
    """Rows that are trained on."""

    @property
    def exits(self) -> int:
        return self.encoder.layers if self.method.is_multi_exit else 1

    @property
    def updates(self) -> int:
        """Updates of the optimiser over all epochs."""
        return self.training.updates_of(self.train_rows)

    @property
    def model_bytes(self) -> int:
        return self.encoder.model_bytes(self.exits, self.task.classes)


class Sizes:
    """The sizes of a study with the folder `folder`, each looked up once, when asked for."""

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self.folder = study, folder
        self.task = cache(lambda name: task_size(study, name, folder))
        self.encoder = cache(lambda name: encoder_size(study.encoders[name]))
        self.settings = cache(lambda run: run.settings(study))
        self._configuration = cache(self._new_configuration)

    def configuration(self, run: Run) -> Configuration:
        """What the run has in common with those of other seeds, and of other λ."""
        return self._configuration(Run(*run.configuration, run.of_first_seed(self.study).seed))

    def _new_configuration(self, run: Run) -> Configuration:
        settings = self.settings(run)
        task, encoder = self.task(run.task), self.encoder(run.encoder)
        return Configuration(
            settings.method,
            settings.training,
            task,
            replace(encoder, layers=settings.method.layers or encoder.layers),
            settings.rows_of(task.rows["train"]),
        )

    def gives_items(self, run: Run) -> bool:
        """Whether students of the study read this run's outputs on the train rows."""
        return run.weight is None and (run.encoder, run.method) in self._giving

    @cached_property
    def _giving(self) -> set[tuple[str, str | None]]:
        rows = self.study.method_rows
        students = [cell for cell in self.study.cells() if rows[cell[2]].needs_teacher_items]
        return {(encoder, rows[method].teacher) for _, encoder, method, _ in students}
