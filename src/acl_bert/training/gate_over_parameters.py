"""One gate over parameters of the encoder, which compares the gradients of the exits' sums."""

from collections.abc import Callable, Sequence
from itertools import compress

import torch

from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import GateDecision, InnerProducts, combine, inner_products
from acl_bert.training.exit_losses import ExitOutput, sum_auxiliary, sum_ce
from acl_bert.training.optimiser import accumulate_gradients

Decide = Callable[[str, InnerProducts], GateDecision]
"""A gate: from the name of what is compared, which has a running target, to the decision."""


def gate_over_parameters(
    model: EncoderClassifier,
    exits: Sequence[ExitOutput],
    scope: str,
    decide: Decide,
    loss_scale: float,
) -> tuple[GateDecision | None, GateDecision | None]:
    """Decide over the parameters in `scope`, and accumulate the gradients of all parameters.

    The model is passed twice, by Σ CE and by Σ aux; there is no third pass. Returns the decision,
    and what the gate would have decided over the exits' h, which the two passes reach as well; None
    for both where no exit has an auxiliary loss, as where a regime trains the last exit alone.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gated = [exit for exit in exits if exit.auxiliary is not None]
    leaves = [*parameters, *(exit.h for exit in gated)]
    auxiliary = sum_auxiliary(exits)
    retain = auxiliary is not None
    g_ce = torch.autograd.grad(sum_ce(exits), leaves, retain_graph=retain, allow_unused=True)
    if auxiliary is None:
        accumulate_gradients(parameters, g_ce, loss_scale)
        return None, None
    g_auxiliary = torch.autograd.grad(auxiliary, leaves, allow_unused=True)

    # A pooler is its head's, not the encoder's. The last layer is that of the deepest exit with an
    # auxiliary loss: none of these losses reaches beyond it.
    deepest = max(model.exits[exit.exit_index] for exit in gated)
    module = model.encoder if scope == "encoder" else model.layer(deepest)
    in_scope = {id(parameter) for parameter in module.parameters()}
    is_inside = [id(parameter) in in_scope for parameter in parameters]
    count = len(parameters)
    of_parameters, of_h = inner_products(
        [
            (list(compress(g_ce, is_inside)), list(compress(g_auxiliary, is_inside))),
            (g_ce[count:], g_auxiliary[count:]),
        ]
    )
    decision, at_h = decide("parameters", of_parameters), decide("h", of_h)
    weights = [decision.inside if inside else decision.outside for inside in is_inside]
    combined = combine(g_ce[:count], g_auxiliary[:count], weights)
    accumulate_gradients(parameters, combined, loss_scale)
    return decision, at_h
