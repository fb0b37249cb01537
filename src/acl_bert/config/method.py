"""A method is data: one row of `methods.yaml`, a point in the space the paper spans."""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, StringConstraints, field_serializer, model_validator

from acl_bert.config.base import Section
from acl_bert.config.training import MethodTrainingPatch


class Gate(Section):
    """ACL-Grad: whether a batch keeps its contrastive term (docs/paper.md §2.4), and its rivals."""

    mode: Literal["off", "log_only", "discard", "pcgrad", "gradvac"] = Field(
        "off",
        description="discard drops the term above the threshold; log_only only records; pcgrad: "
        "the term's gradient loses what opposes CE's; gradvac: it is turned "
        "towards CE's until their cosine is the mean that it had so far",
    )
    scope: Literal["encoder", "last_layer", "representation"] = Field(
        "encoder", description="the parameters, or the vector h, whose two gradients are compared"
    )
    threshold: float = Field(90.0, gt=0, le=180, description="γ_thres, degrees")


class Method(Section):
    """One row of every table: which exits learn, by what besides cross-entropy, and from whom."""

    title: Annotated[str, StringConstraints(pattern=r"^[^\r\n]*\S[^\r\n]*$")] = Field(
        description="how tables and figures name the method, on one line"
    )
    regime: Literal["single_exit", "joint", "alternating", "frozen_backbone"] = Field(
        "single_exit",
        description="single_exit: one classifier, on the last layer; else one on every layer. "
        "joint: all of them learn at every update; alternating: the last alone and all in turn; "
        "frozen_backbone: those below the last, on a backbone that stays as it is",
    )
    exit_weights: Literal["uniform", "ascending", "descending"] = Field(
        "uniform",
        description="the weights of the exits' losses under joint, which sum to their number",
    )
    model_selection: Literal["mean", "last"] = Field(
        "mean", description="the exits whose score on the selection split chooses the epoch"
    )
    layers: int | None = Field(
        None, ge=1, description="the encoder is cut after so many layers; empty: all of it"
    )
    epochs_factor: int = Field(1, ge=1, description="times training.epochs")
    contrastive: Literal["none", "scl", "acl_embed", "acl_cl", "lacon"] = Field(
        "none", description="the contrastive term"
    )
    distillation: Literal["none", "logits", "features"] = Field(
        "none",
        description="the term where it is not contrastive: soft cross-entropy to the teacher's "
        "logits, or the mean squared difference to its h",
    )
    weight: float = Field(0.5, alias="lambda", ge=0, description="λ, the weight of the term")
    combination: Literal["convex", "additive"] = Field(
        "additive",
        description="convex: (1−λ)·CE + λ·L, with λ = 1 the term alone; additive: CE + λ·L",
    )
    temperature: float = Field(0.3, gt=0, description="τ of the contrastive term")
    distillation_temperature: float = Field(
        2.0, gt=0, description="T, by which both sides' logits are divided"
    )
    normalize: bool = Field(True, description="L2-normalise h and the label embeddings")
    reduction: Literal["mean", "sum"] = Field(
        "mean", description="over the anchors that have a positive"
    )
    anchors: Literal["all", "samples"] = Field(
        "all", description="whether label embeddings are anchors too, or candidates only"
    )
    teacher_anchors: bool = Field(False, description="ACL-CL: the teacher's items are anchors too")
    label_embeddings: bool = Field(True, description="ACL-CL: label embeddings are in the batch")
    heads: int = Field(6, ge=1, description="LaCon: into how many pieces h and the labels are cut")
    regularizer: float = Field(
        0.5, ge=0, description="LaCon: the weight of what keeps the label embeddings apart"
    )
    representation: Literal["pooler", "cls", "dropout", "mlp"] = Field(
        "pooler",
        description="h: the pooler's output, the raw first token, the pooler's after dropout, or a "
        "fresh multilayer perceptron's, LaCon's projection",
    )
    classifier: Literal["linear", "cosine"] = Field(
        "linear",
        description="logits: W·h + b, or the cosines of h and the label embeddings, over τ",
    )
    gate: Gate = Field(Gate(), description="ACL-Grad")
    teacher: str | None = Field(
        None,
        description="the method whose run of the same task, encoder and seed comes first; an exit "
        "of its depth learns by CE alone",
    )
    start: Literal["encoder", "teacher"] = Field(
        "encoder", description="the weights that training starts from"
    )
    teacher_exit: Literal["frozen", "live"] = Field(
        "frozen",
        description="whose items ACL-CL aligns with: the teacher's, as it was when it was trained, "
        "or those of the model's own last exit, trained along",
    )
    training: MethodTrainingPatch = Field(  # type: ignore[valid-type]
        MethodTrainingPatch(), description="keys that differ for the method"
    )

    @field_serializer("training")
    def _written_keys(self, training: Any) -> dict[str, Any]:
        return training.model_dump(exclude_unset=True)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        if self.combination == "convex" and self.weight > 1:
            yield f"lambda: {self.weight:g} is above 1, where (1−λ)·CE is negative"
        if self.contrastive != "none" and self.distillation != "none":
            yield f"distillation: {self.distillation}, but contrastive is the term already"
        if self.gate.mode != "off" and not self.has_term:
            yield f"gate.mode: {self.gate.mode} needs a term besides CE to judge"
        if self.gate.mode in ("pcgrad", "gradvac") and self.gate.threshold != 90:
            yield f"gate.threshold: {self.gate.threshold:g} is not for {self.gate.mode}; leave it"
        if self.exit_weights != "uniform" and self.regime != "joint":
            yield f"exit_weights: {self.exit_weights} is for regime joint, not {self.regime}"
        if self.contrastive == "acl_cl" and self.anchors == "samples":
            yield "anchors: samples is not for acl_cl; it has teacher_anchors, label_embeddings"
        if self.contrastive != "acl_cl":
            for key, usual in (("teacher_anchors", False), ("label_embeddings", True)):
                if getattr(self, key) != usual:
                    yield f"{key}: {str(not usual).lower()} is for acl_cl only"
            if self.teacher_exit == "live":
                yield "teacher_exit: live is for acl_cl only"
        yield from self._faults_about_lacon()
        yield from self._faults_about_the_teacher()

    def _faults_about_lacon(self) -> Iterator[str]:
        lacon = self.contrastive == "lacon"
        for key in ("normalize", "reduction", "anchors") if lacon else ("heads", "regularizer"):
            if getattr(self, key) != type(self).model_fields[key].default:
                yield f"{key}: is {'not for lacon' if lacon else 'for lacon only'}; leave it out"

    def _faults_about_the_teacher(self) -> Iterator[str]:
        if self.teacher is None:
            if self.needs_teacher_items:
                yield f"teacher: {self.term} needs one, such as `teacher: acl`"
            if self.start == "teacher":
                yield "start: teacher, but no teacher is named"
        elif self.start != "teacher" and not self.needs_teacher_items:
            yield f"teacher: {self.teacher} is not used; use `start: teacher`, or a term with it"
        if self.combination == "convex" and self.spares_teacher_exit and self._gates_the_sum:
            yield (
                "combination: convex, but one gate over the sum cannot leave the teacher's exit "
                "its whole CE; use additive, or gate.scope representation"
            )
        if self.is_multi_exit and self.layers == 1:
            yield f"layers: 1, but regime {self.regime} needs several exits"
        if not self.is_multi_exit and self.model_selection != "mean":
            yield f"model_selection: {self.model_selection} is for methods with several exits"
        if self.regime == "frozen_backbone":
            if self.start != "teacher":
                yield "regime: frozen_backbone needs one that was trained; give `start: teacher`"
            if self._gates_the_sum:
                yield "gate.scope: a frozen backbone has no gradients; use representation"
        if self.teacher_exit == "live" and self.regime not in ("joint", "alternating"):
            yield f"teacher_exit: live needs a last exit that learns, not regime {self.regime}"

    @property
    def term(self) -> str:
        """What is added to CE: the contrastive term, a kind of distillation, or none."""
        return self.contrastive if self.distillation == "none" else self.distillation

    @property
    def has_term(self) -> bool:
        return self.term != "none"

    @property
    def cosine_temperature(self) -> float | None:
        """What divides the cosines that are the logits; None where they are linear in h."""
        return self.temperature if self.classifier == "cosine" else None

    @property
    def acts(self) -> str:
        """What the gate does to the gradients, if anything."""
        return "off" if self.gate.mode == "log_only" else self.gate.mode

    @property
    def _gates_the_sum(self) -> bool:
        return self.gate.mode != "off" and self.gate.scope != "representation"

    @property
    def is_multi_exit(self) -> bool:
        return self.regime != "single_exit"

    @property
    def needs_teacher_items(self) -> bool:
        """Whether each step reads what the teacher makes of its samples."""
        return self.distillation != "none" or (
            self.contrastive == "acl_cl" and self.teacher_exit == "frozen"
        )

    @property
    def spares_teacher_exit(self) -> bool:
        """Whether an exit as deep as the teacher's learns by CE alone."""
        return self.teacher is not None or self.teacher_exit == "live"

    @property
    def ce_weight(self) -> float:
        """The factor of CE in a batch that keeps its contrastive term; 0: there is no CE."""
        return 1.0 - self.weight if self.combination == "convex" else 1.0


@cache
def method_rows() -> dict[str, Method]:
    """The method rows that come with the project, by id."""
    text = resources.files("acl_bert.config").joinpath("methods.yaml").read_text("utf-8")
    return {name: Method.model_validate(row) for name, row in yaml.safe_load(text).items()}
