"""What a report says that a study does otherwise."""

from pathlib import Path
from typing import Any

import pytest

from acl_bert.settings.deviations import deviations
from acl_bert.settings.study import load_study

CONFIG = Path(__file__).parents[2] / "config"
LONG = {"training": {"epochs": 10}}
TASKS: dict[str, dict[str, Any]] = {
    "cola": LONG, "sst2": {}, "mrpc": LONG, "qqp": {}, "mnli": {}, "qnli": {}, "rte": LONG
}  # fmt: skip
PAPER = {
    "name": "s",
    "source": {"kind": "hub"},
    "tasks": TASKS,
    "encoders": {"bert": {"path": "google-bert/bert-base-uncased"}},
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
        ({"tasks": TASKS | {"rte": {}}}, "training.epochs: 3, not 10 (rte)."),
        (
            {"tasks": TASKS | {"sst2": {"limit": {"train": 1000}}}},
            "tasks.sst2.limit: 1,000 train rows.",
        ),
        ({"tasks": {t: row for t, row in TASKS.items() if t != "qqp"}}, "tasks: no qqp."),
        ({"encoders": {"own": {"path": "a/b"}}}, "encoders.own: a/b."),
        (
            {"tuning": {"enabled": True, "lambdas": [0.5]}},
            "tuning.lambdas: (0.5,), not (0.1, 0.3, 0.5, 0.7, 0.9).",
        ),
        (
            {"methods": {"ce": {}, "mine": {"like": "acl", "temperature": 0.1}}},
            "methods: mine, of the study's own.",
        ),
        (
            {"methods": {"ce": {}, "acl": {"gate": {"threshold": 75}}}},
            "methods.acl: gate.threshold 75.",
        ),
        ({"methods": {"ce": {}, "acl": {"temperature": 0.1}}}, "methods.acl: temperature 0.1."),
    ],
)
def test_each_difference_is_named(change: dict[str, Any], said: str) -> None:
    assert deviations(load_study(PAPER | change)) == [said]


def test_hardware_and_titles_are_no_deviation() -> None:
    methods = {"ce": {"title": "plain"}, "acl": {"gate": {"mode": "discard"}}}
    change = {"training": {"threads": 4}, "methods": methods}
    assert deviations(load_study(PAPER | change)) == []
