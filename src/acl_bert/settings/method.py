"""A method is data: one row of `methods.yaml`, a point in the space the paper spans."""

from functools import cache
from importlib import resources
from typing import Literal, Self

import yaml
from pydantic import Field, model_validator

from acl_bert.settings.base import Section


class Gate(Section):
    """ACL-Grad: whether a batch keeps its contrastive term (paper.md §2)."""

    mode: Literal["off", "observe", "discard"] = Field(
        "off", description="discard drops the term above the threshold; observe only records"
    )
    scope: Literal["encoder", "last_layer", "representation"] = Field(
        "encoder", description="the parameters, or the vector h, whose two gradients are compared"
    )
    threshold: float = Field(90.0, gt=0, le=180, description="γ_thres, degrees")


class Method(Section):
    """One row of every table: what is added to cross-entropy, and how."""

    title: str = Field(description="how tables and figures name the method")
    contrastive: Literal["none", "scl", "acl_embed"] = Field(
        "none", description="the contrastive term"
    )
    weight: float = Field(0.5, alias="lambda", ge=0, description="λ, the weight of the term")
    combination: Literal["convex", "additive"] = Field(
        "additive", description="convex: (1−λ)·CE + λ·L; additive: CE + λ·L"
    )
    temperature: float = Field(0.3, gt=0, description="τ")
    normalize: bool = Field(True, description="L2-normalise h and the label embeddings")
    reduction: Literal["mean", "sum"] = Field(
        "mean", description="over the anchors that have a positive"
    )
    anchors: Literal["all", "samples"] = Field(
        "all", description="whether label embeddings are anchors too, or candidates only"
    )
    representation: Literal["pooler", "first_token", "dropout"] = Field(
        "pooler",
        description="h: the pooler's output, the raw first token, or the pooler's after dropout",
    )
    gate: Gate = Field(Gate(), description="ACL-Grad")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.combination == "convex" and self.weight > 1:
            raise ValueError(f"lambda: {self.weight:g} is above 1, where (1−λ)·CE is negative")
        if self.contrastive == "none" and self.gate.mode != "off":
            raise ValueError(f"gate.mode: {self.gate.mode} needs a contrastive term to judge")
        return self

    @property
    def ce_weight(self) -> float:
        """The factor of CE in a batch that keeps its contrastive term."""
        return 1.0 - self.weight if self.combination == "convex" else 1.0


@cache
def method_rows() -> dict[str, Method]:
    """The method rows that come with the project, by id."""
    text = resources.files("acl_bert.settings").joinpath("methods.yaml").read_text("utf-8")
    return {name: Method.model_validate(row) for name, row in yaml.safe_load(text).items()}
