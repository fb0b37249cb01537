"""A gate for each exit, which compares the two gradients at the exit's representation h."""

from collections.abc import Sequence

import torch
from torch import Tensor

from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import GateDecision, Gradients, combine, inner_products
from acl_bert.training.exit_losses import ExitOutput
from acl_bert.training.gate_over_parameters import Decide
from acl_bert.training.optimiser import accumulate_gradients


def gate_over_representations(
    model: EncoderClassifier,
    representations: Sequence[Tensor],
    heads_inputs: Sequence[Tensor],
    exits: Sequence[ExitOutput],
    decide: Decide,
    loss_scale: float,
) -> dict[int, GateDecision]:
    """Decide at each exit, accumulate the gradients, and return the decisions by exit layer.

    `heads_inputs` are every exit's h cut off from the encoder, from which the losses were computed,
    `representations` the same not cut off. Each classifier is passed twice, by CE and by the
    auxiliary loss; poolers and encoder once, by the gradients that have arrived at all h. An exit
    without an auxiliary loss has no gate.
    """
    classifiers = [p for head in model.heads for p in head.classifier.parameters()]
    classifiers = [p for p in classifiers if p.requires_grad]
    leaves = [*heads_inputs, *classifiers]  # where a teacher is live, two exits' h are reached
    g_ce: dict[int, Gradients] = {}
    g_auxiliary: dict[int, Gradients] = {}
    for exit in exits:
        m, auxiliary = exit.exit_index, exit.auxiliary
        # Logits distillation and CE share the graph of the classifier.
        retain = auxiliary is not None
        g_ce[m] = torch.autograd.grad(exit.ce, leaves, retain_graph=retain, allow_unused=True)
        if auxiliary is not None:
            g_auxiliary[m] = torch.autograd.grad(auxiliary, leaves, allow_unused=True)

    products = inner_products([([g_ce[m][m]], [g[m]]) for m, g in g_auxiliary.items()])
    decisions = {
        m: decide(f"h{model.exits[m]}", pair) for m, pair in zip(g_auxiliary, products, strict=True)
    }

    g_h: dict[int, Tensor] = {}  # the gradient at each exit's h, of all exits' losses
    for exit in exits:
        m, combined = exit.exit_index, g_ce[exit.exit_index]
        if m in decisions:
            weights = [decisions[m].outside] * len(leaves)
            weights[m] = decisions[m].inside
            combined = combine(g_ce[m], g_auxiliary[m], weights)
        scale = loss_scale * exit.weight
        for reached, gradient in enumerate(combined[: len(heads_inputs)]):
            if gradient is not None:
                scaled = gradient if scale == 1 else gradient * scale
                g_h[reached] = g_h[reached] + scaled if reached in g_h else scaled
        accumulate_gradients(classifiers, combined[len(heads_inputs) :], scale)
    g_h = {m: g for m, g in g_h.items() if representations[m].requires_grad}
    torch.autograd.backward([representations[m] for m in g_h], list(g_h.values()))
    return {model.exits[m]: decision for m, decision in decisions.items()}
