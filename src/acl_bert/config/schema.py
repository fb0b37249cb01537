"""The keys of a study file. config/README.md has their descriptions as tables (`make schema`)."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, StringConstraints

from acl_bert.config.analyses import Analyses
from acl_bert.config.base import Once, Section, Seed, patch_of
from acl_bert.config.method import Method
from acl_bert.config.training import Training, TrainingPatch
from acl_bert.data.spec import Selection, Source, TaskSpec

# Names become folders and wildcards of paths.
FolderName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
]

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
    """λ chosen per task, encoder and method on the selection split (paper.md, [?] table)."""

    enabled: bool = Field(False, description="false: each method has the λ of its row")
    lambdas: Annotated[tuple[NonNegativeFloat, ...], Once] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), min_length=1, description="the grid"
    )
    seeds: Annotated[tuple[Seed, ...], Once] = Field(
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


class StudyKeys(Section):
    """The keys of a study."""

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
    seeds: Annotated[tuple[Seed, ...], Once] = Field(
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
