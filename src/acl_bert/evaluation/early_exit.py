"""When a sample may leave, and what leaving early costs in quality (docs/paper.md §3.3).

A criterion gives each sample a value at each exit, and the sample leaves at the first exit where
that value passes the threshold, at the latest at the last one. The same objects decide over saved
logits, where every threshold is tried, and exit by exit for a batch that really shrinks.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from acl_bert.errors import InputError
from acl_bert.evaluation.metrics import METRICS, confusion

# One row a threshold and metric. `layers` is the mean number of layers that a sample went through,
# `speedup` the model's depth M over it: Σ_m M·N_m / Σ_m m·N_m.
SWEEP_COLUMNS = ("criterion", "threshold", "layers", "speedup", "metric", "value")


def normalised_entropy(logits: np.ndarray) -> np.ndarray:
    """H / log K of softmax(logits), (..., classes) → (...), from 0 to 1; finite for any logits."""
    below, total = _shifted(logits)
    entropy = np.log(total) - (np.exp(below) * below).sum(axis=-1) / total
    return np.minimum(entropy / np.log(logits.shape[-1]), 1.0)


def max_probability(logits: np.ndarray) -> np.ndarray:
    """The largest of softmax(logits), (..., classes) → (...)."""
    return 1.0 / _shifted(logits)[1]


def _shifted(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logits less their largest, and the sum of their exponentials: at least 1, no overflow."""
    below = logits.astype(np.float64)
    below -= below.max(axis=-1, keepdims=True)
    return below, np.exp(below).sum(axis=-1)


class Criterion:
    """A number between 0 and 1 that depends on an exit's own logits; others override what differs.

    An object serves one batch, exit after exit, and remembers its samples.
    """

    leaves: ClassVar[np.ufunc]
    """(value, threshold) → whether the sample leaves."""

    def values(self, layer: int, logits: np.ndarray) -> np.ndarray:
        """Of the samples still in, (samples,), from their (samples, classes) at `layer`'s exit."""
        raise NotImplementedError

    def keep(self, staying: np.ndarray) -> None:
        """Forget the samples that left; `staying` indexes those that were in, in order."""

    @classmethod
    def thresholds(cls, values: np.ndarray, exits: Sequence[int]) -> np.ndarray:
        """Those that a sweep tries, from values, (samples, exits): their quantiles, in percents.

        The last exit's values do not count, since no sample stays there.
        """
        return np.quantile(values[:, :-1], np.linspace(0, 1, 101))

    @classmethod
    def check(cls, threshold: float, exits: Sequence[int]) -> None:
        """Raise InputError for a threshold that means nothing on these exits."""
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold {threshold:g}: give one between 0 and 1")


class Entropy(Criterion):
    """Leave where the normalised entropy is below the threshold (DeeBERT)."""

    leaves = np.less

    def values(self, layer: int, logits: np.ndarray) -> np.ndarray:
        return normalised_entropy(logits)


class MaxProbability(Criterion):
    """Leave where the predicted class is more probable than the threshold."""

    leaves = np.greater

    def values(self, layer: int, logits: np.ndarray) -> np.ndarray:
        return max_probability(logits)


class Patience(Criterion):
    """Leave where the prediction has agreed with the exit before so many times in a row (PABEE)."""

    leaves = np.greater_equal

    def __init__(self) -> None:
        self._predictions = np.array(-1)  # agrees with no class
        self._agreed = np.array(0)

    def values(self, layer: int, logits: np.ndarray) -> np.ndarray:
        predictions = logits.argmax(axis=-1)
        self._agreed = np.where(predictions == self._predictions, self._agreed + 1, 0)
        self._predictions = predictions
        return self._agreed

    def keep(self, staying: np.ndarray) -> None:
        self._agreed, self._predictions = self._agreed[staying], self._predictions[staying]

    @classmethod
    def thresholds(cls, values: np.ndarray, exits: Sequence[int]) -> np.ndarray:
        """1, 2, ..., the number of exits; the last of them is never reached: the full model."""
        return np.arange(1, len(exits) + 1)

    @classmethod
    def check(cls, threshold: float, exits: Sequence[int]) -> None:
        if threshold not in range(1, len(exits) + 1):
            raise InputError(
                f"threshold {threshold:g}: patience is a whole number from 1 to {len(exits)}, "
                "the model's exits"
            )


class Fixed(Criterion):
    """Leave at the exit of one layer in any case; the threshold is the layer's number."""

    leaves = np.greater_equal

    def values(self, layer: int, logits: np.ndarray) -> np.ndarray:
        return np.full(len(logits), layer)

    @classmethod
    def thresholds(cls, values: np.ndarray, exits: Sequence[int]) -> np.ndarray:
        """Every exit's layer."""
        return np.asarray(exits)

    @classmethod
    def check(cls, threshold: float, exits: Sequence[int]) -> None:
        if threshold not in exits:
            raise InputError(
                f"threshold {threshold:g}: no exit on that layer; fixed takes one of "
                f"{', '.join(map(str, exits))}"
            )


CRITERIA: dict[str, type[Criterion]] = {
    "entropy": Entropy,
    "max_probability": MaxProbability,
    "patience": Patience,
    "fixed": Fixed,
}


def criterion_values(criterion: str, logits: np.ndarray, exits: Sequence[int]) -> np.ndarray:
    """Values at every exit, (samples, exits), as if nobody left; logits: (samples, exits, classes).

    `exits` are the layers, from 1, that the logits belong to; the last is the model's last layer.
    """
    one = CRITERIA[criterion]()
    return np.stack([one.values(layer, logits[:, i]) for i, layer in enumerate(exits)], axis=1)


def exits_taken(criterion: str, values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The index, from 0, of the exit where each sample leaves: (samples, thresholds).

    `values` are `criterion_values`. Two arrays of one byte a sample and threshold are held.
    """
    leaves = CRITERIA[criterion].leaves
    staying = np.ones((len(values), len(thresholds)), dtype=bool)
    exit_index = np.zeros(staying.shape, dtype=np.uint8)
    for column in values[:, :-1].T:
        staying &= ~leaves(column[:, None], thresholds)
        exit_index += staying
    return exit_index


def sweep(
    criterion: str,
    logits: np.ndarray,
    labels: np.ndarray,
    exits: Sequence[int],
    metrics: Sequence[str],
    suffix: str = "",
) -> list[tuple[str, float, float, float, str, float]]:
    """Every threshold of the criterion's own grid on a dev set, as rows of SWEEP_COLUMNS.

    logits: (samples, exits, classes); labels: (samples,); `exits` as in `criterion_values`. Rows
    come by threshold, ascending, then metric. Each metric is that of the predictions that the
    samples left with, as a fraction, its name with the dev set's `suffix`. Raises InputError where
    there is only one exit.
    """
    if len(exits) < 2:
        raise InputError(f"a sweep over one exit (layer {exits[0]}); early exiting needs several")
    values = criterion_values(criterion, logits, exits)
    thresholds = CRITERIA[criterion].thresholds(values, exits)
    taken = exits_taken(criterion, values, thresholds)
    left_with = np.take_along_axis(logits.argmax(axis=2), taken.astype(np.intp), axis=1)
    counts = confusion(labels, left_with, logits.shape[2])
    scores = {name: METRICS[name](counts) for name in metrics}
    layers = np.asarray(exits)[taken].mean(axis=0)
    points = zip(thresholds.tolist(), layers.tolist(), (exits[-1] / layers).tolist(), strict=True)
    return [
        (criterion, *point, name + suffix, float(scores[name][i]))
        for i, point in enumerate(points)
        for name in metrics
    ]


def score_at(speedups: Sequence[float], scores: Sequence[float], wanted: float) -> float | None:
    """The score at a speed-up, by linear interpolation over the speed-up between a curve's points.

    Points of one speed-up count as one, with the mean of their scores. None outside the curve.
    """
    x, y = _curve(np.asarray(speedups), scores)
    return float(np.interp(wanted, x, y)) if x[0] <= wanted <= x[-1] else None


def area_over_layers(speedups: Sequence[float], scores: Sequence[float], smallest: float) -> float:
    """The mean score over the fraction of layers used, from `smallest` (below 1) to 1.

    That is the area under the linearly interpolated curve, divided by the width of the range, so
    in the unit of the score. `smallest` is the first exit's layer over the depth: a range that
    depends on the model alone, so that methods compare. Where a curve ends inside the range, the
    score of its end holds for the rest: a budget that it cannot use up counts as the largest that
    it can, and one that it cannot meet as the smallest that it can.
    """
    x, y = _curve(1 / np.asarray(speedups), scores)
    range_ = np.unique(np.concatenate([[smallest], np.clip(x, smallest, 1), [1.0]]))
    return float(np.trapezoid(np.interp(range_, x, y), range_) / (1 - smallest))


def _curve(x: np.ndarray, y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The points by ascending x, those of one x as one, with the mean of their y."""
    distinct, index = np.unique(x, return_inverse=True)
    return distinct, np.bincount(index, weights=y) / np.bincount(index)
