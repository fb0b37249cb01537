"""Which rows are drawn: the limit, the rows held out, and the sample that a λ is tried on."""

import numpy as np
import pytest

from acl_bert.data.sources import Example
from acl_bert.data.spec import Selection, resolve
from acl_bert.data.split import hold_out, limit, sample
from acl_bert.errors import InputError

LABELS = np.random.default_rng(0).choice(3, size=3000, p=[0.7, 0.2, 0.1])
FORTY = [0, 1, 1, 0, 1, 1, 1, 0, 1, 0] * 4


def test_the_drawn_rows_are_known() -> None:
    """Other rows would change every number of every study, and no other test would notice."""
    rows = [Example(i, ["a", "b"], label) for i, label in enumerate(FORTY)]
    limited = limit(resolve("rte"), rows, 10, "train")
    assert [row.index for row in limited] == [0, 2, 3, 4, 6, 16, 21, 23, 29, 38]
    rest, held_out = hold_out(resolve("rte"), rows, Selection(fraction=0.2))
    assert [row.index for row in held_out] == [0, 1, 7, 18, 27, 32, 35, 36]
    assert sorted(row.index for row in rest + held_out) == list(range(40))
    tried = sample(np.array(FORTY), 10, "rte")
    assert tried.tolist() == [3, 4, 5, 11, 15, 16, 17, 33, 34, 39]


def test_a_sample_is_stratified_and_in_order() -> None:
    chosen = sample(LABELS, 500, "own")
    assert len(chosen) == 500 and (np.diff(chosen) > 0).all()
    before, after = (np.bincount(x) / len(x) for x in (LABELS, LABELS[chosen]))
    np.testing.assert_allclose(after, before, atol=1 / 500)


@pytest.mark.parametrize("rows", [None, 3000, 3001])
def test_fewer_rows_are_taken_whole(rows: int | None) -> None:
    np.testing.assert_array_equal(sample(LABELS, rows, "own"), np.arange(3000))


def test_a_sample_that_cannot_hold_every_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"tuning\.max_rows: 2 of 3000 rows"):
        sample(LABELS, 2, "own")
    with pytest.raises(InputError, match=r"tasks\.own: class 3 has 1 row of 3001"):
        sample(np.append(LABELS, 3), 500, "own")
