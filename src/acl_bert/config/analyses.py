"""The paper's analyses (docs/paper.md §1): which runs they need besides the study's own."""

from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, NonNegativeFloat, PositiveFloat

from acl_bert.config.base import Once, Section, patch_of
from acl_bert.config.method import Method

Keys = patch_of(Method, without=("title",))


Names = Annotated[tuple[str, ...], Field(min_length=1), Once]


class Places(Section):
    """Where an analysis runs its variants."""

    tasks: Names | None = None
    """The tasks on which it is run; all where left out."""
    encoders: Names | None = None
    """The encoders with which it is run; all where left out."""


class Sensitivity(Places):
    """Scores over λ and τ, under both forms of the loss (claim 6): one variant for each value."""

    methods: Names = ("ce_scl", "acl")
    """Methods of the study with a contrastive loss and without a teacher."""
    lambdas: Annotated[tuple[NonNegativeFloat, ...], Once] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), min_length=1
    )
    """The values of λ."""
    temperatures: Annotated[tuple[PositiveFloat, ...], Once] = (0.05, 0.1, 0.3, 0.5)
    """The values of τ; `[]` tries none."""
    combinations: Annotated[tuple[Literal["convex", "additive"], ...], Once] = Field(
        ("convex", "additive"), min_length=1
    )
    """The forms of the loss under which both are tried."""


class Gradients(Places):
    """The gradient pilot (claim 1): the angle at every step, the gate on `log_only`."""

    methods: Names = ("ce_scl", "acl_embed")
    """Methods of the study with an auxiliary loss and no gate that acts."""


class Choice(Section):
    """A choice that the paper leaves open (choices.yaml, docs/paper.md §2.8)."""

    title: str
    """How the table names the choice."""
    default: str
    """What the study has, in words."""
    methods: Names
    """The methods that it is a choice for."""
    variants: dict[str, Keys] = Field(min_length=1)  # type: ignore[valid-type]
    """Another decision, in words → the keys of `methods.*` that it changes."""


class Audit(Places):
    """What the paper leaves open, decided otherwise, one choice at a time (choices.yaml)."""

    methods: Names | None = None
    """The methods that are varied; all where left out."""
    choices: Names | None = None
    """Ids of choices; all where left out."""
    variants: Literal["first", "all"] = "first"
    """Which other decisions of each choice are run: the `first` in the file, or `all`."""
    more: dict[str, Choice] = {}
    """Choices of your own, by id; an id of the file replaces the choice there."""


class Analyses(Section):
    gradients: Gradients | None = None
    """The gradient pilot. `{}` runs it with its defaults; methods with `gate: {mode: log_only}` are
    in it without this key."""
    sensitivity: Sensitivity | None = None
    """Scores over λ and τ. `{}` runs it with its defaults."""
    audit: Audit | None = None
    """What the paper leaves open, decided otherwise. `{}` runs it with its defaults."""
    ablation: dict[str, Names] = {
        "acl": ("ce", "acl_embed", "acl_pcgrad", "acl_gradvac", "lacon"),
        "acl_cl": (
            "jt",
            "jt_acl",
            "acl_cl_no_gate",
            "acl_cl_no_labels",
            "acl_cl_no_cross_layer",
            "acl_cl_ce_teacher",
        ),
    }
    """A full method → the methods that lack or replace one of its components. Those that the study
    does not run are left out."""
    clusters: Names = ("jt_scl", "acl_cl")
    """The methods whose representations at the first quarter's exit are compared (t-SNE)."""


@cache
def choices() -> dict[str, Choice]:
    """The open choices, by id, in the order of docs/paper.md §2.8."""
    text = resources.files("acl_bert.config").joinpath("choices.yaml").read_text("utf-8")
    rows: dict[str, Any] = yaml.safe_load(text)
    return {
        name: Choice.model_validate(row) for name, row in rows.items() if not name.startswith("_")
    }
