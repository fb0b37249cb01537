"""What a task is, and where a study takes its rows from: plain data, checked when it is read."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

from acl_bert.config.base import Section, Seed, merge
from acl_bert.config.explain import explain, nearest
from acl_bert.errors import InputError

SourceKind = Literal["hub", "glue", "files", "generator"]
Metric = Literal["accuracy", "f1", "matthews", "accuracy_f1"]
Quoting = Literal["none", "csv"]

# YAML reads `labels: [0, 1]` and `values: {0: no}` as numbers; in a file they are text.
Spelling = Annotated[str, BeforeValidator(lambda v: str(v) if type(v) is int else v)]
# A split's name becomes a file name.
SplitName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class Source(Section):
    """Where the rows of a study's tasks come from."""

    kind: SourceKind = "hub"
    """`hub`: the Hugging Face hub, or a local copy of the data set's repository. `glue`: a local
    folder in GLUE's TSV layout. `files`: your own CSV, TSV or JSONL files, named by each task.
    `generator`: generated stand-in data, no network."""
    folder: str | None = None
    """The local folder: GLUE's (`glue`), the copy of the hub's repository (`hub`), or the one from
    which relative paths start (`files`). `make reproduce GLUE_DIR=…` sets it, with `kind: glue`."""
    dataset: str = "nyu-mll/glue"
    """The hub's id of the data set."""
    revision: str | None = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
    """Commit of the data set on the hub; `null` takes the newest."""
    test: bool = False
    """Read the test split too, which has no labels in GLUE."""


class Selection(Section):
    """On which rows the best epoch and λ are chosen (docs/paper.md §2.8)."""

    split: Literal["held_out", "dev"] = "held_out"
    """`held_out`: rows held out of train. `dev`: the dev set itself, as older work did."""
    fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of train that is held out, stratified by class."""
    max_rows: PositiveInt = 2000
    """The most rows that are held out."""
    seed: Seed = 13
    """Seed of the hold-out. Not a training seed: all runs share the split."""


class Limit(Section):
    """Fewer rows than the source has, drawn stratified and always the same ones."""

    train: PositiveInt | None = None
    """Rows taken from train, before the selection split is held out; all where left out."""
    dev: PositiveInt | None = None
    """Rows taken from each dev set; all where left out."""


class HubLayout(Section):
    """Where a task is found in the hub's data set."""

    config: str
    """Name of the data set's configuration."""
    splits: dict[SplitName, str]
    """Split of the task → its name on the hub."""


class GlueFile(Section):
    """One TSV file of GLUE."""

    name: str
    """The file's name."""
    columns: list[str] = Field(min_length=1)
    """All its columns, in order."""
    header: bool = True
    """Whether its first line names the columns."""


class GlueLayout(Section):
    """Where a task is found in GLUE's TSV folder."""

    folder: str
    """The task's folder in `source.folder`."""
    files: dict[SplitName, GlueFile]
    """Split → its file."""
    text: list[str] | None = None
    """The text columns, where the files name them otherwise than the task's `text`."""
    label: str | None = None
    """The label's column, where the files name it otherwise than the task's `label`."""
    quoting: Quoting = "none"
    """`none`: a quotation mark is a character. `csv`: it may enclose a field, as in QQP."""


class Submission(Section):
    """How GLUE's server wants the predictions of a task's test sets (https://gluebenchmark.com)."""

    files: dict[SplitName, Annotated[str, StringConstraints(pattern=r"^[\w-]+\.tsv$")]] = Field(
        min_length=1
    )
    """Test set → the file's name."""
    labels: list[Spelling]
    """How the server spells each of the task's labels."""


class Generate(Section):
    """Which grammar a generated task comes from (generator.py), and its sizes."""

    grammar: Literal["acceptability", "paraphrase", "inference"]
    """Which grammar: `acceptability`, `paraphrase` or `inference`."""
    train: PositiveInt = 448
    """Rows of train, the selection split included."""
    dev: PositiveInt = 256
    """Rows of each dev set."""
    seed: Seed = 7
    """Seed of the generator."""


class TaskSpec(Section):
    """A classification task over one or two texts.

    `id` is the task's name in paths and tables. The index of a name in `labels` is its class id.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str
    """How tables and figures name the task."""
    text: list[str] = Field(min_length=1, max_length=2)
    """One or two columns of text (`hub`, `files`)."""
    label: str = "label"
    """The label's column (`hub`, `files`)."""
    labels: list[Spelling] = Field(min_length=2)
    """Names of the labels; the position in the list is the class. With two, the second is the
    positive one of F1."""
    values: dict[Spelling, Spelling] = Field(default_factory=dict)
    """How a file spells a label → its name in `labels`, where they differ."""
    metrics: list[Metric] = Field(min_length=1)
    """The reported metrics, of `accuracy`, `f1`, `accuracy_f1` (their mean), `matthews`."""
    selection_metric: Metric
    """The one of `metrics` that chooses the best epoch and λ."""
    dev_sets: dict[SplitName, str] = Field(default_factory=lambda: {"dev": ""})
    """Dev set → suffix of its metrics' names. MNLI: `{dev: "", dev_mm: "_mm"}`."""
    rows: dict[SplitName, PositiveInt] = Field(default_factory=dict)
    """Split → official number of rows, checked for `hub` and `glue`."""
    subset: bool = False
    """Accept fewer rows than the official ones, and files named `*.subset.tsv`; tables say so."""
    limit: Limit = Limit()
    """Fewer rows than the source has."""
    hub: HubLayout | None = None
    """Where the hub has the task."""
    glue: GlueLayout | None = None
    """Where GLUE's folder has it."""
    files: dict[SplitName, str] = Field(default_factory=dict)
    """Split → your .csv, .tsv or .jsonl file: `train`, each dev set and, if you like, `selection`
    and the test sets (`test`, and one for each further dev set: `test_mm`)."""
    quoting: Quoting | None = None
    """Of your .tsv files, needed where a field starts with a quotation mark: `none`, the mark is a
    character; `csv`, it encloses the field."""
    generate: Generate | None = None
    """The generated task's grammar and sizes."""
    submission: Submission | None = None
    """How GLUE's server wants the predictions of the test sets. `null`: it gets none."""

    @property
    def test_sets(self) -> list[str]:
        """Names of the test sets that a source may have: one beside each dev set."""
        return [f"test{suffix}" for suffix in self.dev_sets.values()]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        for key in ("labels", "metrics", "text"):
            names = getattr(self, key)
            if twice := sorted({name for name in names if names.count(name) > 1}):
                yield f"{key}: {', '.join(twice)} occurs twice; name each once"
        if self.label in self.text:
            yield f"label: {self.label} is a text column too"
        if stray := sorted({*self.values.values()} - {*self.labels}):
            yield f"values: {', '.join(stray)} is none of labels {self.labels}"
        if self.selection_metric not in self.metrics:
            yield f"selection_metric: {self.selection_metric} is none of metrics"
        if self.dev_sets.get("dev") != "":
            yield 'dev_sets: needs a set dev with the suffix ""'
        if len(set(self.dev_sets.values())) < len(self.dev_sets):
            yield "dev_sets: two sets have the same suffix"
        if reserved := sorted({"train", "selection", *self.test_sets} & {*self.dev_sets}):
            yield f"dev_sets: {', '.join(reserved)} is the name of another split"
        if len(self.labels) > 2 and {"f1", "accuracy_f1"} & {*self.metrics}:
            yield "metrics: f1 needs two classes, the second being the positive one"
        known = {"train", "selection", *self.dev_sets, *self.test_sets}
        if stray := sorted({*self.files} - known):
            yield f"files: {', '.join(stray)} is none of {sorted(known)}"
        missing = [name for name in ("train", *self.dev_sets) if name not in self.files]
        if self.files and missing:
            yield f"files: {', '.join(missing)} is missing"
        if self.submission:
            # Only its size tells a whole test set from a subset of it.
            if stray := sorted({*self.submission.files} - {*self.rows}):
                yield f"submission.files: rows has no size of {', '.join(stray)}"
            if len(self.submission.labels) != len(self.labels):
                yield "submission.labels: needs one spelling for each of labels"


@cache
def _rows() -> dict[str, dict[str, Any]]:
    text = resources.files(__package__).joinpath("tasks.yaml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return rows


@cache
def registry() -> dict[str, TaskSpec]:
    """The tasks that come with the project (tasks.yaml), by id."""
    return {task_id: TaskSpec(id=task_id, **row) for task_id, row in _rows().items()}


def resolve(task_id: str, overrides: Mapping[str, Any] | None = None) -> TaskSpec:
    """The registry's task with `overrides` laid over it (mappings key by key), or a new task.

    Raises InputError naming the key for what is unknown, missing or of the wrong type.
    """
    overrides = overrides or {}
    if task_id not in _rows() and not {"text", "labels"} & set(overrides):
        raise InputError(
            f"tasks.{task_id}: no such task; {nearest(task_id, _rows())}; a task of your own "
            "needs title, text, labels, metrics, selection_metric and files"
        )
    if "id" in overrides:
        raise InputError(f"tasks.{task_id}.id: the key above it is the task's id; leave it out")
    merged = merge(_rows().get(task_id, {}), dict(overrides))
    try:
        return TaskSpec(id=task_id, **merged)
    except ValidationError as error:
        raise explain(error, TaskSpec, "tasks", task_id) from None
