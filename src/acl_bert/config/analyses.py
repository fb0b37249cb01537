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

    tasks: Names | None = Field(None, description="the tasks; all where empty")
    encoders: Names | None = Field(None, description="the encoders; all where empty")


class Sensitivity(Places):
    """Scores over λ and τ, under both forms (claim 6): a variant a value."""

    methods: Names = Field(("ce_scl", "acl"), description="of those without a teacher")
    lambdas: Annotated[tuple[NonNegativeFloat, ...], Field(min_length=1), Once] = Field(
        (0.1, 0.3, 0.5, 0.7, 0.9), description="the values of λ"
    )
    temperatures: Annotated[tuple[PositiveFloat, ...], Once] = Field(
        (0.05, 0.1, 0.3, 0.5), description="the values of τ; may be none"
    )
    combinations: Annotated[
        tuple[Literal["convex", "additive"], ...], Field(min_length=1), Once
    ] = Field(("convex", "additive"), description="the forms under which both are tried")


class Gradients(Places):
    """The gradient pilot (claim 1): the angle at every step, the gate on `log_only`."""

    methods: Names = Field(("ce_scl", "acl_embed"), description="of those with a term, ungated")


class Choice(Section):
    """A row of choices.yaml: what the paper leaves open (docs/paper.md §2.8)."""

    title: str
    default: str = Field(description="what the rows of methods.yaml have, in words")
    methods: Names = Field(description="the rows of methods.yaml that it is a choice for")
    variants: dict[str, Keys] = Field(  # type: ignore[valid-type]
        min_length=1, description="in words: the keys that change"
    )


class Audit(Places):
    """What the paper leaves open, decided otherwise, one choice at a time (choices.yaml)."""

    methods: Names | None = Field(None, description="the methods that are varied; all where empty")
    choices: Names | None = Field(None, description="of choices.yaml; all where empty")
    variants: Literal["first", "all"] = Field(
        "first", description="of each choice: the first in choices.yaml, or all of them"
    )
    more: dict[str, Choice] = Field(
        {}, description="choices of the study's own, or in place of those of choices.yaml"
    )


class Analyses(Section):
    gradients: Gradients | None = Field(None, description="the gradient pilot")
    sensitivity: Sensitivity | None = Field(None, description="scores over λ and τ")
    audit: Audit | None = Field(None, description="the paper's open choices, one at a time")
    ablation: dict[str, Names] = Field(
        {
            "acl": ("ce", "acl_embed", "acl_pcgrad", "acl_gradvac", "lacon"),
            "acl_cl": (
                "jt",
                "jt_acl",
                "acl_cl_no_gate",
                "acl_cl_no_labels",
                "acl_cl_no_cross_layer",
                "acl_cl_ce_teacher",
            ),
        },
        description="a full method: the methods that lack a part, or have another in its place",
    )
    clusters: Names = Field(
        ("jt_scl", "acl_cl"),
        description="the methods whose representations at the first quarter's exit are compared",
    )


@cache
def choices() -> dict[str, Choice]:
    """The open choices, by id, in the order of docs/paper.md §2.8."""
    text = resources.files("acl_bert.config").joinpath("choices.yaml").read_text("utf-8")
    rows: dict[str, Any] = yaml.safe_load(text)
    return {
        name: Choice.model_validate(row) for name, row in rows.items() if not name.startswith("_")
    }
