import tracemalloc

import numpy as np
import pytest

from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import (
    CRITERIA,
    SWEEP_COLUMNS,
    area_over_layers,
    criterion_values,
    exits_taken,
    max_probability,
    normalised_entropy,
    score_at,
    sweep,
)
from acl_bert.evaluation.metrics import score

EXITS = (1, 2, 3, 4, 5, 6)


def draw(rows: int = 300, exits: int = 6, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, rows)
    sure = np.linspace(0.2, 3, exits)[None, :, None] * np.eye(classes)[labels][:, None]
    logits = (sure + generator.normal(size=(rows, exits, classes))).astype(np.float32)
    return logits, labels


def predicting(*predictions: int) -> np.ndarray:
    return np.eye(3, dtype=np.float32)[None, list(predictions)]


def test_values_worked_out_by_hand() -> None:
    quarter = np.log(np.array([[0.25, 0.75]]))
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / np.log(2)
    assert normalised_entropy(quarter + 7) == pytest.approx([entropy], rel=1e-12)
    assert max_probability(quarter + 7) == pytest.approx([0.75], rel=1e-12)
    assert (
        normalised_entropy(np.zeros((1, 3))) == pytest.approx([1.0])
        and (normalised_entropy(np.zeros((50, 7))) <= 1).all()
    )


def test_logits_of_a_hundred_are_neither_nan_nor_wrong() -> None:
    logits = np.array([[100, -100], [-100, 100], [100, 100], [-100, -100]], dtype=np.float32)
    assert normalised_entropy(logits) == pytest.approx([0, 0, 1, 1], abs=1e-12)
    assert max_probability(logits) == pytest.approx([1, 1, 0.5, 0.5], abs=1e-12)
    near = np.array([[100.0, 99.0]])
    assert normalised_entropy(near) == pytest.approx(normalised_entropy(near - 100), rel=1e-12)


@pytest.mark.parametrize(
    ("patience", "exit_index"),
    [(1, 2), (2, 3), (3, 7), (4, 8), (5, 8), (8, 8)],
)
def test_patience_counts_agreements_in_a_row(patience: int, exit_index: int) -> None:
    """PABEE: one more agreement, one more to the count; a change takes it to 0."""
    logits = predicting(0, 1, 1, 1, 0, 0, 0, 0, 2)
    values = criterion_values("patience", logits, range(1, 10))
    assert values.tolist() == [[0, 0, 1, 2, 0, 1, 2, 3, 0]]
    assert exits_taken("patience", values, np.array([patience])) == [[exit_index]]


def test_a_value_equal_to_the_threshold_stays() -> None:
    values = np.array([[0.5, 0.4, 0.9]])
    assert exits_taken("entropy", values, np.array([0.4, 0.5, 0.6])).tolist() == [[2, 1, 0]]
    assert exits_taken("max_probability", values, np.array([0.5, 0.4, 0.3])).tolist() == [[2, 0, 0]]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_all_at_once_is_one_exit_after_the_other(criterion: str) -> None:
    """Against a batch that shrinks, and against rows that are looked at one by one."""
    logits, _ = draw()
    values = criterion_values(criterion, logits, EXITS)
    thresholds = CRITERIA[criterion].thresholds(values, EXITS)
    exit_indices = exits_taken(criterion, values, thresholds)
    for column in range(0, len(thresholds), max(1, len(thresholds) // 10)):
        asked, rows = CRITERIA[criterion](), np.arange(len(logits))
        taken = np.full(len(logits), len(EXITS) - 1)
        for exit_index, layer in enumerate(EXITS[:-1]):
            passed = asked.leaves(asked.values(layer, logits[rows, exit_index]), thresholds[column])
            taken[rows[passed]] = exit_index
            rows = rows[~passed]
            asked.keep(np.flatnonzero(~passed))
        assert exit_indices[:, column].tolist() == taken.tolist()
    leaves = CRITERIA[criterion].leaves
    for row in range(20):
        for column, threshold in enumerate(thresholds):
            first = next((p for p in range(5) if leaves(values[row, p], threshold)), 5)
            assert exit_indices[row, column] == first


@pytest.mark.parametrize("criterion", ["entropy", "max_probability"])
def test_a_sweep_goes_from_the_full_model_to_nearly_the_first_exit(criterion: str) -> None:
    logits, labels = draw()
    rows = sweep(criterion, logits, labels, EXITS, ["accuracy", "matthews"], "_mm")
    assert len(rows) == 101 * 2 and all(len(row) == len(SWEEP_COLUMNS) for row in rows)
    assert [row[4] for row in rows[:2]] == ["accuracy_mm", "matthews_mm"]
    thresholds = [row[1] for row in rows[::2]]
    values = criterion_values(criterion, logits, EXITS)[:, :-1]
    assert thresholds[0] == values.min() and thresholds[-1] == values.max()
    assert thresholds[50] == pytest.approx(np.median(values))
    layers = [row[2] for row in rows[::2]]
    order = layers if criterion == "max_probability" else layers[::-1]
    assert order == sorted(order) and order[-1] == 6 and order[0] < 1.01
    full = rows[0] if criterion == "entropy" else rows[-2]
    assert full[3] == 1 and full[5] == score(logits[:, -1], labels, ["accuracy"])["accuracy"]


def test_speedup_and_score_of_a_threshold_follow_from_who_leaves_where() -> None:
    logits, labels = draw()
    exits = (2, 4, 6, 8, 10, 12)
    rows = sweep("entropy", logits, labels, exits, ["accuracy"])
    values = criterion_values("entropy", logits, exits)
    for row in rows[::10]:
        exit_index = exits_taken("entropy", values, np.array([row[1]]))[:, 0]
        counts = np.bincount(exit_index, minlength=6)  # N_m
        assert row[3] == pytest.approx(12 * counts.sum() / (exits * counts).sum())
        assert row[2] == pytest.approx(12 / row[3])
        chosen = logits.argmax(axis=2)[np.arange(len(labels)), exit_index]
        assert row[5] == (chosen == labels).mean()


def test_fixed_is_each_exits_own_score() -> None:
    logits, labels = draw()
    rows = sweep("fixed", logits, labels, EXITS, ["accuracy"])
    assert [row[1:4] for row in rows] == [(m, m, 6 / m) for m in EXITS]
    own = [score(logits[:, i], labels, ["accuracy"])["accuracy"] for i in range(6)]
    assert [row[5] for row in rows] == own


def test_patience_has_a_grid_of_its_own() -> None:
    rows = sweep("patience", *draw(), EXITS, ["accuracy"])
    assert [row[1] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0][2] >= 2 and rows[-1][2] == rows[-2][2] == 6


def test_a_large_dev_set_takes_little_memory() -> None:
    logits = np.random.default_rng(0).normal(size=(40_000, 12, 2)).astype(np.float32)
    exits = range(1, 13)
    tracemalloc.start()
    values = criterion_values("entropy", logits, exits)
    exits_taken("entropy", values, CRITERIA["entropy"].thresholds(values, exits))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_one_exit_is_nothing_to_sweep() -> None:
    logits, labels = draw(exits=1)
    with pytest.raises(InputError, match="one exit"):
        sweep("entropy", logits, labels, (6,), ["accuracy"])


@pytest.mark.parametrize(
    ("criterion", "threshold", "message"),
    [
        ("entropy", -0.1, "between 0 and 1"),
        ("entropy", float("nan"), "between 0 and 1"),
        ("max_probability", 1.1, "between 0 and 1"),
        ("patience", 0, "from 1 to 6"),
        ("patience", 7, "from 1 to 6"),
        ("patience", 1.5, "whole number"),
        ("fixed", 7, "no exit on that layer"),
    ],
)
def test_a_threshold_without_a_meaning_is_refused(
    criterion: str, threshold: float, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        CRITERIA[criterion].check(threshold, EXITS)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_sweeps_own_thresholds_have_one(criterion: str) -> None:
    logits, labels = draw()
    logits[:, 0] = 0  # an entropy of 1
    for row in sweep(criterion, logits, labels, EXITS, ["accuracy"]):
        CRITERIA[criterion].check(row[1], EXITS)


def test_score_at_a_speedup() -> None:
    speedups, scores = [3.0, 1.0, 2.0, 2.0], [0.5, 0.9, 0.7, 0.8]
    assert score_at(speedups, scores, 1.5) == pytest.approx((0.9 + 0.75) / 2)
    assert score_at(speedups, scores, 2.0) == pytest.approx(0.75)
    assert score_at(speedups, scores, 1.0) == 0.9 and score_at(speedups, scores, 3.0) == 0.5
    assert score_at(speedups, scores, 3.01) is None and score_at(speedups, scores, 0.99) is None


def test_area_is_a_mean_score() -> None:
    assert area_over_layers([1, 4], [0.8, 0.8], 0.25) == pytest.approx(0.8)
    # 0.4 at a quarter of the layers, 0.8 at all of them, linear over the fraction
    assert area_over_layers([4, 1], [0.4, 0.8], 0.25) == pytest.approx(0.6)
    # from 0.5 down to 0.25 it stays 0.4
    assert area_over_layers([1, 2], [0.8, 0.4], 0.25) == pytest.approx(
        (0.4 * 0.25 + 0.6 * 0.5) / 0.75
    )
    assert area_over_layers([2], [0.7], 0.25) == pytest.approx(0.7)
