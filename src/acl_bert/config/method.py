"""A method is data: an entry of `methods.yaml`, which sets the keys below."""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, StringConstraints, field_serializer, model_validator

from acl_bert.config.base import Section
from acl_bert.config.training import MethodTrainingPatch


class Gate(Section):
    """ACL-Grad: whether a batch keeps its auxiliary loss (docs/paper.md §2.4); its rivals."""

    mode: Literal["off", "log_only", "discard", "pcgrad", "gradvac"] = "off"
    """`discard`: a batch whose angle γ is above the threshold is trained on CE alone. `log_only`: γ
    is recorded and nothing discarded. `pcgrad` (PCGrad): the auxiliary loss's gradient, and it
    alone, loses its component against CE's. `gradvac` (GradVac): it is turned towards CE's until
    their cosine is the running mean of the cosines so far. `off`: γ is not computed."""
    scope: Literal["encoder", "last_layer", "representation"] = "encoder"
    """What γ is taken over: all parameters of the `encoder`, of its `last_layer`, or the
    `representation` h, which takes one encoder backward and not two. With several exits the first
    two compare the sums of all exits' gradients and decide once (the last layer is that of the
    deepest exit with an auxiliary loss); over the representation each exit decides for itself."""
    threshold: float = Field(90.0, gt=0, le=180)
    """γ_thres of `discard` and `log_only`, in degrees. Exactly 90° is kept."""


class Method(Section):
    """A method: which exits learn, by which loss besides cross-entropy, and from which teacher."""

    title: Annotated[str, StringConstraints(pattern=r"^[^\r\n]*\S[^\r\n]*$")]
    """How tables and figures name the method, on one line; with `like`, the id where left out."""
    regime: Literal["single_exit", "joint", "alternating", "frozen_backbone"] = "single_exit"
    """Where the classifiers are, and which of them learn at an update. `single_exit`: one, on the
    last layer. The other regimes have one on every layer. `joint`: all learn at every update.
    `alternating`: the last alone at even updates, all at odd ones. `frozen_backbone`: those below
    the last learn, on a frozen backbone that runs without dropout."""
    exit_weights: Literal["uniform", "ascending", "descending"] = "uniform"
    """The weights of the exits' losses (CE and auxiliary loss alike) under `joint`; they sum to the
    number of exits: `uniform`, `ascending` (j / Σj, PABEE's), `descending`."""
    model_selection: Literal["mean", "last"] = "mean"
    """What chooses the epoch of several exits: the `mean` of their scores on the selection split,
    or the `last` one's."""
    layers: int | None = Field(None, ge=1)
    """The encoder is cut after so many layers; all of them where left out."""
    epochs_factor: int = Field(1, ge=1)
    """A factor of `training.epochs`."""
    contrastive: Literal["none", "scl", "acl_embed", "acl_cl", "lacon"] = "none"
    """The auxiliary loss L where it is contrastive: `none`, `scl` (supervised contrastive),
    `acl_embed` (label embeddings in the batch), `acl_cl` (the teacher's samples and labels too) or
    `lacon` (samples against labels, and labels against samples)."""
    distillation: Literal["none", "logits", "features"] = "none"
    """The auxiliary loss L where it distils: `logits` (soft cross-entropy) or `features` (the
    squared difference between the h, mean over their components: small beside CE)."""
    weight: float = Field(0.5, alias="lambda", ge=0)
    """λ, the weight of L. A method whose λ the study gives is not tuned."""
    combination: Literal["convex", "additive"] = "additive"
    """`additive`: CE + λ·L. `convex`: (1−λ)·CE + λ·L; with λ = 1 there is no CE, and λ is not
    tuned."""
    temperature: float = Field(0.3, gt=0)
    """τ of the contrastive loss, and of `classifier: cosine`."""
    distillation_temperature: float = Field(2.0, gt=0)
    """T of `logits`, by which both sides' logits are divided."""
    normalize: bool = True
    """L2-normalise h and the label embeddings."""
    reduction: Literal["mean", "sum"] = "mean"
    """How the losses of the anchors that have a positive are combined."""
    anchors: Literal["all", "samples"] = "all"
    """ACL-Embed. `all`: label embeddings are anchors too. `samples`: they are candidates only."""
    teacher_anchors: bool = False
    """ACL-CL: the teacher's items are anchors too."""
    label_embeddings: bool = True
    """ACL-CL: `false` leaves the label embeddings of both sides out of the batch."""
    heads: int = Field(6, ge=1)
    """LaCon: into how many pieces h and the label embeddings are cut."""
    regularizer: float = Field(0.5, ge=0)
    """LaCon: the weight of what keeps the label embeddings apart."""
    representation: Literal["pooler", "cls", "dropout", "mlp"] = "pooler"
    """h: the `pooler`'s output, the raw `cls`, the pooler's output after `dropout`, or that of a
    fresh `mlp`, LaCon's projection."""
    classifier: Literal["linear", "cosine"] = "linear"
    """Logits: `linear`, W·h + b; `cosine`, the cosines of h and the label embeddings, over τ."""
    gate: Gate = Gate()
    """ACL-Grad, and other ways to treat gradients that disagree."""
    teacher: str | None = None
    """The method whose run, of the same task, encoder and seed, comes first. An exit as deep as it
    learns by CE alone."""
    start: Literal["encoder", "teacher"] = "encoder"
    """The weights that training starts from: the pre-trained `encoder`, or the `teacher`'s encoder
    and last exit."""
    teacher_exit: Literal["frozen", "live"] = "frozen"
    """Whose items ACL-CL aligns with. `frozen`: the teacher's, as it was trained; they get no
    gradient. `live`: those of the model's own last exit at this step, with their gradient."""
    training: MethodTrainingPatch = MethodTrainingPatch()  # type: ignore[valid-type]
    """Keys of `training` that differ for this method; not those of length and hardware."""

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
            yield f"distillation: {self.distillation}, but contrastive names an auxiliary loss"
        if self.gate.mode != "off" and not self.has_auxiliary_loss:
            yield f"gate.mode: {self.gate.mode} needs an auxiliary loss to judge"
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
                yield f"teacher: {self.auxiliary_loss} needs one, such as `teacher: acl`"
            if self.start == "teacher":
                yield "start: teacher, but no teacher is named"
        elif self.start != "teacher" and not self.needs_teacher_items:
            yield (
                f"teacher: {self.teacher} is not used; use `start: teacher`, or an auxiliary loss "
                "with it"
            )
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
    def auxiliary_loss(self) -> str:
        """What is added to CE: the contrastive loss, a kind of distillation, or none."""
        return self.contrastive if self.distillation == "none" else self.distillation

    @property
    def has_auxiliary_loss(self) -> bool:
        return self.auxiliary_loss != "none"

    @property
    def cosine_temperature(self) -> float | None:
        """The divisor of the cosines that are the logits; None where logits are linear in h."""
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
        """Whether each step reads the teacher's outputs for its samples."""
        return self.distillation != "none" or (
            self.contrastive == "acl_cl" and self.teacher_exit == "frozen"
        )

    @property
    def spares_teacher_exit(self) -> bool:
        """Whether an exit as deep as the teacher's learns by CE alone."""
        return self.teacher is not None or self.teacher_exit == "live"

    @property
    def ce_weight(self) -> float:
        """The factor of CE in a batch that keeps its auxiliary loss; 0: there is no CE."""
        return 1.0 - self.weight if self.combination == "convex" else 1.0


@cache
def known_methods() -> dict[str, Method]:
    """The methods that come with the project, by id."""
    text = resources.files("acl_bert.config").joinpath("methods.yaml").read_text("utf-8")
    return {name: Method.model_validate(row) for name, row in yaml.safe_load(text).items()}
