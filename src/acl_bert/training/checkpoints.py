"""Checkpoints: the state of a training in a file, from which an interrupted one goes on."""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from acl_bert.errors import first_line
from acl_bert.files import write_tensors

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that changes while a run trains."""

    update: int
    """Updates done."""
    tensors: dict[str, Tensor]
    values: dict[str, Any]
    """All that JSON can hold."""


class Checkpoints:
    """The newest checkpoint of one training, in the file `path`, which is replaced as a whole.

    The run's folder belongs to one key and one code, so that a checkpoint in it always fits.
    `guard` raises where this process may not write any more.
    """

    def __init__(self, path: Path, minutes: float, guard: Callable[[], None]) -> None:
        self._path = path
        self._interval = 60 * minutes
        self._guard = guard
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the interval has passed since the last one, or since the start."""
        return time.monotonic() - self._last >= self._interval

    def write(self, checkpoint: Checkpoint) -> None:
        """Raises OSError where it cannot be written; the one before it stays."""
        self._guard()
        tensors = {
            name: x.detach().cpu().contiguous().numpy() for name, x in checkpoint.tensors.items()
        }
        state = json.dumps(checkpoint.values, allow_nan=False)
        digest = _digest(tensors, state)
        metadata = {"update": str(checkpoint.update), "state": state, "digest": digest}
        write_tensors(self._path, tensors, metadata)
        self._last = time.monotonic()

    def read(self) -> Checkpoint | None:
        """None where there is none; one that cannot be used is left out with a warning."""
        if not self._path.is_file():
            return None
        try:
            with safe_open(self._path, "np") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = metadata.get("state", "")
            if metadata.get("digest") != _digest(tensors, state):
                raise OSError("its content is not what was written")
        except (OSError, SafetensorError) as error:
            reason = first_line(error)
            logger.warning("%s: a damaged checkpoint (%s), left out", self._path, reason)
            return None
        as_tensors = {name: torch.from_numpy(x) for name, x in tensors.items()}
        return Checkpoint(int(metadata["update"]), as_tensors, json.loads(state))

    def remove(self) -> None:
        """Remove it once the run is finished, with what a kill left half written."""
        for path in self._path.parent.glob(f"*{self._path.name}*"):
            path.unlink(missing_ok=True)


def _digest(tensors: Mapping[str, np.ndarray], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
