"""Common to the losses over vectors of known class: checks, precision, unit vectors."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce

import torch
from torch import Tensor


def widest(groups: Iterable[Tensor]) -> torch.dtype:
    """The precision to compute in: float32, or float64 if any of the tensors is."""
    return reduce(torch.promote_types, (group.dtype for group in groups), torch.float32)


def unit_rows(x: Tensor) -> Tensor:
    """z = x / ||x|| by row; 0, with gradient 0, where a row is too short to have a direction."""
    shortest = torch.finfo(x.dtype).eps
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    z: Tensor = x / norm.clamp_min(shortest)
    return z.masked_fill(norm <= shortest, 0.0)


def classes_of(label_embeddings: Tensor) -> Tensor:
    """Row k of the label embeddings is of class k."""
    return torch.arange(len(label_embeddings), device=label_embeddings.device)


def autocast_off(device: torch.device) -> AbstractContextManager[object]:
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def check_items(items: Mapping[str, tuple[Tensor, Tensor]], temperature: float) -> None:
    """Raise ValueError where the items do not fit together, or the temperature is not above 0.

    items: groups of vectors, (rows, d), with their classes, (rows,), by argument name.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    first, (reference, _) = next(iter(items.items()))
    for name, (group, classes) in items.items():
        if group.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(group.shape)}; it must be (rows, d)")
        if group.shape[1] != reference.shape[1]:
            raise ValueError(
                f"{name} has d = {group.shape[1]}, {first} has d = {reference.shape[1]}; "
                "all items need the same d"
            )
        if classes.shape != group.shape[:1] or classes.is_floating_point():
            raise ValueError(
                f"labels has shape {tuple(classes.shape)} and dtype {classes.dtype}; "
                f"{name} needs one integer for each of its {len(group)} rows"
            )
