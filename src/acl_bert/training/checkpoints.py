"""Where a training stands, kept in files, so that it can go on where it was cut short."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from acl_bert.errors import first_line
from acl_bert.files import write_tensors

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that changes while a run trains."""

    update: int
    """Updates done."""
    tensors: dict[str, Tensor]
    values: dict[str, Any]
    """What is JSON."""


class Checkpoints:
    """The last two checkpoints of one training, one file each, in a folder of their own.

    Two, since the newest may be torn. Each names the code that made it (`code`): one of other code
    is not gone on from, since the run would be of neither. `guard` raises where this process may
    not write any more.
    """

    def __init__(self, folder: Path, minutes: float, code: str, guard: Callable[[], None]) -> None:
        self._folder = folder
        self._interval = 60 * minutes
        self._code = code
        self._guard = guard
        self._last = time.monotonic()
        self._whole: Path | None = None  # the last one that was written, or gone on from

    @property
    def due(self) -> bool:
        """Whether the interval has passed since the last one, or since the start."""
        return time.monotonic() - self._last >= self._interval

    def write(self, checkpoint: Checkpoint) -> None:
        """In the place of all but the last whole one.

        Raises OSError, naming the file, where it cannot be written.
        """
        self._guard()
        for path in self._folder.glob("*"):  # also what a kill left half written
            if path != self._whole and path.is_file():
                path.unlink()
        tensors = {name: x.detach().cpu().contiguous() for name, x in checkpoint.tensors.items()}
        state = json.dumps(checkpoint.values, allow_nan=False)
        metadata = {"code": self._code, "state": state, "digest": _digest(tensors, state)}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        path = self._folder / f"{checkpoint.update:09d}.safetensors"
        write_tensors(path, arrays, metadata)
        self._last, self._whole = time.monotonic(), path

    def newest(self) -> Iterator[Checkpoint]:
        """The newest one that is whole; asked again, the one before it.

        What cannot be used is left out with a warning.
        """
        for path in sorted(self._folder.glob("*.safetensors"), reverse=True):
            try:
                with safe_open(path, "pt") as file:
                    metadata = file.metadata() or {}
                    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            except (OSError, SafetensorError) as error:
                logger.warning("%s: a torn checkpoint (%s), left out", path, first_line(error))
                continue
            state = metadata.get("state", "")
            if metadata.get("digest") != _digest(tensors, state):
                logger.warning("%s: a damaged checkpoint, left out", path)
            elif metadata.get("code") != self._code:
                logger.warning("%s: a checkpoint of another version of the code, left out", path)
            else:
                self._whole = path
                yield Checkpoint(int(path.stem), tensors, json.loads(state))
        self._whole = None

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
