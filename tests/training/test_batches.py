import numpy as np
import pytest

from acl_bert.training.batches import evaluation_batches, train_batches

LENGTHS = np.random.default_rng(0).integers(5, 128, size=3000)


def padded(batches: list[np.ndarray]) -> int:
    return sum(len(batch) * LENGTHS[batch].max() for batch in batches)


@pytest.mark.parametrize("grouped", [True, False])
def test_every_row_once_in_full_batches(grouped: bool) -> None:
    batches = train_batches(LENGTHS, 32, grouped, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(3000))
    assert sorted(map(len, batches))[:2] == [3000 % 32, 32]


def test_grouping_saves_padding_and_keeps_the_order_random() -> None:
    grouped = train_batches(LENGTHS, 32, True, np.random.default_rng(1))
    shuffled = train_batches(LENGTHS, 32, False, np.random.default_rng(1))
    assert padded(grouped) < 1.06 * LENGTHS.sum() < padded(shuffled) / 1.5
    means = [LENGTHS[batch].mean() for batch in grouped]
    assert abs(np.corrcoef(range(len(means)), means)[0, 1]) < 0.3


@pytest.mark.parametrize("grouped", [True, False])
def test_the_generator_alone_decides(grouped: bool) -> None:
    first, again, other = (
        train_batches(LENGTHS, 32, grouped, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_fewer_rows_than_a_batch() -> None:
    assert [len(b) for b in train_batches(LENGTHS[:3], 32, True, np.random.default_rng(0))] == [3]


def test_evaluation_starts_with_the_longest() -> None:
    batches = evaluation_batches(LENGTHS, 64)
    assert sorted(np.concatenate(batches)) == list(range(3000))
    assert LENGTHS[batches[0]].max() == LENGTHS.max()
    assert padded(batches) < 1.02 * LENGTHS.sum()
