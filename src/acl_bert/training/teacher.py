"""What a teacher makes of its training rows: computed once, read by every student's steps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from acl_bert.errors import InputError, first_line
from acl_bert.files import write_tensors
from acl_bert.model.build import load_model
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.files import RunFolder
from acl_bert.settings.training import Training
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training.batches import evaluation_batches, load_inputs

TRAINING, TOKENS = "training", "tokens"  # the file's keys: which training made it, of which rows


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


def load_teacher(folder: Path) -> EncoderClassifier:
    """The model that a teacher's run kept. Raises InputError where there is none."""
    run = RunFolder(folder)
    if not run.finished or not run.model_path.is_dir():
        raise InputError(
            f"{run.model_path}: no such model; a student needs its teacher's: run the teacher "
            "first, `python -m acl_bert finetune --method <teacher>` with the same task and seed"
        )
    return load_model(run.model_path)


def check_teacher(folder: Path, tokens: TokenStore) -> None:
    """Raise InputError where the teacher's run learned from other rows, or another encoder.

    Its rows may then be those that are held out to choose the student's epoch.
    """
    config = RunFolder(folder).config()
    described = {
        "tokens_fingerprint": tokens.description["fingerprint"],
        "encoder_fingerprint": tokens.description["encoder_fingerprint"],
    }
    if any(config.get(name) != value for name, value in described.items()):
        raise InputError(
            f"{folder}: this teacher was trained on other rows, or from another encoder, than its "
            "student would be; run the teacher again"
        )


def _training_of(folder: Path) -> str:
    """What tells a teacher's training from any other, an equal one at another time included."""
    run = RunFolder(folder)
    return f"{run.run_hash} {run.timings()['started']}"


@torch.no_grad()
def teacher_items(model: EncoderClassifier, inputs: dict[str, Tensor]) -> TeacherItems:
    """What a teacher, in evaluation mode, makes of a batch at its last exit."""
    h = model.represent(**inputs)[-1]
    head = model.heads[-1]
    return TeacherItems(h, head.classify(h), head.label_embeddings.detach())


def write_teacher_outputs(
    teacher_run: Path, tokens: TokenStore, training: Training, path: Path
) -> None:
    """Write the teacher's representations, logits and label embeddings over train to `path`.

    `training`: settled; its batch size, precision and device are used. Raises InputError where the
    run kept no model, or learned from other rows.
    """
    check_teacher(teacher_run, tokens)
    model = load_teacher(teacher_run).to(training.device)  # type: ignore[arg-type]
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
    metadata = {
        TRAINING: _training_of(teacher_run),
        TOKENS: str(tokens.description["fingerprint"]),
    }
    write_tensors(path, parts, metadata)


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


def read_teacher_outputs(
    path: Path, teacher_run: Path, tokens: TokenStore, device: torch.device
) -> CachedTeacher:
    """What `write_teacher_outputs` wrote.

    Raises InputError where the file is absent, or of another training or of other rows.
    """
    remedy = "make it again: `python -m acl_bert teacher-outputs` for the teacher's method and seed"
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({first_line(error)}); {remedy}") from error
    wanted = {TRAINING: _training_of(teacher_run), TOKENS: tokens.description["fingerprint"]}
    if wrong := [name for name, value in wanted.items() if metadata.get(name) != value]:
        raise InputError(f"{path}: of another {' and other '.join(wrong)}; {remedy}")
    return CachedTeacher(TeacherItems(**tensors), device)
