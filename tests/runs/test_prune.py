"""What of the store may go: models that no study keeps, nor has students to come for."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from run_folders import finish_run

from acl_bert.cli import main
from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.files import write_text
from acl_bert.runs.code import running_code
from acl_bert.runs.files import lease_path
from acl_bert.runs.lease import hold
from acl_bert.runs.prune import prunable, prune_teachers
from acl_bert.runs.store import Store, address_of

TEACHER, STUDENT = ("rte", "tiny", "acl"), ("rte", "tiny", "acl_cl")
TUNED = {"enabled": True, "lambdas": [0.5], "seeds": [101]}


def study(results: Path, name: str = "one", **more: Any) -> Path:
    """The folder of a study of one teacher and its student."""
    config = {
        "name": name,
        "source": {"kind": "glue"},
        "tasks": {"rte": {}},
        "encoders": {"tiny": {"path": "x"}},
        "methods": {"acl": {}, "acl_cl": {}},
        "seeds": [1],
        "keep_models": "none",
    }
    write_text(results / name / "config.yaml", yaml.safe_dump(config | more))
    return results / name


def finish(folder: Path, method: str, seed: int = 1, weight: float | None = None) -> Path:
    """A finished run with a model; returns where its heavy parts are."""
    run = finish_run(folder, None, "rte", "tiny", method, seed, weight=weight)
    store = Store.beside(folder)
    write_text(store.model(run.name) / "model.safetensors", "w" * 2495)
    write_text(store.teacher_outputs(run.name), "items")
    return store.model(run.name).parent


def load(folder: Path) -> Study:
    return load_study(folder / "config.yaml")


def test_a_teacher_stays_until_its_last_student_is_named(tmp_path: Path) -> None:
    folder = study(tmp_path)
    teacher = finish(folder, "acl")
    prune_teachers(load(folder), folder, *TEACHER, 1)
    assert prunable(tmp_path) == [] and teacher.is_dir()
    student = finish(folder, "acl_cl")
    assert set(prunable(tmp_path)) == {teacher, student}
    prune_teachers(load(folder), folder, *STUDENT, 1)
    assert not teacher.exists()


def test_the_students_that_try_a_lambda_count(tmp_path: Path) -> None:
    folder = study(tmp_path, methods={"acl": {"lambda": 0.5}, "acl_cl": {}}, tuning=TUNED)
    teacher = finish(folder, "acl", seed=101)
    assert prunable(tmp_path) == []
    finish_run(folder, None, *STUDENT, 101, weight=0.5)
    assert prunable(tmp_path) == [teacher]


def test_what_another_study_needs_stays(tmp_path: Path) -> None:
    folder = study(tmp_path)
    other = study(tmp_path, "two")
    teacher = finish(folder, "acl")
    assert finish(other, "acl") == teacher
    finish_run(folder, None, *STUDENT, 1)
    prune_teachers(load(folder), folder, *STUDENT, 1)
    assert prunable(tmp_path) == [] and teacher.is_dir()
    finish_run(other, None, *STUDENT, 1)
    assert prunable(tmp_path) == [teacher]


@pytest.mark.parametrize(("keep", "kept"), [("all", {0, 1}), ("teachers", {0}), ("none", set())])
def test_a_study_keeps_what_it_says(tmp_path: Path, keep: str, kept: set[int]) -> None:
    folder = study(tmp_path, keep_models=keep)
    heavy = [finish(folder, "acl"), finish(folder, "acl_cl")]
    gone = set(prunable(tmp_path))
    assert gone == {each for place, each in enumerate(heavy) if place not in kept}


def test_what_nobody_can_tell_is_kept(tmp_path: Path) -> None:
    """Such as the models of runs that were started by hand, without a workflow."""
    folder = study(tmp_path)
    finish(folder, "acl_cl")
    (folder / "config.yaml").unlink()
    assert prunable(tmp_path, unnamed_runs=True) == []
    write_text(folder / "config.yaml", "name: [")
    with pytest.raises(InputError, match="What this study needs cannot be told"):
        prunable(tmp_path)


def test_what_a_student_reads_now_stays(tmp_path: Path) -> None:
    folder = study(tmp_path)
    teacher = finish(folder, "acl")
    finish_run(folder, None, *STUDENT, 1)
    outputs = Store.beside(folder).teacher_outputs(teacher.name)
    with hold(lease_path(outputs), print):
        assert prunable(tmp_path) == []
    assert prunable(tmp_path) == [teacher]


def test_unfinished_runs_of_other_code_and_damaged_ones_go(tmp_path: Path) -> None:
    folder = study(tmp_path)
    store = Store.beside(folder)
    present = store.work(address_of("a" * 64, running_code().digest))
    other, live = (store.work(address_of("a" * 64, code)) for code in ("older", "newer"))
    for work in (present, other, live):
        write_text(work / "history.csv", "step")
    store.run(other.name).path.mkdir()
    damaged = store.set_aside(other.name, "torn")
    with hold(lease_path(live), print):
        found = prunable(tmp_path)
    assert {other, damaged} <= set(found)
    assert not {present, live} & set(found)
    assert main(["prune", "--results", str(tmp_path)]) == 0
    assert not other.exists() and not damaged.exists() and present.is_dir()


def test_the_verb_says_what_it_frees(tmp_path: Path, capsys: Any) -> None:
    folder = study(tmp_path)
    student = finish(folder, "acl_cl")
    unnamed = finish(study(tmp_path, "two"), "ce").name
    run = Store.beside(folder).run(unnamed).path
    (tmp_path / "two" / "runs" / "rte" / "tiny" / "ce" / "seed-1.json").unlink()
    called = ["prune", "--results", str(tmp_path)]
    assert main([*called, "--dry-run"]) == 0
    *folders, total = capsys.readouterr().out.splitlines()
    heavy = {str(student), str(student.with_name(unnamed))}
    assert set(folders) == heavy and total == "2 folders, 5.0 kB would be freed"
    assert student.is_dir()
    assert main(called) == 0
    assert capsys.readouterr().out.endswith("2 folders, 5.0 kB freed\n")
    assert not student.exists() and run.is_dir()
    assert main([*called, "--unnamed-runs"]) == 0
    assert capsys.readouterr().out.startswith(f"{run}\n1 folders, ")
    assert not run.exists() and Store.beside(folder).run(student.name).finished
