"""How large a study's encoders and tasks are, before anything is downloaded or prepared."""

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
from acl_bert.runs.files import TASK, TOKENS, data_path, tokens_path
from acl_bert.study.planned import Run

# Of a task of the user's on the hub whose official sizes nobody wrote down.
UNKNOWN_ROWS = 100_000


@cache
def costs() -> dict[str, Any]:
    """The content of costs.yaml."""
    text = resources.files(__package__).joinpath("costs.yaml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


@dataclass(frozen=True)
class EncoderSize:
    """A BERT-like encoder; `known` is false where its size was only assumed."""

    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    positions: int
    known: bool = True

    def cut(self, layers: int | None) -> "EncoderSize":
        """Its first so many layers; all of them where None."""
        return self if layers is None else replace(self, layers=layers)

    @property
    def _products(self) -> int:
        """Weights of a layer's matrix products."""
        return self.hidden * (4 * self.hidden + 2 * self.intermediate)

    @property
    def parameters(self) -> int:
        """Of layers and embeddings, without a pooler: within a percent."""
        vectors = 9 * self.hidden + self.intermediate  # biases, and two LayerNorms
        embeddings = (self.vocabulary + self.positions) * self.hidden
        return self.layers * (self._products + vectors) + embeddings

    def flop_per_token(self, length: float) -> float:
        """Of a CE step, forward and backward, a token of a row that is `length` long."""
        return 6 * self.layers * (self._products + 2 * length * self.hidden)

    def model_bytes(self, exits: int, classes: int) -> int:
        """Of the weights in float32, under `exits` heads of a pooler and a classifier each."""
        head = self.hidden * (self.hidden + 1) + classes * (self.hidden + 1)
        return 4 * (self.parameters + exits * head)


def encoder_size(encoder: Encoder) -> EncoderSize:
    """By its config.json, else by what costs.yaml knows; raises InputError for a lost folder."""
    recorded = costs()["encoders"].get(encoder.path)
    if recorded:
        return EncoderSize(**recorded)
    config = read_config(encoder.path, encoder.revision)
    if config is None:
        return EncoderSize(**costs()["unknown_encoder"], known=False)
    return _size_in(config)


def _size_in(config: Mapping[str, Any]) -> EncoderSize:
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
    dev_sets: tuple[str, ...]
    length: float
    """Tokens of a row, mean."""
    counted: bool
    """Whether `length` and the rows are known, not assumed."""

    @property
    def train(self) -> int:
        return self.rows["train"]

    @property
    def text_bytes(self) -> float:
        """Of a row's texts, mean."""
        return self.length * float(costs()["bytes_per_token"])

    @property
    def dev(self) -> int:
        """Rows of all dev sets."""
        return sum(self.rows[name] for name in self.dev_sets)

    @property
    def others(self) -> int:
        """Rows of the test sets."""
        known = {"train", "selection", *self.dev_sets}
        return sum(count for name, count in self.rows.items() if name not in known)


def task_size(study: Study, task: str, folder: Path) -> TaskSize:
    """By the registry's official sizes, else by the prepared rows, else by reading the source's.

    `folder` is the study's. Raises InputError where the source is to be read and cannot be.
    """
    spec = study.task_spec(task)
    length: float | None = costs()["tokens"].get(task)
    counted, prepared = True, data_path(folder, task)
    if official := official_rows(study, spec):
        given = official
    elif (prepared / TASK).is_file():
        splits = read_task(prepared)["splits"]
        names = splits_of(spec, study.source)
        given = {name: splits[name]["source_rows"] for name in names if name in splits}
    elif study.source.kind == "hub":
        given, counted = dict.fromkeys(splits_of(spec, study.source), UNKNOWN_ROWS), False
    else:
        examples = {name: read(spec, study.source, name) for name in splits_of(spec, study.source)}
        given = {name: len(rows) for name, rows in examples.items()}
        train = examples["train"]
        letters = sum(len(text.encode()) for row in train for text in row.text)
        length = letters / len(train) / costs()["bytes_per_token"]
    longest = study.training_of(task).max_length
    found = _tokens_at_hand(study, task, folder)
    if found is None and length is None:
        length, counted = longest / 2, False
    return TaskSize(
        rows=rows_of_splits(spec, study.selection, given),
        classes=len(spec.labels),
        dev_sets=tuple(spec.dev_sets),
        length=found or min(length or longest, longest),
        counted=counted,
    )


def official_rows(study: Study, spec: TaskSpec) -> dict[str, int] | None:
    """The source's rows by split, where reading must find so many."""
    source = study.source
    names = splits_of(spec, source)
    if source.kind == "generator" and spec.generate:
        return {n: spec.generate.train if n == "train" else spec.generate.dev for n in names}
    if source.kind in ("hub", "glue") and not spec.subset and not set(names) - set(spec.rows):
        return {name: spec.rows[name] for name in names}
    return None


def _tokens_at_hand(study: Study, task: str, folder: Path) -> float | None:
    """The mean length of the train rows, where the first encoder's tokens are there."""
    import numpy as np

    for encoder in study.encoders:
        tokens = tokens_path(folder, task, encoder)
        if (tokens / TOKENS).is_file():
            ids, offsets = (
                np.load(tokens / "train" / f"{name}.npy", mmap_mode="r")
                for name in ("ids", "offsets")
            )
            return len(ids) / (len(offsets) - 1)
    return None


@dataclass(frozen=True)
class Cell:
    """What runs of one task, encoder and method have in common; those with tuning seeds apart."""

    row: Method
    training: Training
    task: TaskSize
    encoder: EncoderSize
    """As deep as the method's model is."""
    train: int
    """Rows that are trained on."""

    @property
    def exits(self) -> int:
        return self.encoder.layers if self.row.is_multi_exit else 1

    @property
    def updates(self) -> int:
        """Of the optimiser, over all epochs."""
        return self.training.updates_of(self.train)

    @property
    def flop_per_token(self) -> float:
        return self.encoder.flop_per_token(self.task.length)

    @property
    def model_bytes(self) -> int:
        return self.encoder.model_bytes(self.exits, self.task.classes)


class Sizes:
    """The sizes of a study whose folder is, or will be, `folder`; each looked up when asked for."""

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self.folder = study, folder
        self.task = cache(lambda name: task_size(study, name, folder))
        self.encoder = cache(lambda name: encoder_size(study.encoders[name]))
        self._cell = cache(self._new_cell)

    def cell(self, run: Run) -> Cell:
        return self._cell(*run.cell, self.study.is_tuning_seed(run.seed))

    def _new_cell(self, task: str, encoder: str, method: str, tuning: bool) -> Cell:
        seeds = self.study.tuning.seeds if tuning else self.study.seeds
        settings = self.study.run_settings(task, encoder, method, seeds[0])
        size, rows = self.encoder(encoder).cut(settings.method.layers), self.task(task)
        train = settings.rows_of(rows.train)
        return Cell(settings.method, settings.training, rows, size, train)

    def gives_items(self, run: Run) -> bool:
        """Whether students of the study read the run's items."""
        return run.weight is None and (run.encoder, run.method) in self._giving

    @cached_property
    def _giving(self) -> set[tuple[str, str]]:
        rows = self.study.method_rows
        return {
            (encoder, str(rows[method].teacher))
            for _, encoder, method in dict.fromkeys(cell[:3] for cell in self.study.cells())
            if rows[method].needs_teacher_items
        }

    def teacher(self, run: Run) -> Run | None:
        """The run whose items of all train rows this one reads, where it does."""
        row = self.cell(run).row
        return Run(*run.cell[:2], str(row.teacher), run.seed) if row.needs_teacher_items else None
