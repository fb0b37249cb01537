"""The sample of train rows that a λ is tried on."""

import numpy as np
import pytest

from acl_bert.data.split import sample
from acl_bert.errors import InputError

LABELS = np.random.default_rng(0).choice(3, size=3000, p=[0.7, 0.2, 0.1])


def test_a_sample_is_stratified_in_order_and_always_the_same() -> None:
    chosen = sample(LABELS, 500, "own")
    assert len(chosen) == 500 and (np.diff(chosen) > 0).all()
    before, after = (np.bincount(x) / len(x) for x in (LABELS, LABELS[chosen]))
    np.testing.assert_allclose(after, before, atol=1 / 500)
    np.testing.assert_array_equal(sample(LABELS.copy(), 500, "own"), chosen)
    assert (chosen > 2000).any() and (chosen < 1000).any()


@pytest.mark.parametrize("rows", [None, 3000, 3001])
def test_fewer_rows_are_taken_whole(rows: int | None) -> None:
    np.testing.assert_array_equal(sample(LABELS, rows, "own"), np.arange(3000))


def test_a_sample_that_cannot_hold_every_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"tuning\.max_rows: 2 of 3000 rows"):
        sample(LABELS, 2, "own")
    with pytest.raises(InputError, match=r"tasks\.own: class 3 has 1 row of 3001"):
        sample(np.append(LABELS, 3), 500, "own")
