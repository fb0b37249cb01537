"""The state of a training: everything that changes on the way."""

from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True)
class Best:
    """The epoch with the highest score on the selection split; the first of equals."""

    value: float
    epoch: int


@dataclass
class TrainingState:
    """A training in progress. Its checkpoint, loaded into a fresh one, goes on bit for bit."""

    model: EncoderClassifier
    optimiser: Optimiser
    generator: np.random.Generator
    """Draws each epoch's batches."""
    history: History
    epochs: GrowingCsv
    seconds: Stopwatch

    targets: RunningTargets = field(default_factory=RunningTargets)
    epoch: int = 1
    """The current one; beyond the last when all are done."""
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
        groups = {
            "model": self.model.state_dict(),
            "best": self.best_weights,
            "optimiser": self.optimiser.tensors(),
            "history": self.history.tensors(),
            "random": random,
        }
        values = {
            "epoch": self.epoch,
            "updates": self.updates,
            "order": self.order,
            "best": asdict(self.best) if self.best else None,
            "schedule": self.optimiser.schedule_state(),
            "targets": dict(self.targets),
            "history": self.history.values(),
            "files": {file.path.name: file.synced_size() for file in (self.history, self.epochs)},
            "seconds": self.seconds.state(),
            "interruptions": self.interruptions,
        }
        tensors = {f"{group}.{name}": x for group in groups for name, x in groups[group].items()}
        return Checkpoint(self.history.step, tensors, values)

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from there; the two files were opened at the length that it names."""
        groups: dict[str, dict[str, Tensor]] = {"best": {}, "optimiser": {}}
        for key, tensor in checkpoint.tensors.items():
            group, name = key.split(".", 1)
            groups.setdefault(group, {})[name] = tensor
        values, random = checkpoint.values, groups["random"]
        device = self.model.device
        self.model.load_state_dict(groups["model"])
        self.best_weights = {name: x.to(device) for name, x in groups["best"].items()}
        self.optimiser.load(groups["optimiser"], values["schedule"])
        self.history.load(groups["history"], values["history"])
        torch.set_rng_state(random["cpu"])
        if "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], device)
        self.targets = RunningTargets(values["targets"])
        self.epoch, self.updates, self.order = values["epoch"], values["updates"], values["order"]
        self.generator.bit_generator.state = self.order
        self.best = Best(**values["best"]) if values["best"] else None
        self.seconds.go_on(values["seconds"])
        self.interruptions = values["interruptions"] + 1
