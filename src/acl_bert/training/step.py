"""One training step: from a mini-batch to the gradients on the parameters.

Each exit m that learns has the loss

    L_m = w_ce · CE_m + λ · aux_m,    or CE_m alone where it has no auxiliary loss,

and a step descends Σ_m w_m · L_m. The exits' losses are computed in `exit_losses.py`. Without a
gate there is one backward pass of the sum. A gate compares the gradients of CE and aux, and may
change w_ce and λ of the step: those of each exit by itself (`gate_over_representations.py`), or
those of all exits together (`gate_over_parameters.py`). See docs/paper.md §2.4 and §2.7.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from acl_bert.config.method import Method
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import GateDecision, InnerProducts, RunningTargets, Weights, decide
from acl_bert.training.exit_losses import ExitOutput, exit_outputs, sum_auxiliary, sum_ce
from acl_bert.training.gate_over_parameters import gate_over_parameters
from acl_bert.training.gate_over_representations import gate_over_representations
from acl_bert.training.regimes import ExitLoss
from acl_bert.training.teacher import TeacherItems


def total_loss(exits: Sequence[ExitOutput], weights: Sequence[Weights]) -> Tensor:
    """Σ_m w_m · (w_ce · CE_m + λ · aux_m), with a pair (w_ce, λ) for each exit.

    A loss of weight 0 is left out, even one that is not finite.
    """
    losses = []
    for exit, (w_ce, lambda_) in zip(exits, weights, strict=True):
        loss = exit.ce
        if exit.auxiliary is not None:
            pairs = ((w_ce, exit.ce), (lambda_, exit.auxiliary))
            loss = torch.stack([weight * value for weight, value in pairs if weight]).sum()
        losses.append(exit.weight * loss)
    return torch.stack(losses).sum()


@dataclass(frozen=True)
class StepRecord:
    """A step's values for the history; tensors, so that a GPU is not waited for.

    Losses are sums over the exits that learn, each with its weight w_m.
    """

    loss: Tensor
    """The total loss, with the weights that the gate gave to parameters outside its scope."""
    ce: Tensor
    auxiliary: Tensor | None = None
    gates: dict[int, GateDecision] = field(default_factory=dict)
    """The gates' decisions by exit layer; a gate over parameters stands at the last layer."""
    at_h: GateDecision | None = None
    """What a gate over parameters would have decided over h."""


def training_step(
    model: EncoderClassifier,
    inputs: dict[str, Tensor],
    labels: Tensor,
    method: Method,
    exit_losses: Sequence[ExitLoss],
    teacher: TeacherItems | None = None,
    precision: str = "fp32",
    loss_scale: float = 1.0,
    targets: RunningTargets | None = None,
) -> StepRecord:
    """Add `loss_scale` times the gradient of a mini-batch to the parameters' `.grad`.

    `inputs` and `labels`: as `load_batch` gives them. `exit_losses`: the exits that learn.
    `teacher`: there where the method has a frozen teacher. `targets`: those of the gate mode
    gradvac, which each step moves.
    """
    with torch.autocast(labels.device.type, torch.bfloat16, enabled=precision == "bf16"):
        representations = model.represent(**inputs)
    gate, heads_inputs = method.gate, representations
    if gate.mode != "off" and gate.scope == "representation":
        heads_inputs = [h.detach().requires_grad_() for h in representations]
    exits = exit_outputs(model, heads_inputs, labels, method, exit_losses, teacher)

    def decide_on(name: str, products: InnerProducts) -> GateDecision:
        target = 0.0
        if gate.mode == "gradvac":
            assert targets is not None
            target = targets[name]
            targets.follow(name, products.cosine)
        return decide(products, gate.mode, method.ce_weight, method.weight, gate.threshold, target)

    weights = [Weights(method.ce_weight, method.weight)] * len(exits)
    gates: dict[int, GateDecision] = {}
    at_h = None
    if gate.mode == "off":
        (total_loss(exits, weights) * loss_scale).backward()
    elif gate.scope == "representation":
        gates = gate_over_representations(
            model, representations, heads_inputs, exits, decide_on, loss_scale
        )
        layers = [model.exits[exit.exit_index] for exit in exits]
        weights = [
            gates[layer].outside if layer in gates else plain
            for layer, plain in zip(layers, weights, strict=True)
        ]
    else:
        decision, at_h = gate_over_parameters(model, exits, gate.scope, decide_on, loss_scale)
        if decision:
            gates, weights = {model.exits[-1]: decision}, [decision.outside] * len(exits)
    with torch.no_grad():
        loss, ce, auxiliary = total_loss(exits, weights), sum_ce(exits), sum_auxiliary(exits)
    return StepRecord(loss, ce, auxiliary, gates, at_h)
