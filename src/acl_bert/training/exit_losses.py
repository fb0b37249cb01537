"""The losses of the exits that learn at a step: cross-entropy, and the auxiliary loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from acl_bert.config.method import Method
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.contrastive import (
    acl_cl_loss,
    acl_embed_loss,
    supervised_contrastive_loss,
)
from acl_bert.objectives.distillation import feature_distillation_loss, logits_distillation_loss
from acl_bert.objectives.lacon import lacon_loss
from acl_bert.training.regimes import ExitLoss
from acl_bert.training.teacher import TeacherItems


@dataclass(frozen=True)
class ExitOutput:
    """An exit's losses on a mini-batch, scalars, and the h, (batch, hidden), they depend on."""

    exit_index: int
    weight: float
    """w_m."""
    h: Tensor
    ce: Tensor
    auxiliary: Tensor | None


def exit_outputs(
    model: EncoderClassifier,
    representations: Sequence[Tensor],
    labels: Tensor,
    method: Method,
    exit_losses: Sequence[ExitLoss],
    teacher: TeacherItems | None,
) -> list[ExitOutput]:
    """The outputs of the exits that learn, from every exit's h and the labels, (batch,)."""
    heads, indices = model.heads, [exit.exit_index for exit in exit_losses]
    logits = {m: heads[m].classify(representations[m]) for m in indices}
    if method.teacher_exit == "live":
        last = len(heads) - 1
        teacher = TeacherItems(representations[last], logits[last], heads[last].label_embeddings)
    outputs = []
    for exit in exit_losses:
        m, h = exit.exit_index, representations[exit.exit_index]
        auxiliary = None
        if exit.auxiliary:
            embeddings = heads[m].label_embeddings
            auxiliary = auxiliary_loss(method, h, logits[m], labels, embeddings, teacher)
        ce = cross_entropy(logits[m], labels)
        outputs.append(ExitOutput(m, exit.weight, h, ce, auxiliary))
    return outputs


def auxiliary_loss(
    method: Method,
    h: Tensor,
    logits: Tensor,
    labels: Tensor,
    label_embeddings: Tensor,
    teacher: TeacherItems | None,
) -> Tensor:
    """The method's auxiliary loss at one exit: h, (batch, hidden), logits, (batch, classes)."""
    if method.distillation != "none":
        assert teacher is not None
        if method.distillation == "logits":
            return logits_distillation_loss(logits, teacher.logits, method.distillation_temperature)
        return feature_distillation_loss(h, teacher.representations)
    if method.contrastive == "lacon":
        return lacon_loss(
            h, labels, label_embeddings, method.temperature, method.heads, method.regularizer
        )
    options: dict[str, Any] = {
        "temperature": method.temperature,
        "normalize": method.normalize,
        "reduction": method.reduction,
    }
    if method.contrastive == "scl":
        return supervised_contrastive_loss(h, labels, **options)
    if method.contrastive == "acl_embed":
        return acl_embed_loss(h, labels, label_embeddings, anchors=method.anchors, **options)
    assert teacher is not None
    classes = len(label_embeddings) if method.label_embeddings else 0
    return acl_cl_loss(
        h,
        label_embeddings[:classes],
        teacher.representations,
        teacher.label_embeddings[:classes],
        labels,
        anchors="all" if method.teacher_anchors else "student",
        **options,
    )


def sum_ce(exits: Sequence[ExitOutput]) -> Tensor:
    """Σ_m w_m · CE_m, a scalar."""
    return torch.stack([exit.weight * exit.ce for exit in exits]).sum()


def sum_auxiliary(exits: Sequence[ExitOutput]) -> Tensor | None:
    """Σ_m w_m · aux_m, a scalar; None where no exit has an auxiliary loss."""
    losses = [exit.weight * exit.auxiliary for exit in exits if exit.auxiliary is not None]
    return torch.stack(losses).sum() if losses else None
