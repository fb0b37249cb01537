"""A teacher's outputs over its training rows: computed once, read by every student's steps."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import InputError, first_line
from acl_bert.files import write_tensors
from acl_bert.model.build import load_model
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import evaluation_batches, load_inputs


class TeacherItems(NamedTuple):
    """The outputs of the teacher's exit for a batch of rows."""

    representations: Tensor
    """h^M, (batch, hidden)."""
    logits: Tensor
    """(batch, classes)."""
    label_embeddings: Tensor
    """l^M, (classes, hidden)."""


Teacher = Callable[[np.ndarray], TeacherItems]
"""From the numbers of training rows to the teacher's items of these rows."""


@torch.no_grad()
def teacher_items(model: EncoderClassifier, inputs: dict[str, Tensor]) -> TeacherItems:
    """The outputs of a teacher's last exit for a batch; `model` is in evaluation mode."""
    h = model.represent(**inputs)[-1]
    head = model.heads[-1]
    return TeacherItems(h, head.classify(h), head.label_embeddings.detach())


def write_teacher_outputs(
    model_folder: Path, tokens: TokenStore, training: Training, path: Path
) -> None:
    """Write the teacher's representations, logits and label embeddings over train to `path`.

    `training`: resolved; its batch size, precision, device and threads are used. Raises InputError
    where the folder holds no model.
    """
    torch.set_num_threads(training.threads)
    model = load_model(model_folder).to(training.device)  # type: ignore[arg-type]
    rows = tokens.split("train")
    label_embeddings = model.heads[-1].label_embeddings.detach().cpu().numpy()
    classes, hidden = label_embeddings.shape
    outputs = {
        "representations": np.empty((len(rows), hidden), np.float32),
        "logits": np.empty((len(rows), classes), np.float32),
    }
    for batch in evaluation_batches(rows.lengths, 2 * training.batch_size):
        inputs = load_inputs(rows, batch, model.device)
        bf16 = training.precision == "bf16"
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            items = teacher_items(model, inputs)
        for name, array in outputs.items():
            array[batch] = getattr(items, name).float().cpu().numpy()
    write_tensors(path, outputs | {"label_embeddings": label_embeddings})


def read_teacher_outputs(path: Path, device: torch.device) -> Teacher:
    """A teacher that looks up what `write_teacher_outputs` wrote, which it holds in memory.

    Raises InputError where the file cannot be read.
    """
    try:
        return cached_teacher(TeacherItems(**load_file(path)), device)
    except (OSError, SafetensorError, TypeError) as error:
        raise InputError(
            f"{path}: cannot be read ({first_line(error)}); remove it: it is made again"
        ) from error


def cached_teacher(all_rows: TeacherItems, device: torch.device) -> Teacher:
    """A teacher that looks its items up in those of all training rows."""
    label_embeddings = all_rows.label_embeddings.to(device)

    def look_up(rows: np.ndarray) -> TeacherItems:
        chosen = torch.from_numpy(rows)
        h, logits = all_rows.representations[chosen], all_rows.logits[chosen]
        return TeacherItems(h.to(device), logits.to(device), label_embeddings)

    return look_up
