"""The mirror of a run's files in MLflow, against real stores."""

import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from mlflow_store import curve, everything, mirror, runs_of
from run_folders import append, finish_run, history_line, start_run

from acl_bert.files import read_json, write_json
from acl_bert.tracking.mirror import flatten

HASH = "a" * 64


def test_a_finished_run_is_all_there_and_twice_changes_nothing(study: Path, sqlite: str) -> None:
    folder = finish_run(study, seed=3, run_hash=HASH)
    run_id = mirror(folder, sqlite, study)
    (run,) = runs_of(sqlite, study)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "rte · acl · tiny · seed 3"
    assert run.info.end_time - run.info.start_time == 7000
    expected = {
        "task": "rte",
        "method": "acl",
        "encoder": "tiny",
        "seed": "3",
        "commit": "c" * 40,
        "data_fingerprint": "f" * 64,
        "degenerate": "false",
        "acl.run_hash": HASH,
        "acl.mirrored_steps": "3",
    }
    assert expected.items() <= run.data.tags.items()
    assert run.data.params["method.lambda"] == "0.5"
    assert len(run.data.params["training.note"]) == 500
    assert run.data.metrics["dev/accuracy"] == run.data.metrics["dev/score"] == 0.53
    assert run.data.metrics["selection/accuracy"] == 0.75
    assert run.data.metrics["seconds/total"] == 7.0
    assert curve(sqlite, run_id, "step/loss") == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert curve(sqlite, run_id, "epoch/selection_accuracy") == [(2, 0.5), (3, 0.75)]
    assert "step/contrastive" not in run.data.metrics  # its cells are empty
    before = everything(sqlite, study, run_id)
    assert before["files"] == [
        "config.json",
        "epochs.csv",
        "history.csv",
        "logits.safetensors",
        "metrics.json",
        "predictions.csv",
        "representations.safetensors",
        "timings.json",
    ]
    assert (study / "mlartifacts").is_dir()
    assert mirror(folder, sqlite, study) == run_id
    assert everything(sqlite, study, run_id) == before
    assert len(runs_of(sqlite, study, ViewType.ALL)) == 1


def test_a_run_that_was_interrupted_ends_when_it_ended(study: Path, sqlite: str) -> None:
    folder = finish_run(study, started="2026-01-01T00:00:00+00:00", seconds=7.0)
    timings = read_json(folder / "timings.json")
    write_json(folder / "timings.json", timings | {"ended": "2026-01-01T01:00:00+00:00"})
    points = everything(sqlite, study, mirror(folder, sqlite, study))["points"]
    (run,) = runs_of(sqlite, study)
    assert run.info.end_time - run.info.start_time == 3600 * 1000
    for name in ("dev/accuracy", "step/loss"):
        assert {moment for _, _, moment in points[name]} == {run.info.end_time}


def test_the_exits_of_a_run_are_a_curve_over_layers(study: Path, sqlite: str) -> None:
    exits = {layer: {"accuracy": 0.5 + layer / 100} for layer in (1, 2, 3)}
    folder = finish_run(study, exits=exits)
    run_id = mirror(folder, sqlite, study)
    assert curve(sqlite, run_id, "exits/accuracy") == [(1, 0.51), (2, 0.52), (3, 0.53)]
    (run,) = runs_of(sqlite, study)
    assert run.data.metrics["dev/accuracy"] == 0.53


def test_a_mirror_cut_short_is_completed_without_a_point_twice(study: Path, sqlite: str) -> None:
    folder = finish_run(study)
    (folder / "predictions.csv").rename(folder / "aside")
    with pytest.raises(Exception, match=r"predictions\.csv"):
        mirror(folder, sqlite, study)
    assert [run.info.status for run in runs_of(sqlite, study)] == ["RUNNING"]
    (folder / "aside").rename(folder / "predictions.csv")
    run_id = mirror(folder, sqlite, study)
    points = everything(sqlite, study, run_id)["points"]
    assert [len(values) for name, values in points.items() if name.startswith("step/")] == [3] * 8
    assert len(points["dev/accuracy"]) == 1
    assert [run.info.status for run in runs_of(sqlite, study)] == ["FINISHED"]


def test_growth_appends_whole_new_rows_only(study: Path, sqlite: str) -> None:
    work = start_run(study, steps=2)
    run_id = mirror(work, sqlite, study)
    assert MlflowClient(sqlite).get_run(run_id).info.status == "RUNNING"
    before = everything(sqlite, study, run_id)["points"]["step/loss"]
    time.sleep(0.01)
    append(work / "history.csv", history_line(3) + history_line(4)[:7])
    assert mirror(work, sqlite, study) == run_id
    after = everything(sqlite, study, run_id)["points"]["step/loss"]
    assert after[:2] == before  # time stamps too
    assert [step for step, _, _ in after] == [1, 2, 3]
    append(work / "history.csv", history_line(4)[7:])
    mirror(work, sqlite, study)
    assert curve(sqlite, run_id, "step/loss") == [(n, 1 / n) for n in range(1, 5)]


def test_a_setting_that_the_hash_leaves_out_may_change(study: Path, sqlite: str) -> None:
    work = start_run(study)
    run_id = mirror(work, sqlite, study)
    config = read_json(work / "config.json")
    config["method"] |= {"title": "another", "new": 1}
    write_json(work / "config.json", config)
    assert mirror(work, sqlite, study) == run_id
    params = MlflowClient(sqlite).get_run(run_id).data.params
    assert (params["method.title"], params["method.new"]) == ("acl", "1")


def test_more_rows_than_one_call_may_carry(study: Path, sqlite: str) -> None:
    run_id = mirror(start_run(study, steps=300), sqlite, study)
    assert len(curve(sqlite, run_id, "step/angle")) == 300
    assert MlflowClient(sqlite).get_run(run_id).data.tags["acl.mirrored_steps"] == "300"


def test_of_a_long_run_every_tenth_step_is_drawn(study: Path, sqlite: str) -> None:
    run_id = mirror(start_run(study, steps=1025), sqlite, study)
    steps = [step for step, _ in curve(sqlite, run_id, "step/loss")]
    assert steps == [*range(1, 1001), 1010, 1020]
    (run,) = runs_of(sqlite, study)
    assert run.data.tags["acl.mirrored_steps"] == "1025"


def test_a_rerun_with_other_settings_leaves_one_live_run(study: Path, sqlite: str) -> None:
    first = mirror(finish_run(study), sqlite, study)
    other = [
        mirror(finish_run(study, seed=2, run_hash="d" * 64), sqlite, study),
        mirror(finish_run(study, method="ce", run_hash="e" * 64), sqlite, study),
    ]
    second = mirror(start_run(study, run_hash="b" * 64), sqlite, study)
    live = {run.info.run_id for run in runs_of(sqlite, study)}
    assert live == {second, *other}
    deleted = [run.info.run_id for run in runs_of(sqlite, study, ViewType.DELETED_ONLY)]
    assert deleted == [first]


def test_training_again_with_the_same_hash_starts_a_new_run(study: Path, sqlite: str) -> None:
    first = mirror(finish_run(study), sqlite, study)
    work = start_run(study, steps=1)
    live = mirror(work, sqlite, study)
    assert live != first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [live]
    again = finish_run(study, started="2026-02-02T00:00:00+00:00")
    assert mirror(again, sqlite, study) == live
    # Nobody followed this one: its files alone tell that they are of a later training.
    third = mirror(finish_run(study, started="2026-03-03T00:00:00+00:00"), sqlite, study)
    assert third != live
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [third]


def test_a_training_begun_again_does_not_keep_the_points_of_the_first(
    study: Path, sqlite: str
) -> None:
    first = mirror(start_run(study, steps=3), sqlite, study)
    second = mirror(start_run(study, steps=1), sqlite, study)
    assert second != first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [second]
    assert curve(sqlite, second, "step/loss") == [(1, 1.0)]


def test_duplicates_of_a_run_are_deleted(study: Path, sqlite: str) -> None:
    work = start_run(study)
    first = mirror(work, sqlite, study)
    client = MlflowClient(sqlite)
    run = client.get_run(first)
    tags = {k: v for k, v in run.data.tags.items() if k != "mlflow.runName"}
    client.create_run(run.info.experiment_id, tags=tags)
    assert mirror(work, sqlite, study) == first
    assert [run.info.run_id for run in runs_of(sqlite, study)] == [first]


def test_a_store_without_the_experiment_or_a_file_raises(tmp_path: Path, sqlite: str) -> None:
    folder = finish_run(tmp_path)
    with pytest.raises(Exception, match="no such store"):
        mirror(folder, f"sqlite:///{tmp_path}/none.db", "study")
    assert not (tmp_path / "none.db").exists()


def test_settings_are_flattened_and_cut() -> None:
    settings = {"a": {"b": 0.5, "c": [1, 2]}, "d": None, "e": True, "f": "x" * 501}
    assert flatten(settings) == {
        "a.b": "0.5",
        "a.c": "[1, 2]",
        "d": "null",
        "e": "true",
        "f": "x" * 499 + "…",
    }


def test_a_student_leads_to_its_teacher(study: Path, sqlite: str) -> None:
    teacher = mirror(finish_run(study, run_hash=HASH), sqlite, study)
    folder = finish_run(study, method="acl_cl", run_hash="b" * 64)
    config = read_json(folder / "config.json")
    config["method"] |= {"title": "ACL-CL", "teacher": "acl"}
    config |= {"teacher_run": HASH, "selection_metric": "accuracy"}
    write_json(folder / "config.json", config)
    student = MlflowClient(sqlite).get_run(mirror(folder, sqlite, study))
    name = "rte · acl · tiny · seed 1"
    assert student.data.tags["teacher"] == name
    assert student.data.tags["acl.teacher_hash"] == HASH
    note = student.data.tags["mlflow.note.content"]
    found = re.fullmatch(
        r"ACL-CL on rte with tiny\. It learns from \[(.+)\]\((.+)\)\. `dev/score` is its accuracy.",
        note,
    )
    assert found and found[1] == name
    query = unquote(found[2].partition("searchFilter=")[2])
    (linked,) = MlflowClient(sqlite).search_runs([student.info.experiment_id], query)
    assert linked.info.run_id == teacher


@pytest.mark.parametrize(
    ("method", "kind", "base"),
    [("acl", "run", "acl"), ("acl@temperature=0.1", "variant", "acl")],
)
def test_tags_group_the_variants_of_a_method(
    method: str, kind: str, base: str, study: Path, sqlite: str
) -> None:
    mirror(finish_run(study, method=method), sqlite, study)
    (run,) = runs_of(sqlite, study)
    assert (run.data.tags["kind"], run.data.tags["base_method"]) == (kind, base)
    assert run.data.tags["title"] == method
