"""AdamW with a linear warm-up and decay, as BERT is fine-tuned."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from acl_bert.config.training import Training


@torch.no_grad()
def accumulate_gradients(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor | None], scale: float
) -> None:
    """Add `scale` times each gradient to its parameter's `.grad`, as `backward()` would."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            if scale != 1:
                gradient = gradient * scale
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class Optimiser:
    """Clipping, AdamW and its schedule over `steps` updates.

    Weight decay leaves out vectors: the biases, and LayerNorm's parameters.
    """

    def __init__(self, model: nn.Module, training: Training, steps: int) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._clip_norm = training.max_grad_norm
        matrices = [p for p in self._parameters if p.dim() > 1]
        vectors = [p for p in self._parameters if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": training.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.adamw = torch.optim.AdamW(groups, lr=training.learning_rate, fused=True)
        warmup = round(training.warmup_ratio * steps)

        # Not transformers' schedule of the same shape: importing it takes longer than a short run.
        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / (warmup + 1)
            return (steps - step) / max(1, steps - warmup)

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adamw, factor)

    @property
    def learning_rate(self) -> float:
        """Of the next update."""
        return float(self.schedule.get_last_lr()[0])

    def update(self) -> Tensor:
        """One update from the parameters' gradients, which it clears; returns their norm."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self.adamw.step()
        self.schedule.step()
        self.adamw.zero_grad()
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """The moments and the count of updates, by the parameter's number."""
        return {
            f"{number}.{name}": value
            for number, parameter in enumerate(self._parameters)
            for name, value in self.adamw.state[parameter].items()
        }

    def schedule_state(self) -> dict[str, Any]:
        state = self.schedule.state_dict()
        return {name: state[name] for name in ("last_epoch", "_step_count", "_last_lr")}

    def load(self, tensors: Mapping[str, Tensor], schedule: Mapping[str, Any]) -> None:
        """Go on from what `tensors` and `schedule_state` returned."""
        for key, value in tensors.items():
            number, name = key.split(".")
            parameter = self._parameters[int(number)]
            self.adamw.state[parameter][name] = value.to(parameter.device)
        self.schedule.load_state_dict(self.schedule.state_dict() | dict(schedule))
        for group, rate in zip(self.adamw.param_groups, schedule["_last_lr"], strict=True):
            group["lr"] = rate
