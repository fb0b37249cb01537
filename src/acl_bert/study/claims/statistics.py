"""Statistics of paired scores: their value, interval and p, and what they could have found.

Ours and theirs are paired by task and seed. Intervals are BCa bootstraps over seeds, stratified
over tasks. p is one-sided, by swapping the two sides of pairs at random: a statistic of any shape
is tested by the same permutations (sign flips, for a mean of differences).
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.stats import bootstrap, combine_pvalues, permutation_test
from statsmodels.stats.power import TTestPower

RESAMPLES = 10_000
CONFIDENCE = 0.95
POWER = 0.8
RANDOM_STATE = 20260203  # fixed: a ledger of the same runs is the same ledger

Side = Literal["above", "below"]


@dataclass(frozen=True)
class Pairs:
    """One task's scores, in pairs by seed.

    `ours` is (…, seeds, points) and `theirs` (…, seeds, baselines, points). Points are the places
    where both are read: an exit or two, or values of λ.
    """

    ours: np.ndarray
    theirs: np.ndarray

    @property
    def seeds(self) -> int:
        return self.ours.shape[-2]

    def at(self, places: np.ndarray) -> "Pairs":
        """The pairs at `places`, (…, any number) of whole numbers; both sides without axes before
        the seeds'."""
        return Pairs(self.ours[places], self.theirs[places])

    def facing(self, place: int) -> "Pairs":
        """With the baseline at `place` alone."""
        return Pairs(self.ours, self.theirs[..., place : place + 1, :])

    def swapped(self, swap: np.ndarray) -> "Pairs":
        """With the sides exchanged where `swap`, (…, seeds) of bool, is true; one baseline."""
        where, theirs = swap[..., None], self.theirs[..., 0, :]
        return Pairs(
            np.where(where, theirs, self.ours),
            np.where(where, self.ours, theirs)[..., None, :],
        )


def _best(pairs: Pairs) -> np.ndarray:
    """The scores of the baseline with the best mean at the first point, (…, seeds, points)."""
    means = pairs.theirs[..., 0].mean(axis=-2)  # (…, baselines)
    best = means.argmax(axis=-1)[..., None, None, None]
    return np.take_along_axis(pairs.theirs, best, axis=-2)[..., 0, :]


def _against_best(pairs: Pairs) -> Pairs:
    return Pairs(pairs.ours, _best(pairs)[..., None, :])


class Statistic(ABC):
    """A number for ours and theirs over several tasks, and how it is tested."""

    seeds_needed: ClassVar[int] = 1  # in a task, for the number to exist

    @abstractmethod
    def of(self, tasks: Sequence[Pairs]) -> np.ndarray:
        """The number, with the axes that the pairs have before those named in Pairs."""

    def at(self, tasks: Sequence[Pairs], places: Sequence[np.ndarray]) -> np.ndarray:
        """The number of the pairs at `places`, (…, seeds) of whole numbers for each task."""
        return self.of([pairs.at(drawn) for pairs, drawn in zip(tasks, places, strict=True)])

    @abstractmethod
    def at_margin(self, pairs: Pairs, margin: float) -> Pairs:
        """A task with one baseline, moved so that its sides are alike if they were `margin` apart.

        It has no axes before the seeds'.
        """

    def p_value(
        self, tasks: Sequence[Pairs], margin: float, side: Side, resamples: int = RESAMPLES
    ) -> float:
        """One-sided p of the number being no more than `margin` (no less, for `below`).

        Exact where all ways to swap are not more than `resamples`, else from as many at random.
        NaN with fewer than two pairs, or where the number is infinite.
        """
        ends = np.cumsum([pairs.seeds for pairs in tasks])
        if ends[-1] < 2 or np.isinf(self.of(tasks)):
            return math.nan
        moved = [self.at_margin(_against_best(pairs), margin) for pairs in tasks]

        def swapped(signs: np.ndarray, axis: int) -> np.ndarray:
            parts = np.split(signs < 0, ends[:-1], axis=axis)
            return self.of([pairs.swapped(part) for pairs, part in zip(moved, parts, strict=True)])

        with np.errstate(divide="ignore"):
            test = permutation_test(
                (np.ones(ends[-1]),),
                swapped,
                permutation_type="samples",
                vectorized=True,
                n_resamples=resamples,
                alternative="greater" if side == "above" else "less",
                rng=np.random.default_rng(RANDOM_STATE),
            )
        return float(test.pvalue)

    def p_against(
        self, tasks: Sequence[Pairs], margin: float, side: Side, resamples: int = RESAMPLES
    ) -> float:
        """One-sided p of the number being on `side` of the margin or on it, NaN as above.

        The best of several baselines looks better than it is, and ours worse beside it. So each
        baseline is tested alone, the same one on all tasks, and the smallest p corrected for their
        number (Bonferroni): one that is better than ours is enough. At several points it is not,
        since there the number is about the baseline that is best at the first. Then the test is
        against the one, on each task, that speaks most for `side`.
        """
        other: Side = "below" if side == "above" else "above"
        if tasks[0].ours.shape[-1] > 1:
            kindest = [self._facing_kindest(pairs, side) for pairs in tasks]
            return self.p_value(kindest, margin, other, resamples)
        baselines = tasks[0].theirs.shape[-2]
        ps = [
            self.p_value([pairs.facing(place) for pairs in tasks], margin, other, resamples)
            for place in range(baselines)
        ]
        return min(1.0, baselines * min(ps))

    def _facing_kindest(self, pairs: Pairs, side: Side) -> Pairs:
        """With the one baseline against which the number is furthest to `side`."""
        alone = [pairs.facing(place) for place in range(pairs.theirs.shape[-2])]
        numbers = [float(self.of([facing])) for facing in alone]
        return alone[int(np.argmax(numbers) if side == "above" else np.argmin(numbers))]

    def smallest_p(self, tasks: Sequence[Pairs], resamples: int = RESAMPLES) -> float:
        """The p that the clearest of effects would have had."""
        return max(0.5 ** sum(pairs.seeds for pairs in tasks), 1 / (resamples + 1))

    def detectable(self, error: float, seeds: Sequence[int], level: float) -> float:
        """How far from the margin a number is that a one-sided test at `level` finds with POWER.

        That is a t test's on all pairs, with the sd that the bootstrap's standard `error` comes to.
        `seeds` are each task's; NaN without an error.
        """
        if math.isnan(error):
            return math.nan
        # The bootstrap's variance is of its n seeds, not of those they were drawn from: it is
        # short by n / (n − 1). Tasks weigh alike here, as if their seeds varied alike.
        short = sum(1 / n for n in seeds) / sum((n - 1) / n**2 for n in seeds)
        pairs = sum(seeds)
        return _standardised(pairs, level) * error * math.sqrt(short * pairs)


class Mean(Statistic):
    """Ours less the best baseline's, at the first point; less the same at the others, if any.

    The mean over seeds, then over tasks. The best baseline of a task has the best mean at the first
    point. It is chosen again in each resample, and stays the one chosen in the permutations, which
    favours theirs. Without a baseline, it is ours alone.
    """

    def of(self, tasks: Sequence[Pairs]) -> np.ndarray:
        return self.by_task(tasks).mean(axis=0)

    def by_task(self, tasks: Sequence[Pairs]) -> np.ndarray:
        """(tasks, …)."""
        numbers = []
        for pairs in tasks:
            gain = pairs.ours.mean(axis=-2) - _best(pairs).mean(axis=-2)
            numbers.append(gain[..., 0] - gain[..., 1:].sum(axis=-1))
        return np.stack(numbers)

    def at_margin(self, pairs: Pairs, margin: float) -> Pairs:
        ours = pairs.ours.copy()
        ours[:, 0] -= margin
        return Pairs(ours, pairs.theirs)


@dataclass(frozen=True)
class TasksReached(Mean):
    """Whether `Mean`, task by task, is beyond the margin on `share` of the tasks (rounded up).

    The number is the smallest of the so many highest means. p is that of a partial conjunction
    (Benjamini and Heller, 2008): that u of n tasks are beyond, Fisher's combination of the
    n − u + 1 largest p. So many are not, where n − u + 1 are on the other side.
    """

    share: float

    def needed(self, tasks: int, side: Side = "above") -> int:
        above = math.ceil(self.share * tasks - 1e-9)  # 5 / 7 of 7 is 5
        return above if side == "above" else tasks - above + 1

    def of(self, tasks: Sequence[Pairs]) -> np.ndarray:
        return np.sort(self.by_task(tasks), axis=0)[-self.needed(len(tasks))]

    def reached(self, tasks: Sequence[Pairs], margin: float) -> int:
        """On how many tasks the mean is not below the margin."""
        return int((self.by_task(tasks) >= margin).sum())

    def p_value(
        self, tasks: Sequence[Pairs], margin: float, side: Side, resamples: int = RESAMPLES
    ) -> float:
        alone = Mean()
        return self._combined(
            [alone.p_value([task], margin, side, resamples) for task in tasks], side
        )

    def smallest_p(self, tasks: Sequence[Pairs], resamples: int = RESAMPLES) -> float:
        alone = Mean()
        return self._combined([alone.smallest_p([task], resamples) for task in tasks], "above")

    def detectable(self, error: float, seeds: Sequence[int], level: float) -> float:
        """NaN: p is not of the number itself, so that no t test on all pairs stands for it."""
        return math.nan

    def _combined(self, ps: list[float], side: Side) -> float:
        """p of the partial conjunction; NaN where a task has none."""
        if any(map(math.isnan, ps)):
            return math.nan
        largest = sorted(ps)[self.needed(len(ps), side) - 1 :]
        return float(combine_pvalues(largest, method="fisher").pvalue)


class SdRatio(Statistic):
    """The logarithm of our sd over seeds over theirs, pooled over tasks.

    Each task is brought to a variance of 1 over both sides, so that none outweighs the others; then
    variances are averaged. A task without spread on either side counts as equal.
    """

    seeds_needed = 2

    def of(self, tasks: Sequence[Pairs]) -> np.ndarray:
        shares = []
        for pairs in tasks:
            ours = pairs.ours[..., 0].var(axis=-1)
            both = ours + pairs.theirs[..., 0, 0].var(axis=-1)
            shares.append(np.divide(ours, both, out=np.full_like(both, 0.5), where=both > _ZERO))
        share = np.mean(shares, axis=0)
        with np.errstate(divide="ignore"):
            return 0.5 * (np.log(share) - np.log1p(-share))

    def at_margin(self, pairs: Pairs, margin: float) -> Pairs:
        def centred(scores: np.ndarray) -> np.ndarray:
            return scores - scores.mean(axis=0)

        return Pairs(centred(pairs.ours) / math.exp(margin), centred(pairs.theirs))


class SpreadRatio(Statistic):
    """The logarithm of our spread over theirs: the range, over points, of the mean over seeds.

    Spreads are averaged over tasks. Two of zero count as equal.
    """

    def of(self, tasks: Sequence[Pairs]) -> np.ndarray:
        ours = np.mean([np.ptp(p.ours.mean(axis=-2), axis=-1) for p in tasks], axis=0)
        theirs = np.mean(
            [np.ptp(p.theirs[..., 0, :].mean(axis=-2), axis=-1) for p in tasks], axis=0
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(ours) - np.log(theirs)
        return np.where((ours < _ZERO) & (theirs < _ZERO), 0.0, ratio)

    def at_margin(self, pairs: Pairs, margin: float) -> Pairs:
        return Pairs(pairs.ours / math.exp(margin), pairs.theirs)


_ZERO = 1e-12  # percent or degrees, or their squares: what rounding leaves of no difference


@dataclass(frozen=True)
class Interval:
    """Bounds at CONFIDENCE and the bootstrap's standard error; NaN where there are none."""

    low: float = math.nan
    high: float = math.nan
    error: float = math.nan


def interval(
    number: Callable[[Sequence[np.ndarray]], np.ndarray],
    seeds: Sequence[int],
    resamples: int = RESAMPLES,
) -> Interval:
    """The BCa interval of `number` over resampled seeds, each task's among themselves.

    `number` takes the places of the seeds, (…, seeds) for each task, and gives (…). There is
    none where BCa is undefined: where a task has one seed, where all resamples are equal, or for an
    extreme that no resample passes.
    """
    if min(seeds) < 2:
        return Interval()

    def resampled(*places: np.ndarray, axis: int) -> np.ndarray:
        assert axis == -1
        return number([place.astype(int) for place in places])

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of degenerate data, which is told from the numbers below
        result: Any = bootstrap(
            [np.arange(n) for n in seeds],
            resampled,
            n_resamples=resamples,
            confidence_level=CONFIDENCE,
            method="BCa",
            vectorized=True,
            axis=-1,
            rng=np.random.default_rng(RANDOM_STATE),
        )
    drawn = result.bootstrap_distribution
    if not np.isfinite(drawn).any() or np.ptp(drawn[np.isfinite(drawn)]) < _ZERO:
        return Interval()
    bounds = np.array(result.confidence_interval, dtype=float)
    if not np.isfinite(bounds).all():
        return Interval()
    return Interval(float(bounds[0]), float(bounds[1]), float(np.std(drawn, ddof=1)))


@cache
def _standardised(pairs: int, level: float) -> float:
    found: Any = TTestPower().solve_power(
        nobs=pairs, alpha=level, power=POWER, alternative="larger"
    )
    return float(np.squeeze(found))
