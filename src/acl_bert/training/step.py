"""One mini-batch: the losses, the gate, and the gradients they leave on the parameters.

Where λ, τ and the gate enter: docs/paper.md §2.4 and §2.7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
from acl_bert.objectives.gate import (
    GateDecision,
    InnerProducts,
    RunningTargets,
    Weights,
    combine,
    inner_products,
    settle,
)
from acl_bert.objectives.lacon import lacon_loss
from acl_bert.training.regimes import ExitLoss
from acl_bert.training.teacher import TeacherItems


@dataclass(frozen=True)
class StepRecord:
    """What a step leaves in the history; tensors, so that a GPU is not waited for.

    Losses are sums over the exits that learn, each with its weight.
    """

    loss: Tensor
    """CE and, unless it was dropped, the term, as they are weighted outside the gate's scope."""
    ce: Tensor
    term: Tensor | None = None
    gates: dict[int, GateDecision] = field(default_factory=dict)
    """The gate's decisions by exit layer; over the encoder's parameters one, at the last layer."""
    at_h: GateDecision | None = None
    """What it would have decided over h, where it decided over parameters."""


@dataclass(frozen=True)
class _Exit:
    """An exit's part in a step. `h` is cut off from the encoder where gradients meet at h."""

    plan: ExitLoss
    h: Tensor
    ce: Tensor
    term: Tensor | None


def term_loss(
    method: Method,
    h: Tensor,
    logits: Tensor,
    labels: Tensor,
    label_embeddings: Tensor,
    teacher: TeacherItems | None,
) -> Tensor:
    """The method's term at one exit: h, (batch, hidden), logits, (batch, classes)."""
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


def training_step(
    model: EncoderClassifier,
    inputs: dict[str, Tensor],
    labels: Tensor,
    method: Method,
    plan: Sequence[ExitLoss],
    teacher: TeacherItems | None = None,
    precision: str = "fp32",
    share: float = 1.0,
    targets: RunningTargets | None = None,
) -> StepRecord:
    """Forward, then add `share` times the method's gradient to the parameters' `.grad`.

    `plan`: the exits that learn. Without a gate: one backward pass of the weighted sum. With one
    over the encoder: two passes and no third; the gradient of all CE and that of all terms are
    compared, and the update is put together from the two. With one over the representation each
    exit decides for itself: only its head is passed twice, the encoder once, from their sum.

    `targets`: those of the gate mode gradvac, which moves them at each step.
    """
    bf16 = torch.autocast(labels.device.type, torch.bfloat16, enabled=precision == "bf16")
    with bf16:
        hs = model.represent(**inputs)
    at_h = method.gate.mode != "off" and method.gate.scope == "representation"
    seen = [h.detach().requires_grad_() for h in hs] if at_h else hs
    logits = {part.place: model.heads[part.place].classify(seen[part.place]) for part in plan}
    live = method.teacher_exit == "live"
    if live:
        last = len(seen) - 1
        teacher = TeacherItems(seen[last], logits[last], model.heads[last].label_embeddings)
    exits = []
    for part in plan:
        h, own = seen[part.place], logits[part.place]
        term = None
        if part.term:
            label_embeddings = model.heads[part.place].label_embeddings
            term = term_loss(method, h, own, labels, label_embeddings, teacher)
        exits.append(_Exit(part, h, cross_entropy(own, labels), term))

    gates: dict[int, GateDecision] = {}
    over_h = None
    if method.gate.mode == "off":
        (_total(method, exits) * share).backward()
    elif at_h:
        gates = _meet_at_h(model, method, exits, hs, seen, live, share, targets)
    else:
        gates, over_h = _meet_at_parameters(model, method, exits, share, targets)
    return _record(model, method, exits, gates, over_h, over_all=not at_h)


def _settle(
    method: Method, products: InnerProducts, targets: RunningTargets | None, place: str
) -> GateDecision:
    """The method's gate on these two gradients; `place` names its running target."""
    gate = method.gate
    target = 0.0
    if gate.mode == "gradvac":
        assert targets is not None
        target = targets[place]
        targets.follow(place, products.cosine)
    return settle(products, gate.mode, method.ce_weight, method.weight, gate.threshold, target)


def _total(method: Method, exits: Iterable[_Exit]) -> Tensor:
    """What is descended where every term counts."""
    plain = Weights(method.ce_weight, method.weight)
    return _sum([_loss(part, plain) for part in exits])


def _loss(part: _Exit, weights: Weights) -> Tensor:
    """An exit's CE and term, weighted; a loss of weight 0 is left out."""
    loss = part.ce
    if part.term is not None:
        counted = [
            _times(weight, x)
            for weight, x in zip(weights, (part.ce, part.term), strict=True)
            if weight
        ]
        loss = _sum(counted)
    return _times(part.plan.weight, loss)


def _times(weight: float, loss: Tensor) -> Tensor:
    return loss if weight == 1 else weight * loss


def _sum(losses: Sequence[Tensor]) -> Tensor:
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).sum()


def _meet_at_h(
    model: EncoderClassifier,
    method: Method,
    exits: Sequence[_Exit],
    hs: Sequence[Tensor],
    seen: Sequence[Tensor],
    live: bool,
    share: float,
    targets: RunningTargets | None,
) -> dict[int, GateDecision]:
    """Each exit's gate over its h; then one pass from all h through poolers and encoder."""
    found = []  # of each exit: its leaves, g_CE and the term's gradient
    for part in exits:
        places = [part.plan.place]
        if live and part.term is not None:
            places.append(len(seen) - 1)  # its items are of the graph too
        leaves = [seen[place] for place in places]
        leaves += [x for place in places for x in model.heads[place].classifier.parameters()]
        # KD's term and CE share the classifier's part of the graph.
        g_ce = torch.autograd.grad(
            part.ce, leaves, retain_graph=part.term is not None, allow_unused=True
        )
        g_term = None
        if part.term is not None:
            g_term = torch.autograd.grad(part.term, leaves, allow_unused=True)
        found.append((part, places, leaves, g_ce, g_term))

    pairs = {
        model.exits[part.plan.place]: (g_ce[:1], g_term[:1])
        for part, _, _, g_ce, g_term in found
        if g_term is not None
    }
    products = dict(zip(pairs, inner_products(list(pairs.values())), strict=True))
    gates = {layer: _settle(method, own, targets, f"h{layer}") for layer, own in products.items()}

    arriving: dict[int, Tensor] = {}  # the gradient at each h
    for part, places, leaves, g_ce, g_term in found:
        combined: Sequence[Tensor | None] = g_ce
        if g_term is not None:
            gate = gates[model.exits[part.plan.place]]
            combined = combine(g_ce, g_term, [gate.inside] + [gate.outside] * (len(leaves) - 1))
        factor = share * part.plan.weight
        for place, gradient in zip(places, combined, strict=False):
            if gradient is not None:
                scaled = gradient if factor == 1 else gradient * factor
                arriving[place] = arriving[place] + scaled if place in arriving else scaled
        _accumulate(leaves[len(places) :], combined[len(places) :], factor)
    reached = [place for place in arriving if hs[place].requires_grad]
    torch.autograd.backward([hs[place] for place in reached], [arriving[p] for p in reached])
    return gates


def _meet_at_parameters(
    model: EncoderClassifier,
    method: Method,
    exits: Sequence[_Exit],
    share: float,
    targets: RunningTargets | None,
) -> tuple[dict[int, GateDecision], GateDecision | None]:
    """One gate over the parameters: all CE against all terms.

    The passes go by every h, so that the decision over h comes along, for the record.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    judged = [part for part in exits if part.term is not None]
    leaves = [*parameters, *(part.h for part in judged)]
    ce = _sum([_times(part.plan.weight, part.ce) for part in exits])
    terms = [_times(part.plan.weight, part.term) for part in judged if part.term is not None]
    g_ce = torch.autograd.grad(ce, leaves, retain_graph=bool(terms), allow_unused=True)
    if not terms:  # at an update of the last exit alone, which learns by CE
        _accumulate(parameters, g_ce, share)
        return {}, None
    g_term = torch.autograd.grad(_sum(terms), leaves, allow_unused=True)
    deepest = max(model.exits[part.plan.place] for part in judged)
    scope = _scope(model, method.gate.scope, deepest)
    within = [place for place, leaf in enumerate(parameters) if id(leaf) in scope]
    products = inner_products(
        [
            ([g_ce[place] for place in places], [g_term[place] for place in places])
            for places in (within, range(len(parameters), len(leaves)))
        ]
    )
    over_parameters, over_h = (
        _settle(method, own, targets, place)
        for own, place in zip(products, ("parameters", "h"), strict=True)
    )
    weights = [
        over_parameters.inside if id(leaf) in scope else over_parameters.outside
        for leaf in parameters
    ]
    count = len(parameters)
    _accumulate(parameters, combine(g_ce[:count], g_term[:count], weights), share)
    return {model.exits[-1]: over_parameters}, over_h


@torch.no_grad()
def _record(
    model: EncoderClassifier,
    method: Method,
    exits: Sequence[_Exit],
    gates: dict[int, GateDecision],
    over_h: GateDecision | None,
    over_all: bool,
) -> StepRecord:
    plain = Weights(method.ce_weight, method.weight)
    descended, terms = [], []
    for part in exits:
        if part.term is not None:
            terms.append(_times(part.plan.weight, part.term))
        gate = gates.get(model.exits[-1 if over_all else part.plan.place])
        descended.append(_loss(part, gate.outside if gate else plain))
    return StepRecord(
        _sum(descended).detach(),
        _sum([_times(part.plan.weight, part.ce) for part in exits]).detach(),
        _sum(terms).detach() if terms else None,
        gates,
        over_h,
    )


def _scope(model: EncoderClassifier, scope: str, deepest: int) -> set[int]:
    """The parameters whose gradients are compared; poolers are the heads', not the encoder's.

    The last layer is that of the deepest exit with a term: none reaches beyond it.
    """
    module = model.encoder if scope == "encoder" else model.layer(deepest)
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
