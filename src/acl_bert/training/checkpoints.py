"""Where a training stands, kept in files, so that it can go on where it was cut short."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

import acl_bert
from acl_bert.errors import first_line
from acl_bert.files import content_hash, write_tensors

KEPT = 2
# Of the package: what a training's numbers come from, but for its settings and its rows.
CODE = ("model", "objectives", "training")

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

    Two, since the newest may be torn. Each names the code that made it: one of other code is not
    gone on from, since the run would be of neither.
    """

    def __init__(self, folder: Path, minutes: float) -> None:
        self._folder = folder
        self._interval = 60 * minutes
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the interval has passed since the last one, or since the start."""
        return time.monotonic() - self._last >= self._interval

    def write(self, checkpoint: Checkpoint) -> None:
        """Raises OSError, naming the file, where it cannot be written."""
        for path in self._files()[1:]:
            path.unlink()
        tensors = {name: x.detach().cpu().contiguous() for name, x in checkpoint.tensors.items()}
        state = json.dumps(checkpoint.values, allow_nan=False)
        metadata = {"code": _code(), "state": state, "digest": _digest(tensors, state)}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        write_tensors(self._folder / f"{checkpoint.update:09d}.safetensors", arrays, metadata)
        self._last = time.monotonic()

    def newest(self) -> Iterator[Checkpoint]:
        """The newest one that is whole; asked again, the one before it.

        What cannot be used is left out with a warning.
        """
        for path in self._files():
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
            elif metadata.get("code") != _code():
                logger.warning("%s: a checkpoint of another version of the code, left out", path)
            else:
                yield Checkpoint(int(path.stem), tensors, json.loads(state))

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        """The newest first."""
        return sorted(self._folder.glob("*.safetensors"), reverse=True)


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _code() -> str:
    """A hash of the code that trains, and of the libraries that compute."""
    package = Path(acl_bert.__file__).parent
    files = [path for name in CODE for path in sorted((package / name).glob("**/*.py"))]
    libraries = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    return " ".join([content_hash(files), *libraries])
