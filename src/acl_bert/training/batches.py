"""Batches: which rows are together in one, and their tensors on the device."""

import numpy as np
import torch
from torch import Tensor

from acl_bert.data.tokens import Split

POOL = 64  # batches; lengths are matched among the rows of so many, which stays random enough


def train_batches(
    lengths: np.ndarray, batch_size: int, grouped: bool, generator: np.random.Generator
) -> list[np.ndarray]:
    """One epoch's batches of row numbers, every row once, in a random order.

    Grouped: rows are shuffled, then sorted by length within pools of POOL batches, so that a batch
    holds rows of similar length and little padding.
    """
    order = generator.permutation(len(lengths))
    if grouped:
        pools = np.split(order, range(POOL * batch_size, len(order), POOL * batch_size))
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    batches = np.split(order, range(batch_size, len(order), batch_size))
    if grouped:
        batches = [batches[i] for i in generator.permutation(len(batches))]
    return batches


def evaluation_batches(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """All rows in batches of similar length, the longest first: too little memory fails at once."""
    order = np.argsort(-lengths, kind="stable")
    return np.split(order, range(batch_size, len(order), batch_size))


def load_inputs(split: Split, rows: np.ndarray, device: torch.device) -> dict[str, Tensor]:
    """The model's inputs, each (batch, length), on the device."""
    return {name: torch.from_numpy(array).to(device) for name, array in split.batch(rows).items()}


def load_batch(
    split: Split, rows: np.ndarray, device: torch.device
) -> tuple[dict[str, Tensor], Tensor]:
    """The model's inputs, and the labels, (batch,), on the device."""
    inputs = load_inputs(split, rows, device)
    return inputs, torch.from_numpy(split.targets[rows]).to(device)
