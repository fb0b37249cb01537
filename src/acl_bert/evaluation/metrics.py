"""GLUE's metrics (docs/paper.md §3.4), as fractions, of one set of predictions or of many.

All are functions of confusion matrices, (…, classes, classes), label by prediction. scikit-learn
has the same numbers for one set at a time: early exiting has a hundred thresholds a run, for which
it takes two hundred times as long. A test compares the two.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np


def confusion(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """labels (items,), predictions (items, …) → counts, (…, classes, classes)."""
    sets = predictions.reshape(len(labels), -1)
    entries = (labels[:, None] * classes + sets) + classes**2 * np.arange(sets.shape[1])
    counts = np.bincount(entries.ravel(), minlength=classes**2 * sets.shape[1])
    return counts.reshape(*predictions.shape[1:], classes, classes)


def _accuracy(counts: np.ndarray) -> np.ndarray:
    return np.trace(counts, axis1=-2, axis2=-1) / counts.sum(axis=(-2, -1))


def _f1(counts: np.ndarray) -> np.ndarray:
    """Of class 1, GLUE's positive class; 0 where it is never predicted."""
    right = 2 * counts[..., 1, 1]
    return right / np.maximum(counts[..., 1, :].sum(axis=-1) + counts[..., :, 1].sum(axis=-1), 1)


def _matthews(counts: np.ndarray) -> np.ndarray:
    """Of any number of classes (Gorodkin's R_K); 0 where one is predicted throughout."""
    items, right = counts.sum(axis=(-2, -1)), np.trace(counts, axis1=-2, axis2=-1)
    labelled, predicted = counts.sum(axis=-1), counts.sum(axis=-2)
    shared = right * items - (labelled * predicted).sum(axis=-1)
    spreads = [np.sqrt(items**2 - (some**2).sum(axis=-1)) for some in (labelled, predicted)]
    return shared / np.maximum(spreads[0] * spreads[1], 1)


def _accuracy_f1(counts: np.ndarray) -> np.ndarray:
    return (_accuracy(counts) + _f1(counts)) / 2


METRICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "accuracy_f1": _accuracy_f1,
    "matthews": _matthews,
}


def score(
    logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str], suffix: str = ""
) -> dict[str, float]:
    """The named metrics of logits, (items, classes), against labels, (items,)."""
    counts = confusion(labels, logits.argmax(axis=1), logits.shape[1])
    return {name + suffix: float(METRICS[name](counts)) for name in metrics}


def exit_scores(
    logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str], suffix: str = ""
) -> list[dict[str, float]]:
    """`score` of each exit's logits: (items, exits, classes)."""
    return [score(exit, labels, metrics, suffix) for exit in logits.swapaxes(0, 1)]


def mean_over_exits(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric, by which a model of several exits is chosen."""
    return {name: fmean(exit[name] for exit in scores) for name in scores[0]}


def is_degenerate(logits: np.ndarray, labels: np.ndarray) -> bool:
    """One class predicted throughout, or a Matthews correlation of exactly 0."""
    return score(logits, labels, ["matthews"])["matthews"] == 0
