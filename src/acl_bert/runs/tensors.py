"""The tensor files of a run: logits of every exit, and representations of some dev rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from acl_bert.errors import InputError

if TYPE_CHECKING:  # every verb and the Snakefile import this module: NumPy when it is needed
    import numpy as np


@dataclass(frozen=True)
class Representations:
    """What some exits make of some dev rows, by layer; `representations.safetensors`."""

    labels: "np.ndarray"
    """(rows,), class numbers."""
    h: "dict[int, np.ndarray]"
    """(rows, hidden), float32."""
    label_embeddings: "dict[int, np.ndarray]"
    """(classes, hidden), float32."""


def read_logits(path: Path, exits: int) -> "dict[str, tuple[np.ndarray, np.ndarray]]":
    """By dev set: every exit's logits, (rows, exits, classes) float32, and labels, (rows,).

    Raises InputError where the file is absent or torn, or is of another number of exits.
    """
    tensors = _load_tensors(path)
    sets = {}
    for name in (key.removesuffix(".logits") for key in tensors if key.endswith(".logits")):
        logits, labels = tensors[f"{name}.logits"], tensors.get(f"{name}.labels")
        if labels is None or logits.shape[:2] != (len(labels), exits):
            raise InputError(
                f"{path}: {name} is not of {exits} exits, or of other rows; run it again"
            )
        sets[name] = (logits, labels)
    return sets


def read_representations(path: Path) -> Representations:
    """Raises InputError where the file is absent or torn, or lacks some of its tensors."""
    tensors = _load_tensors(path)
    by_layer: dict[str, dict[int, np.ndarray]] = {"h": {}, "label_embeddings": {}}
    for name, tensor in tensors.items():
        kind, _, layer = name.partition(".")
        if kind in by_layer:
            by_layer[kind][int(layer)] = tensor
    if "labels" not in tensors or by_layer["h"].keys() != by_layer["label_embeddings"].keys():
        raise InputError(f"{path}: lacks labels, h or label_embeddings; run it again")
    return Representations(tensors["labels"], **by_layer)


def _load_tensors(path: Path) -> "dict[str, np.ndarray]":
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run it again") from error
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise InputError(f"{path}: {name} holds numbers that are not finite; run it again")
    return tensors
