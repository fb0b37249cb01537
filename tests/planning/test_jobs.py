"""What the workflow's rules are told about their jobs."""

import json
from pathlib import Path
from typing import Any

import pytest

from acl_bert.config.study import load_study
from acl_bert.errors import InputError
from acl_bert.planning import disk
from acl_bert.planning.hours import Slots
from acl_bert.planning.jobs import Jobs
from acl_bert.study.planned import Run

STUDY: dict[str, Any] = {
    "name": "small",
    "source": {"kind": "glue"},
    "tasks": {"rte": {}, "qqp": {"training": {"device": "cpu"}}},
    "encoders": {"tiny": {"path": "google-bert/bert-base-uncased"}},
    "methods": {"ce": {}, "acl": {}, "acl_cl": {}},
    "seeds": [1, 2],
    "tuning": {"enabled": True, "lambdas": [0.5], "seeds": [101]},
}


def jobs_of(**changes: Any) -> Jobs:
    return Jobs(load_study(STUDY | changes), Path("small"), Slots(jobs=8, cores=1, gpus=None))


def wildcards(method: str, seed: int = 1, task: str = "rte", **more: str) -> dict[str, str]:
    return {"task": task, "encoder": "tiny", "method": method, "seed": str(seed)} | more


def test_a_runs_parameters_change_with_its_settings_alone() -> None:
    def settings(method: str, seed: int = 1, **changes: Any) -> Any:
        return json.loads(jobs_of(**changes).run_settings(wildcards(method, seed)))

    [first, code] = settings("ce")
    [second, _] = settings("ce", seed=2)
    assert code is None and second == first | {"seed": 2}
    assert settings("ce", methods={"ce": {"title": "Other"}}) == settings("ce")
    assert settings("ce", training={"epochs": 4}) != settings("ce")
    assert settings("ce", code="same")[1]


def test_runs_wait_for_their_teacher_and_the_choice_of_lambda() -> None:
    jobs = jobs_of()
    assert jobs.teacher(wildcards("acl_cl", 2)) == ["small/runs/rte/tiny/acl/seed-2.json"]
    assert jobs.chosen_lambda(wildcards("acl_cl")) == ["small/tuning/rte/tiny/acl_cl/lambda.json"]
    assert jobs.teacher(wildcards("ce")) == jobs.chosen_lambda(wildcards("ce")) == []


def test_students_come_before_the_next_seed() -> None:
    jobs = jobs_of()
    order = [("acl_cl", 101), ("acl", 101), ("acl_cl", 1), ("acl", 1), ("acl_cl", 2), ("acl", 2)]
    priorities = [jobs.priority(wildcards(method, seed)) for method, seed in order]
    assert priorities == sorted(set(priorities), reverse=True)


def test_short_runs_of_a_configuration_form_a_group() -> None:
    """RTE on a GPU is short, QQP on a CPU is not."""
    jobs = jobs_of()
    assert jobs.group(wildcards("acl", 1)) == jobs.group(wildcards("acl", 2)) == "runs_rte_tiny_acl"
    assert jobs.group(wildcards("acl", 101, weight="0.5")) == "tuning_rte_tiny_acl"
    assert jobs.group(wildcards("acl", task="qqp")) is None
    assert (jobs.gpus(wildcards("acl")), jobs.gpus(wildcards("acl", task="qqp"))) == (1, 0)
    minutes = [jobs.minutes(wildcards("acl"), attempt) for attempt in (1, 2, 3)]
    assert minutes == [minutes[0], 2 * minutes[0], 3 * minutes[0]]


def test_a_small_disk_is_refused_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = disk.shutil.disk_usage(".")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage._replace(free=1))
    with pytest.raises(InputError, match="free, but this study writes"):
        jobs_of().before_start([Run("rte", "tiny", "ce", 1)])
