"""AdamW with a linear warm-up and decay, as BERT is fine-tuned."""

import torch
from torch import nn

from acl_bert.settings.training import Training


def build_optimiser(
    model: nn.Module, training: Training, steps: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """The optimiser and its schedule over `steps` updates; no weight decay on vectors.

    Vectors are the biases and LayerNorm's parameters.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": training.weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=training.learning_rate, fused=True)
    warmup = round(training.warmup * steps)

    # Not transformers' schedule of the same shape: importing it takes longer than a short run.
    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return (steps - step) / max(1, steps - warmup)

    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
