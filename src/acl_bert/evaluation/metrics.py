"""GLUE's metrics, as fractions."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np


def _accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(labels, predictions))


def _f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Of class 1, GLUE's positive class; 0 where it is never predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predictions, zero_division=0.0))


def _matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels, predictions))


def _accuracy_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    return (_accuracy(labels, predictions) + _f1(labels, predictions)) / 2


# scikit-learn takes longer to import than a short run's first epoch: it is, at the first score.
METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "accuracy_f1": _accuracy_f1,
    "matthews": _matthews,
}


def score(
    logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str], suffix: str = ""
) -> dict[str, float]:
    """The named metrics of logits, (items, classes), against labels, (items,)."""
    predictions = logits.argmax(axis=1)
    return {name + suffix: METRICS[name](labels, predictions) for name in metrics}


def exit_scores(
    logits: np.ndarray, labels: np.ndarray, metrics: Sequence[str], suffix: str = ""
) -> list[dict[str, float]]:
    """`score` of each exit's logits: (items, exits, classes)."""
    return [score(logits[:, place], labels, metrics, suffix) for place in range(logits.shape[1])]


def mean_over_exits(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric, by which a model of several exits is chosen."""
    return {name: fmean(exit[name] for exit in scores) for name in scores[0]}


def is_degenerate(logits: np.ndarray, labels: np.ndarray) -> bool:
    """One class predicted throughout, or a Matthews correlation of exactly 0."""
    predictions = logits.argmax(axis=1)
    return len(np.unique(predictions)) == 1 or _matthews(labels, predictions) == 0
