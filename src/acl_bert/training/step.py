"""One mini-batch: the losses, the gate, and the gradients they leave on the parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.contrastive import acl_embed_loss, supervised_contrastive_loss
from acl_bert.objectives.gate import GateDecision, combine, gate_decision
from acl_bert.settings.method import Method


@dataclass(frozen=True)
class StepRecord:
    """What a step leaves in the history; tensors, so that a GPU is not waited for."""

    loss: Tensor
    """What was descended: CE and, where it was kept, the weighted contrastive term."""
    ce: Tensor
    contrastive: Tensor | None = None
    gate: GateDecision | None = None
    kept: int | None = None
    """1 where the contrastive term counted, 0 where the gate dropped it; None without a gate."""


def contrastive_loss(method: Method, h: Tensor, labels: Tensor, label_embeddings: Tensor) -> Tensor:
    """The method's contrastive term over h, (batch, hidden)."""
    if method.contrastive == "scl":
        return supervised_contrastive_loss(
            h, labels, method.temperature, method.normalize, method.reduction
        )
    return acl_embed_loss(
        h,
        labels,
        label_embeddings,
        method.temperature,
        method.normalize,
        method.anchors,
        method.reduction,
    )


def training_step(
    model: EncoderClassifier,
    inputs: dict[str, Tensor],
    labels: Tensor,
    method: Method,
    precision: str = "fp32",
    share: float = 1.0,
) -> StepRecord:
    """Forward, then add `share` times the method's gradient to the parameters' `.grad`.

    Without a gate: one backward pass of the weighted sum. With one, two passes and no third: CE's
    gradient and the contrastive one are compared, and the update is put together from the two.
    Where they are compared at h, only the head is passed twice; the encoder once, from their sum.
    """
    bf16 = torch.autocast(labels.device.type, torch.bfloat16, enabled=precision == "bf16")
    with bf16:
        h = model.represent(**inputs)
    at_h = method.gate.mode != "off" and method.gate.scope == "representation"
    seen = h.detach().requires_grad_() if at_h else h
    ce = cross_entropy(model.head.classify(seen), labels)
    if method.contrastive == "none":
        (ce * share).backward()
        return StepRecord(ce.detach(), ce.detach())

    contrastive = contrastive_loss(method, seen, labels, model.label_embeddings)
    total = method.ce_weight * ce + method.weight * contrastive
    if method.gate.mode == "off":
        (total * share).backward()
        return StepRecord(total.detach(), ce.detach(), contrastive.detach())

    # `leaves` are what the two passes end at: h and the classifier, or every parameter.
    leaves = [seen, *model.head.classifier.parameters()] if at_h else list(model.parameters())
    g_ce = torch.autograd.grad(ce, leaves, retain_graph=True, allow_unused=True)
    g_contrastive = torch.autograd.grad(contrastive, leaves, allow_unused=True)
    scope = {id(seen)} if at_h else _scope(model, method.gate.scope)
    within = [place for place, leaf in enumerate(leaves) if id(leaf) in scope]
    decision = gate_decision(
        [g_ce[place] for place in within],
        [g_contrastive[place] for place in within],
        method.gate.threshold,
    )
    keep = decision.keep or method.gate.mode == "observe"
    combined = combine(g_ce, g_contrastive, method.ce_weight, method.weight, keep)
    if at_h:
        leaves, g_h = leaves[1:], combined.pop(0)
        assert g_h is not None
        h.backward(g_h * share if share != 1 else g_h)
    _accumulate(leaves, combined, share)
    descended = total if keep else ce
    return StepRecord(descended.detach(), ce.detach(), contrastive.detach(), decision, int(keep))


def _scope(model: EncoderClassifier, scope: str) -> set[int]:
    """The parameters whose gradients are compared; the pooler is the head's, not the encoder's."""
    module = model.encoder if scope == "encoder" else model.last_layer()
    return {id(parameter) for parameter in module.parameters()}


@torch.no_grad()
def _accumulate(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor | None], share: float
) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if share != 1:
            gradient = gradient * share
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
