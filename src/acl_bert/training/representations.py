"""What a trained model makes of some dev rows, kept for looking at its representations."""

from pathlib import Path

import numpy as np
import torch

from acl_bert.config.training import Training
from acl_bert.data.tokens import Split
from acl_bert.evaluation.depth import quarter_exits
from acl_bert.files import write_tensors
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import evaluation_batches, load_inputs

# More would make a crowd of a picture, and weigh more than the logits of all rows.
ROWS = 500


@torch.inference_mode()
def write_representations(
    model: EncoderClassifier, rows: Split, training: Training, path: Path
) -> None:
    """Write h of at most ROWS dev rows, spread evenly, and the label embeddings.

    Of the first quarter's exit and of the last. `labels` is (n,), `h.<layer>` (n, hidden) and
    `label_embeddings.<layer>` (classes, hidden), float32.
    """
    model.eval()
    chosen = np.unique(np.linspace(0, len(rows) - 1, ROWS).round().astype(np.int64))
    wanted = {quarter_exits(model.exits[-1])[0], model.exits[-1]}
    places = [place for place, layer in enumerate(model.exits) if layer in wanted]
    hidden = model.heads[-1].label_embeddings.shape[1]
    h = {place: np.empty((len(chosen), hidden), dtype=np.float32) for place in places}
    bf16 = training.precision == "bf16"
    for batch in evaluation_batches(rows.lengths[chosen], 2 * training.batch_size):
        inputs = load_inputs(rows, chosen[batch], model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            made = model.represent(**inputs)
        for place in places:
            h[place][batch] = made[place].float().cpu().numpy()
    tensors = {"labels": np.array(rows.targets)[chosen]}
    for place in places:
        layer = model.exits[place]
        tensors[f"h.{layer}"] = h[place]
        label_embeddings = model.heads[place].label_embeddings
        tensors[f"label_embeddings.{layer}"] = label_embeddings.float().cpu().numpy()
    write_tensors(path, tensors)
