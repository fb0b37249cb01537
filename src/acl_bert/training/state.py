"""Where a training is, and everything that changes on the way."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import RunningTargets
from acl_bert.training.checkpoints import Checkpoint
from acl_bert.training.history import GrowingCsv, History
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.stopwatch import Stopwatch

# The parts of a checkpoint's tensors, by prefix.
MODEL, BEST, OPTIMISER, HISTORY, RANDOM = "model.", "best.", "optimiser.", "history.", "random."


@dataclass(frozen=True)
class Best:
    """The epoch that the selection split prefers; the first of equals."""

    epoch: int
    value: float


@dataclass
class TrainingState:
    """A training under way. Its checkpoint, loaded into a fresh one, goes on with the same bits."""

    model: EncoderClassifier
    optimiser: Optimiser
    generator: np.random.Generator
    """Draws each epoch's batches."""
    targets: RunningTargets
    history: History
    epochs: GrowingCsv
    seconds: Stopwatch

    epoch: int = 1
    """Under way; beyond the last when all are done."""
    updates: int = 0
    """Done in this epoch."""
    order: dict[str, Any] = field(default_factory=dict)
    """The generator before it drew this epoch's batches."""
    best: Best | None = None
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    """Empty where the model has them."""
    interruptions: int = 0

    def begin_epoch(self) -> None:
        self.order = dict(self.generator.bit_generator.state)

    def end_epoch(self) -> None:
        self.epoch, self.updates = self.epoch + 1, 0
        self.begin_epoch()

    def checkpoint(self) -> Checkpoint:
        device = self.model.device
        random = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        tensors = {
            prefix + name: tensor
            for prefix, part in (
                (MODEL, self.model.state_dict()),
                (BEST, self.best_weights),
                (OPTIMISER, self.optimiser.tensors()),
                (HISTORY, self.history.tensors()),
                (RANDOM, random),
            )
            for name, tensor in part.items()
        }
        values = {
            "epoch": self.epoch,
            "updates": self.updates,
            "order": self.order,
            "best": asdict(self.best) if self.best else None,
            "schedule": self.optimiser.schedule_state(),
            "targets": self.targets.state_dict(),
            "history": self.history.values(),
            "files": {file.path.name: file.synced_size() for file in (self.history, self.epochs)},
            "seconds": self.seconds.state(),
            "interruptions": self.interruptions,
        }
        return Checkpoint(self.history.step, tensors, values)

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from there; the two files were opened at the length that it names."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            prefix, rest = name.split(".", 1)
            parts.setdefault(f"{prefix}.", {})[rest] = tensor
        values = checkpoint.values
        device = self.model.device
        self.model.load_state_dict(parts[MODEL])
        self.best_weights = {name: x.to(device) for name, x in parts.get(BEST, {}).items()}
        self.optimiser.load(parts.get(OPTIMISER, {}), values["schedule"])
        self.history.load(parts.get(HISTORY, {}), values["history"])
        torch.set_rng_state(parts[RANDOM]["cpu"])
        if "cuda" in parts[RANDOM]:
            torch.cuda.set_rng_state(parts[RANDOM]["cuda"], device)
        self.targets.load_state_dict(values["targets"])
        self.epoch, self.updates, self.order = values["epoch"], values["updates"], values["order"]
        self.generator.bit_generator.state = self.order
        self.best = Best(**values["best"]) if values["best"] else None
        self.seconds.go_on(values["seconds"])
        self.interruptions = values["interruptions"] + 1


def kept_length(checkpoint: Checkpoint | None, path: Path) -> int:
    """How many bytes of a growing file are the checkpoint's; none without one."""
    return int(checkpoint.values["files"][path.name]) if checkpoint else 0


def has_its_files(checkpoint: Checkpoint, folder: Path) -> bool:
    """Whether the files that grew beside it are still as long as they were."""
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size >= size
        for name, size in checkpoint.values["files"].items()
    )
