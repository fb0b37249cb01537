"""What a report says that a study does otherwise."""

from pathlib import Path
from typing import Any

import pytest

from acl_bert.settings.deviations import deviations
from acl_bert.settings.study import load_study

CONFIG = Path(__file__).parents[2] / "config"
PAPER = {
    "name": "s",
    "source": {"kind": "generator"},
    "tasks": {"rte": {"training": {"epochs": 10}}, "sst2": {}},
    "encoders": {"bert": {"path": "x"}},
    "methods": {"ce": {}, "acl": {}},
    "seeds": [1, 2, 3, 4, 5],
    "tuning": {"enabled": True},
}


def test_the_papers_study_deviates_in_nothing() -> None:
    assert deviations(load_study(CONFIG / "paper.yaml")) == []
    assert deviations(load_study(PAPER)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seeds": [1]}, "seeds: 1, not 5."),
        ({"tuning": {}}, "tuning.enabled: λ is not tuned; each method has that of its row."),
        ({"selection": {"fraction": 0.2}}, "selection.fraction: 0.2, not 0.1."),
        ({"training": {"learning_rate": 1e-4}}, "training.learning_rate: 0.0001, not 2e-05."),
        ({"tasks": {"rte": {}, "sst2": {}}}, "training.epochs: 3, not 10 (rte)."),
        ({"methods": {"ce": {}, "acl": {"temperature": 0.1}}}, "methods.acl: temperature 0.1."),
    ],
)
def test_each_difference_is_named(change: dict[str, Any], said: str) -> None:
    assert deviations(load_study(PAPER | change)) == [said]


def test_hardware_and_titles_are_no_deviation() -> None:
    change = {"training": {"threads": 4}, "methods": {"ce": {"title": "plain"}, "acl": {}}}
    assert deviations(load_study(PAPER | change)) == []
