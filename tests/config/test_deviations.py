"""What a report says that a study does otherwise."""

from pathlib import Path
from typing import Any

import pytest

from acl_bert.config.deviations import deviations
from acl_bert.config.study import load_study

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
    "tuning": {"enabled": True, "max_rows": 400_000},
}


SAMPLED = (
    "tuning.max_rows: on sst2, qqp, mnli, qnli λ is tuned on a stratified sample of 20,000 train "
    "rows."
)


def test_the_papers_study_deviates_in_what_is_tuned_alone() -> None:
    assert deviations(load_study(CONFIG / "paper.yaml")) == [
        "tuning.lambda_of: some methods take the λ of another: acl_embed of acl, jt_scl of ce_scl, "
        "acl_cl_no_gate of acl_cl, acl_cl_no_labels of acl_cl, acl_cl_no_cross_layer of acl_cl, "
        "acl_cl_ce_teacher of acl_cl.",
        "tuning: λ of some methods is not tuned: logits_kd 0.5, feature_kd 0.5.",
        SAMPLED,
    ]
    assert deviations(load_study(PAPER)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seeds": [1]}, "seeds: 1, not 5."),
        ({"tuning": {}}, "tuning.enabled: λ is not tuned; each method has that of its row."),
        ({"tuning": {"enabled": True}}, SAMPLED),
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
            {"tuning": {"enabled": True, "max_rows": 400_000, "lambdas": [0.5]}},
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
