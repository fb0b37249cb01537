"""Statistics of pairs: known numbers, exact p, intervals, and how often they are wrong."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import bootstrap, combine_pvalues, norm
from statsmodels.stats.power import TTestPower

from acl_bert.study.claims import statistics
from acl_bert.study.claims.statistics import (
    Mean,
    Pairs,
    SdRatio,
    Side,
    SpreadRatio,
    Statistic,
    TasksReached,
    interval,
)


def task(ours: list[float], *baselines: list[float]) -> Pairs:
    """Scores by seed, at one point."""
    theirs = np.array(baselines or [[0.0] * len(ours)])
    return Pairs(np.array(ours)[:, None], theirs.T[:, :, None])


def test_the_mean_is_over_seeds_then_tasks_and_against_the_best_of_each_task() -> None:
    first = task([3.0, 5.0], [1.0, 1.0], [2.0, 4.0])  # the second is the best: 1
    second = task([0.0, 0.0, 0.0], [6.0, 0.0, 0.0], [1.0, 0.0, 1.0])  # the first is: −2
    assert Mean().of([first, second]) == pytest.approx((1 - 2) / 2)
    assert Mean().of([task([3.0, 5.0])]) == pytest.approx(4)


def test_a_second_point_is_taken_away_with_the_baseline_that_is_best_at_the_first() -> None:
    ours = np.array([[5.0, 2.0], [7.0, 2.0]])
    theirs = np.array([[[3.0, 1.0], [0.0, 9.0]], [[3.0, 1.0], [0.0, 9.0]]])
    assert Mean().of([Pairs(ours, theirs)]) == pytest.approx((6 - 3) - (2 - 1))


def test_one_baseline_alone_does_not_contradict_a_difference_between_points() -> None:
    """The gain on the first falls by 2 from one point to the other, on the second it grows by 6."""
    noise = np.array([0.1, -0.2, 0.0, 0.2, -0.1])
    ours = np.stack([5 + noise, 5 - noise], axis=-1)
    theirs = np.stack([np.stack([3 + 0 * noise, 5 + noise], -1), np.full((5, 2), (2.0, -4.0))], 1)
    tasks = [Pairs(ours, theirs)] * 2
    assert Mean().of(tasks) == pytest.approx(2)
    assert Mean().p_against(tasks, 0, "above") > 0.9
    # Below the margin against each of them, it is so against whichever is the best.
    assert Mean().p_against(tasks, 3, "above") == pytest.approx(1 / 2**10)
    none = [Pairs(ours - [9, 0], theirs)] * 2
    assert Mean().p_against(none, 0, "above") == pytest.approx(1 / 2**10)
    assert Mean().p_against(none, -9, "below") > 0.9


def test_p_is_that_of_all_sign_flips() -> None:
    """Of 5 pairs there are 32; these means are compared by hand."""
    ours, theirs = [3.0, 1.0, 4.0, 1.0, 5.0], [1.0, 2.0, 1.0, 0.5, 1.0]
    differences = np.subtract(ours, theirs)
    flips = np.array(list(itertools.product([1, -1], repeat=5)))
    for margin in (0.0, 1.5):
        moved = differences - margin
        expected = np.mean((flips * moved).mean(axis=1) >= moved.mean() - 1e-9)
        assert Mean().p_value([task(ours, theirs)], margin, "above") == pytest.approx(expected)
        below = np.mean((flips * moved).mean(axis=1) <= moved.mean() + 1e-9)
        assert Mean().p_value([task(ours, theirs)], margin, "below") == pytest.approx(below)


def test_p_has_a_smallest_value() -> None:
    clear = [task([9.0, 8.0, 9.0, 8.0, 9.0])]
    assert Mean().p_value(clear, 0, "above") == Mean().smallest_p(clear) == 1 / 32
    many = clear * 7
    assert Mean().p_value(many, 0, "above", 99) == Mean().smallest_p(many, 99) == 0.01
    assert math.isnan(Mean().p_value([task([1.0])], 0, "above"))


def test_the_ratio_of_sds_weighs_tasks_alike_and_tells_sides_without_spread() -> None:
    theirs = [1.0, 3.0, 5.0]
    narrow = [0.5 * x for x in theirs]
    wide = task([100 * x for x in narrow], [100 * x for x in theirs])
    assert SdRatio().of([task(narrow, theirs), wide]) == pytest.approx(math.log(0.5))
    same = task([2.0, 2.0], [7.0, 7.0])
    assert SdRatio().of([same]) == pytest.approx(0)
    assert SdRatio().of([task([2.0, 2.0], [7.0, 8.0])]) == -np.inf
    # Levels do not matter, only spreads do.
    far = [task([x + 50 for x in narrow], theirs)] * 4
    assert SdRatio().p_value(far, 0, "below") == SdRatio().p_value(
        [task(narrow, theirs)] * 4, 0, "below"
    )


def test_the_ratio_of_spreads_is_of_the_means_over_seeds() -> None:
    ours = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 4.0]])  # means 1, 2, 2
    theirs = np.array([[0.0, 3.0, 0.0], [0.0, 5.0, 2.0]])[:, None]  # means 0, 4, 1
    assert SpreadRatio().of([Pairs(ours, theirs)]) == pytest.approx(math.log(1 / 4))
    flat = Pairs(np.ones((2, 3)), np.ones((2, 1, 3)))
    assert SpreadRatio().of([flat]) == 0
    assert SpreadRatio().of([Pairs(np.ones((2, 3)), theirs)]) == -np.inf


def test_a_ratio_at_its_margin_is_no_finding() -> None:
    theirs = [1.0, 3.0, 5.0, 2.0, 6.0]
    half = [task([0.5 * x for x in theirs[::-1]], theirs)] * 2
    assert SdRatio().p_value(half, 0, "below") < 0.05
    assert SdRatio().p_value(half, math.log(0.5), "below") > 0.3


def test_tasks_reached_is_a_partial_conjunction() -> None:
    good, bad = [2.0, 3.0, 2.5, 2.0, 3.0], [-2.0, -3.0, -2.0, -4.0, -2.0]
    five = TasksReached(5 / 7)
    tasks = [task(good)] * 5 + [task(bad)] * 2
    assert five.of(tasks) == pytest.approx(2.5) and five.reached(tasks, 0) == 5
    # The 3 largest p: one of a task that is reached, two of those that are not.
    expected = combine_pvalues([1 / 32, 1, 1], method="fisher").pvalue
    assert five.p_value(tasks, 0, "above") == pytest.approx(expected)
    six = [task(good)] * 6 + [task(bad)]
    assert five.of([*six[1:], task(bad)]) == pytest.approx(2.5)
    assert five.p_value([task(good)] * 7, 0, "above") < 0.01
    # With four reached and three clearly not, it is refuted.
    four = [task(good)] * 4 + [task(bad)] * 3
    assert five.of(four) == pytest.approx(np.mean(bad))
    assert five.p_against([task(bad)] * 7, 0, "above") < 0.01
    assert [five.needed(n) for n in (1, 3, 6, 7)] == [1, 3, 5, 5]


def test_the_interval_is_scipys() -> None:
    scores = np.random.default_rng(3).normal(1, 1, 8)
    ours = [Pairs(scores[:, None], np.zeros((8, 1, 1)))]
    found = interval(lambda places: Mean().at(ours, places), [8])
    expected = bootstrap(
        (scores,),
        np.mean,
        n_resamples=statistics.RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(statistics.RANDOM_STATE),
    )
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval))
    assert found.error == pytest.approx(expected.standard_error)


def test_tasks_are_resampled_among_themselves() -> None:
    """Tasks 100 points apart add nothing to the interval."""
    noise = np.random.default_rng(3).normal(0, 1, (2, 5))
    near = [task(list(row)) for row in noise]
    far = [near[0], task(list(noise[1] + 100))]
    here = interval(lambda places: Mean().at(near, places), [5, 5], 999)
    there = interval(lambda places: Mean().at(far, places), [5, 5], 999)
    assert there.high - there.low == pytest.approx(here.high - here.low)


def test_seeds_that_tell_nothing_have_no_interval() -> None:
    def of(*tasks: Pairs) -> statistics.Interval:
        return interval(lambda places: Mean().at(tasks, places), [t.seeds for t in tasks], 199)

    assert math.isnan(of(task([1.0])).low)
    assert math.isnan(of(task([1.0, 2.0, 3.0]), task([1.0])).low)
    assert math.isnan(of(task([1.0, 1.0, 1.0])).low)
    assert not math.isnan(of(task([1.0, 1.0, 1.5])).low)


def test_there_is_no_interval_where_bca_is_undefined() -> None:
    """No resample of 20 has 20 different seeds, so that the number lies beyond all of them."""

    def different(places: Sequence[np.ndarray]) -> np.ndarray:
        return 1.0 + (np.diff(np.sort(places[0], axis=-1), axis=-1) > 0).sum(axis=-1)

    assert math.isnan(interval(different, [20], 999).low)


def test_what_could_be_detected_is_what_a_t_test_finds() -> None:
    """With many pairs that is the normal quantiles of level and power."""
    z = norm.isf(0.05) + norm.ppf(0.8)
    detectable = Mean().detectable
    assert detectable(1.0, [400], 0.05) == pytest.approx(z, rel=0.01)
    assert detectable(2.0, [5] * 7, 0.05) == pytest.approx(2 * detectable(1.0, [5] * 7, 0.05))
    assert detectable(1.0, [5], 0.05) > detectable(1.0, [5] * 7, 0.05) > z
    assert detectable(1.0, [5] * 7, 0.05 / 8) > detectable(1.0, [5] * 7, 0.05)
    assert math.isnan(detectable(math.nan, [1, 1], 0.05))


@pytest.mark.parametrize("seeds", [[5], [3, 9]])
def test_what_could_be_detected_is_of_the_sd_that_the_seeds_were_drawn_with(
    seeds: list[int],
) -> None:
    """Not of the seeds' own, which is smaller. Here it is 1 in each task."""
    tasks = []
    for n in seeds:
        scores = np.random.default_rng(n).normal(size=n)
        tasks.append(task(list((scores - scores.mean()) / scores.std(ddof=1))))
    error = interval(lambda places: Mean().at(tasks, places), seeds).error
    true_error = math.sqrt(sum(1 / n for n in seeds)) / len(seeds)
    pairs = sum(seeds)
    standardised = TTestPower().solve_power(nobs=pairs, alpha=0.05, power=0.8, alternative="larger")
    expected = standardised * true_error * math.sqrt(pairs)
    assert Mean().detectable(error, seeds, 0.05) == pytest.approx(expected, rel=0.03)


def test_a_count_of_tasks_has_nothing_that_a_t_test_detects() -> None:
    assert math.isnan(TasksReached(5 / 7).detectable(1.0, [5] * 7, 0.05))


STUDIES = 200
# 5 %, and three standard errors of a rate over so many studies.
AT_MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)


def null_study(draw: np.random.Generator, baselines: int, points: int, shift: float) -> list[Pairs]:
    """7 tasks × 5 seeds without an effect; tasks differ in noise, seeds in luck."""
    tasks = []
    for _ in range(7):
        sd = math.exp(draw.normal(0, 0.5))
        luck = draw.normal(0, sd / 2, (5, 1, 1))
        scores = draw.normal(0, sd, (5, baselines + 1, points)) + luck
        tasks.append(Pairs(scores[:, 0] + shift, scores[:, 1:]))
    return tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statistic", "baselines", "points", "margin", "side"),
    [
        (Mean(), 1, 1, 0.0, "above"),
        (Mean(), 3, 1, 0.0, "above"),
        (Mean(), 3, 2, 0.0, "above"),
        (TasksReached(5 / 7), 2, 1, -0.5, "above"),
        (SdRatio(), 1, 1, 0.0, "below"),
        (SpreadRatio(), 1, 5, 0.0, "below"),
    ],
)
def test_without_an_effect_p_is_seldom_small_on_either_side(
    statistic: Statistic, baselines: int, points: int, margin: float, side: Side
) -> None:
    draw = np.random.default_rng(11)
    found = np.zeros(2)
    for _ in range(STUDIES):
        tasks = null_study(draw, baselines, points, shift=margin)
        asked = (tasks, margin, side, 99)
        found += [statistic.p_value(*asked) < 0.05, statistic.p_against(*asked) < 0.05]
    assert (found / STUDIES <= AT_MOST).all()
