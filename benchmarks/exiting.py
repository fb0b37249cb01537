"""Early exiting for real, against the full model's plain forward pass."""

import time

import numpy as np
import torch
from measuring import Figures, Setup, in_turns
from steps import build_ours

from acl_bert.evaluation.early_exit import criterion_values
from acl_bert.inference.predict import Rule, exit_early, full_logits
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import evaluation_batches, load_batch

ROWS = {32: 256, 1: 32}  # by batch size: so many rows a round
SHARE = 0.3  # of the exits' entropies that lie below the threshold: about half the layers run


@torch.inference_mode()
def speedups(setup: Setup, batch_size: int) -> tuple[Figures, float]:
    """Seconds of the full model and of early exiting on the same rows, and the layer speed-up.

    What the exits say is of no matter here, only that samples leave at every one of them.
    """
    model = build_ours(setup, every_layer=True).eval()
    rows = np.random.default_rng(0).choice(len(setup.rows), ROWS[batch_size], replace=False)
    batches = [
        load_batch(setup.rows, rows[some], setup.device)[0]
        for some in evaluation_batches(setup.rows.lengths[rows], batch_size)
    ]
    _spread(model, batches)
    logits = np.concatenate([model(**batch).logits.cpu().numpy() for batch in batches])
    entropies = criterion_values("entropy", logits, model.exits)[:, :-1]
    rule = Rule("entropy", float(np.quantile(entropies, SHARE)))
    taken = np.concatenate([exit_early(model, batch, rule)[1] for batch in batches])

    def full(_: int) -> float:
        start = time.perf_counter()
        for batch in batches:
            full_logits(model, batch)
        return time.perf_counter() - start

    def early(_: int) -> float:
        start = time.perf_counter()
        for batch in batches:
            exit_early(model, batch, rule)
        return time.perf_counter() - start

    figures = in_turns({"full": full, "early": early}, setup.rounds)
    return figures, float(model.exits[-1] / taken.mean())


def _spread(model: EncoderClassifier, batches: list[dict[str, torch.Tensor]]) -> None:
    """Make every untrained exit sure of some rows and not of others, as a trained one is."""
    every = [torch.cat(h) for h in zip(*(model.represent(**b) for b in batches), strict=True)]
    for head, h in zip(model.heads, every, strict=True):
        logits = h @ head.classifier.weight.T
        head.classifier.weight.mul_(2 / logits.std(dim=0).mean())
        head.classifier.bias.copy_(-(h @ head.classifier.weight.T).mean(dim=0))
