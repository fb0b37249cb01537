import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from acl_bert.evaluation.metrics import METRICS, confusion, is_degenerate, score

LABELS = np.array([0, 0, 1, 1, 1])


def logits(*predictions: int, classes: int = 2) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[list(predictions)]


def test_values_worked_out_by_hand() -> None:
    # tp 2, fn 1, fp 1, tn 1
    values = score(
        logits(0, 1, 1, 1, 0), LABELS, ["accuracy", "f1", "accuracy_f1", "matthews"], "_x"
    )
    assert values == pytest.approx(
        {
            "accuracy_x": 3 / 5,
            "f1_x": 2 / 3,
            "accuracy_f1_x": (3 / 5 + 2 / 3) / 2,
            "matthews_x": (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2),
        }
    )


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [((1, 1, 1, 1, 1), True), ((0, 1, 1, 1, 0), False), ((0, 0, 1, 1, 1), False)],
)
def test_one_class_alone_is_degenerate(predictions: tuple[int, ...], expected: bool) -> None:
    assert is_degenerate(logits(*predictions), LABELS) is expected


def test_a_matthews_of_zero_is_degenerate_too() -> None:
    assert is_degenerate(logits(0, 1, 0, 1), np.array([0, 0, 1, 1])) is True


def test_never_predicting_the_positive_class_is_f1_zero_not_nan() -> None:
    assert score(logits(0, 0, 0, 0, 0), LABELS, ["f1"]) == {"f1": 0.0}


def test_three_classes() -> None:
    values = score(logits(0, 1, 2, 2, classes=3), np.array([0, 1, 2, 0]), ["accuracy"])
    assert values == {"accuracy": 0.75}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_many_sets_at_once_score_as_scikit_learn_scores_each(classes: int, rows: int) -> None:
    draw = np.random.default_rng(rows)
    labels = draw.integers(0, classes, rows)
    predictions = draw.integers(0, classes, (rows, 5, 2))
    predictions[:, 0] = 0  # one class throughout
    predictions[:, 1] = labels[:, None]
    expected = {
        "accuracy": sklearn_metrics.accuracy_score,
        "matthews": sklearn_metrics.matthews_corrcoef,
    }
    if classes == 2:
        expected["f1"] = lambda y, z: sklearn_metrics.f1_score(y, z, labels=[1], average="macro")
    counts = confusion(labels, predictions, classes)
    for name, of in expected.items():
        found = METRICS[name](counts)
        assert found.shape == (5, 2)
        for place in np.ndindex(found.shape):
            wanted = of(labels, predictions[:, *place])
            assert found[place] == pytest.approx(wanted, abs=1e-12), (name, place)
