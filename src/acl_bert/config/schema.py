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
    Method,
    like=(str, Field("", description="The known method to start from; its own id where left out.")),
)
TaskPatch = patch_of(
    TaskSpec,
    without=("id",),
    training=(
        TrainingPatch,
        Field(
            TrainingPatch(),
            description="Keys of `training` that differ for this task, such as `{epochs: 10}`.",
        ),
    ),
    methods=(
        MethodIds | None,
        Field(None, description="The study's methods that run on this task; all where left out."),
    ),
)


class Encoder(Section):
    path: str
    """A hub id, a local folder as transformers' `save_pretrained` writes it, or `package:NAME` for
    an installed Python package that carries one."""
    revision: str | None = None
    """The hub's commit; a local folder has none."""
    methods: MethodIds | None = None
    """The study's methods that run with this encoder, such as `[ce]` for a small model to compare
    with; all where left out."""


class Tuning(Section):
    """λ chosen per task, encoder and method on the selection split (docs/paper.md §2.8)."""

    enabled: bool = False
    """Whether λ is tuned; if not, each method keeps its own `lambda`."""
    lambdas: Annotated[tuple[NonNegativeFloat, ...], Once] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), min_length=1
    )
    """The values of λ that are tried."""
    seeds: Annotated[tuple[Seed, ...], Once] = Field((101, 102), min_length=1)
    """Seeds of the tuning runs, none of the study's own."""
    max_rows: int = Field(20_000, ge=1)
    """The most train rows of a tuning run; the report names the tasks that have more."""
    lambda_of: dict[str, str] = {}
    """Method → the tuned method whose λ it takes instead of being tuned: `{acl_embed: acl}`."""


class Tracking(Section):
    enabled: bool = True
    """Mirror every run into MLflow while it trains."""
    uri: str | None = None
    """An MLflow store or server; without it, SQLite in the study's folder. The environment variable
    `MLFLOW_TRACKING_URI` overrides both."""


class Checkpoints(Section):
    every_minutes: float = Field(10.0, gt=0)
    """The most that a killed run loses. A run that is told to stop (SIGTERM, SIGINT) writes a
    checkpoint and loses nothing."""


class StudyKeys(Section):
    """The keys of a study."""

    name: FolderName
    """Names the results' folder, `results/<name>`, and MLflow's experiment. Letters, digits, `.`,
    `_`, `-`."""
    source: Source
    """Where the tasks' rows come from."""
    tasks: dict[FolderName, TaskPatch] = Field(min_length=1)  # type: ignore[valid-type]
    """Task id → keys that differ from the known task's, often none: `rte: {}`."""
    encoders: dict[FolderName, Encoder] = Field(min_length=1)
    """Encoder's name in paths and tables → where it comes from."""
    methods: dict[FolderName, MethodPatch] = Field(min_length=1)  # type: ignore[valid-type]
    """Method id → keys that differ from the known method's, often none: `acl: {}`."""
    seeds: Annotated[tuple[Seed, ...], Once] = Field(min_length=1)
    """List of numbers from 0 on. One run for each, with every task, encoder and method."""
    selection: Selection = Selection()
    """The rows that choose the best epoch and λ."""
    training: Training = Training()
    """How every run is trained."""
    tuning: Tuning = Tuning()
    """Whether and how λ is tuned."""
    analyses: Analyses = Analyses()
    """What the paper's analyses run and compare."""
    tracking: Tracking = Tracking()
    """The MLflow mirror."""
    checkpoints: Checkpoints = Checkpoints()
    """How often a run in progress is saved."""
    keep_models: Literal["all", "teachers", "none"] = "teachers"
    """Which runs keep their weights, as safetensors in the store (`predict --model` takes the run's
    small file). `teachers`: those that other methods start or learn from, with the outputs that
    the students' training reads. `none`: a teacher is removed when its students are trained, and a
    method added later trains its teacher again. `all`: every run."""
    code: Literal["any", "same"] = "any"
    """Which finished runs of the store are used again: those trained by `any` version of the code,
    or by the `same` as now."""
