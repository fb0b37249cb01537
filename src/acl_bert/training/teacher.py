"""What a teacher makes of its training rows: computed once, read by every student's steps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class TeacherItems:
    """The teacher exit's side of a batch."""

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
    """What a teacher, in evaluation mode, makes of a batch at its last exit."""
    h = model.represent(**inputs)[-1]
    head = model.heads[-1]
    return TeacherItems(h, head.classify(h), head.label_embeddings.detach())


def write_teacher_outputs(
    model_folder: Path, tokens: TokenStore, training: Training, path: Path
) -> None:
    """Write the teacher's representations, logits and label embeddings over train to `path`.

    `training`: settled; its batch size, precision, device and threads are used. Raises InputError
    where the folder holds no model.
    """
    torch.set_num_threads(training.threads)
    model = load_model(model_folder).to(training.device)  # type: ignore[arg-type]
    rows = tokens.split("train")
    parts: dict[str, np.ndarray] = {}
    for batch in evaluation_batches(rows.lengths, 2 * training.batch_size):
        inputs = load_inputs(rows, batch, model.device)
        bf16 = training.precision == "bf16"
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            items = teacher_items(model, inputs)
        for name, some in (("representations", items.representations), ("logits", items.logits)):
            values = some.float().cpu().numpy()
            parts.setdefault(name, np.empty((len(rows), values.shape[1]), np.float32))[batch] = (
                values
            )
    parts["label_embeddings"] = model.heads[-1].label_embeddings.detach().cpu().contiguous().numpy()
    write_tensors(path, parts)


class CachedTeacher:
    """A `Teacher` that looks its items up, in memory: those of all training rows."""

    def __init__(self, every_row: TeacherItems, device: torch.device) -> None:
        self._every = every_row
        self._label_embeddings = every_row.label_embeddings.to(device)
        self._device = device

    def __call__(self, rows: np.ndarray) -> TeacherItems:
        chosen = torch.from_numpy(rows)
        return TeacherItems(
            self._every.representations[chosen].to(self._device),
            self._every.logits[chosen].to(self._device),
            self._label_embeddings,
        )


def read_teacher_outputs(path: Path, device: torch.device) -> CachedTeacher:
    """What `write_teacher_outputs` wrote. Raises InputError where the file cannot be read."""
    try:
        return CachedTeacher(TeacherItems(**load_file(path)), device)
    except (OSError, SafetensorError, TypeError) as error:
        raise InputError(
            f"{path}: cannot be read ({first_line(error)}); remove it: it is made again"
        ) from error
