"""The representations of some dev rows, kept for figures."""

from pathlib import Path

import numpy as np
import torch

from acl_bert.config.training import Training
from acl_bert.data.tokens import Split
from acl_bert.evaluation.depth import quarter_exits
from acl_bert.files import write_tensors
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import evaluation_batches, load_inputs

# More would crowd a figure, and take more room than the logits of all rows.
ROWS = 500


@torch.inference_mode()
def write_representations(
    model: EncoderClassifier, rows: Split, training: Training, path: Path
) -> None:
    """Write h of at most ROWS dev rows, spread evenly, and the label embeddings.

    Both at the first quarter's exit and at the last. `labels` is (n,), `h.<layer>` (n, hidden) and
    `label_embeddings.<layer>` (classes, hidden), float32.
    """
    model.eval()
    chosen = np.unique(np.linspace(0, len(rows) - 1, ROWS).round().astype(np.int64))
    wanted = {quarter_exits(model.exits[-1])[0], model.exits[-1]}
    tensors = {"labels": np.array(rows.targets)[chosen]}
    for layer, head in zip(model.exits, model.heads, strict=True):
        if layer in wanted:
            label_embeddings = head.label_embeddings.float().cpu().numpy()
            tensors[f"label_embeddings.{layer}"] = label_embeddings
            tensors[f"h.{layer}"] = np.empty((len(chosen), label_embeddings.shape[1]), np.float32)
    bf16 = training.precision == "bf16"
    for batch in evaluation_batches(rows.lengths[chosen], 2 * training.batch_size):
        inputs = load_inputs(rows, chosen[batch], model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            representations = model.represent(**inputs)
        for layer, h in zip(model.exits, representations, strict=True):
            if layer in wanted:
                tensors[f"h.{layer}"][batch] = h.float().cpu().numpy()
    write_tensors(path, tensors)
