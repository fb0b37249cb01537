"""Studies that call equal runs differently share them, and train each once."""

import csv
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_runs import tiny_job

from acl_bert.cli import main
from acl_bert.config.study import Study, load_study
from acl_bert.runs.code import running_code
from acl_bert.runs.files import find_names, in_progress_path, lease_path, name_path
from acl_bert.runs.lease import hold
from acl_bert.runs.store import Store, address_of, read_name
from acl_bert.training.jobs import Job, study_job

ONE = {"task": "tiny", "encoder": "small", "acl": "acl", "acl_cl": "acl_cl"}
TWO = {"task": "cats", "encoder": "mini", "acl": "ours", "acl_cl": "theirs"}
METHODS = {"acl": {}, "acl_cl": {}}
RENAMED = {
    "ours": {"like": "acl", "title": "Ours"},
    "theirs": {"like": "acl_cl", "title": "Theirs", "teacher": "ours"},
}


def config(
    name: str, names: dict[str, str], methods: dict[str, Any], encoder: Path, tokens: Path,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A study of the tiny task's rows."""
    files = {split: f"{split}.tsv" for split in ("train", "selection", "dev")}
    task = {
        "title": "Tiny", "text": ["sentence"], "labels": ["no", "yes"],
        "metrics": ["accuracy", "f1", "matthews"], "selection_metric": "accuracy", "files": files,
    }  # fmt: skip
    training = {"epochs": 1, "batch_size": 16, "max_length": 32, "precision": "fp32"}
    return {
        "name": name,
        "source": {"kind": "files", "folder": str(tokens.parent)},
        "tasks": {names["task"]: task},
        "encoders": {names["encoder"]: {"path": str(encoder)}},
        "methods": methods,
        "seeds": [1],
        "training": training | {"device": "cpu"},
        "tracking": {"enabled": False},
    } | more


@pytest.fixture
def both(tmp_path: Path, tiny_encoder: Path, tiny_task: Path) -> tuple[Path, Path]:
    """The files of two studies with the same rows, encoder and methods under other names."""
    paths = tmp_path / "one.yaml", tmp_path / "two.yaml"
    for path, names, methods in zip(paths, (ONE, TWO), (METHODS, RENAMED), strict=True):
        given = config(path.stem, names, methods, tiny_encoder, tiny_task)
        path.write_text(yaml.safe_dump(given))
    return paths


def arguments(verb: str, path: Path, *more: str) -> list[str]:
    return [verb, "--config", str(path), "--results", str(path.parent / "results"), *more]


def finetune(path: Path, names: dict[str, str], method: str) -> list[str]:
    return arguments("finetune", path, "--task", names["task"], "--method", names[method])


def stored(results: Path) -> dict[str, int]:
    """The store's runs; a file's number changes where it is written again."""
    files = (results / "store").glob("*/metrics.json")
    return {path.parent.name: path.stat().st_ino for path in files}


def test_equal_runs_under_other_names_are_one(both: tuple[Path, Path], capsys: Any) -> None:
    """Also a student's, whose teacher is called otherwise; each study's tables have its names."""
    one, two = both
    results = one.parent / "results"
    assert main(finetune(one, ONE, "acl_cl")) == 0  # and its teacher first
    before = stored(results)
    assert len(before) == 2
    for method in ("acl", "acl_cl"):
        assert main(finetune(two, TWO, method)) == 0
    assert stored(results) == before
    for path, names in zip(both, (ONE, TWO), strict=True):
        assert main(arguments("collect", path)) == 0  # what is of other settings is left out
        with (results / path.stem / "runs.csv").open() as stream:
            rows = {(row["task"], row["encoder"], row["method"]) for row in csv.DictReader(stream)}
        cell = names["task"], names["encoder"]
        assert rows == {(*cell, names["acl"]), (*cell, names["acl_cl"])}

    # For its model a run is trained again, by whichever study; it stays what it is.
    shutil.rmtree(results / "store" / "heavy")
    capsys.readouterr()
    assert main(finetune(two, TWO, "acl")) == 0
    said = capsys.readouterr().out
    assert "epoch 1/1" in said and "not quite those" not in said
    assert stored(results) == before


@pytest.mark.parametrize("torn", ["teacher_outputs.safetensors", "model/model.safetensors"])
def test_a_damaged_heavy_part_is_made_again(both: tuple[Path, Path], torn: str) -> None:
    """What a student reads of its teacher; the teacher's model too, where it is needed."""
    one, _ = both
    results = one.parent / "results"
    assert main(finetune(one, ONE, "acl_cl")) == 0
    (outputs,) = (results / "store" / "heavy").glob("*/teacher_outputs.safetensors")
    path = outputs.parent / torn
    whole = path.read_bytes()
    for damaged in (whole[:-40], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        if torn.startswith("model"):
            outputs.unlink()
        student = name_path(results / "one", "tiny", "small", "acl_cl", 1)
        shutil.rmtree(results / "store" / read_name(student)["run"])
        assert main(finetune(one, ONE, "acl_cl")) == 0
        assert path.read_bytes() == whole


def test_a_student_of_another_teacher_is_left_out(both: tuple[Path, Path]) -> None:
    """Though the teacher's name is the same."""
    one, _ = both
    results = one.parent / "results"
    assert main(finetune(one, ONE, "acl_cl")) == 0
    given = yaml.safe_load(one.read_text())
    given["methods"]["acl"] = {"temperature": 0.1}
    one.write_text(yaml.safe_dump(given))
    assert main(finetune(one, ONE, "acl")) == 0
    assert main(arguments("collect", one)) == 0
    with (results / "one" / "runs.csv").open() as stream:
        assert {row["method"] for row in csv.DictReader(stream)} == {"acl"}


def test_two_studies_that_start_at_once_train_an_equal_run_once(both: tuple[Path, Path]) -> None:
    results = both[0].parent / "results"
    store, addresses = Store(results / "store"), set()
    cells = [(names["task"], names["encoder"], names["acl"]) for names in (ONE, TWO)]
    for path, (task, encoder, method) in zip(both, cells, strict=True):
        of = ("--task", task)
        assert main(arguments("prepare", path, *of)) == 0
        assert main(arguments("tokenise", path, *of, "--encoder", encoder)) == 0
        study = load_study(path)
        job = study_job(study, results / study.name, task, encoder, method, 1)
        addresses.add(address_of(job.key_hash, running_code().digest))
    (address,) = addresses
    waiting = [in_progress_path(results / path.stem, address) for path in both]
    processes = []
    with hold(lease_path(store.work(address)), print):
        for path, names in zip(both, (ONE, TWO), strict=True):
            command = [sys.executable, "-m", "acl_bert", *finetune(path, names, "acl")]
            processes.append(
                subprocess.Popen([*command, "--prepared"], stdout=subprocess.PIPE, text=True)
            )
        # Both have looked into the store, in vain, when they say what is in progress.
        deadline = time.monotonic() + 120
        while not all(path.is_file() for path in waiting) and time.monotonic() < deadline:
            time.sleep(0.05)
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted("epoch 1/1" in text for text in said) == [False, True]
    for path, cell in zip(both, cells, strict=True):
        name = name_path(results / path.stem, *cell, 1)
        assert list(find_names(results / path.stem)) == [name]
        assert store.named(name, contents=True).path.name == address
    assert not any(path.exists() for path in waiting)
    shutil.rmtree(results / "one")
    name = name_path(results / "two", *cells[1], 1)
    assert store.named(name, contents=True).metrics()["method"] == "ours"


# ---- What makes another run, and what does not


def job(study: Study, encoder: Path, tokens: Path, method: str = "acl", **cell: Any) -> Job:
    """As `study_job` makes it, on the tiny task's tokens."""
    (task,), (name,) = study.tasks, study.encoders
    settings = study.run_settings(task, name, method, cell.get("seed", 1), cell.get("weight"))
    teacher = settings.method.teacher
    first = job(study, encoder, tokens, teacher, **cell) if teacher else None
    return tiny_job(settings, encoder, tokens, first)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("acl", {"name": "other"}),
        ("acl", {"methods": {"acl": {"title": "Ours"}, "acl_cl": {}}}),
        ("acl", {"methods": {"acl": {"temperature": 0.3}, "acl_cl": {}}}),  # that of its row
        ("acl", {"methods": {"acl": {}, "acl_cl": {"lambda": 0.9}}}),
        ("acl", {"keep_models": "all", "code": "same", "seeds": [1, 2]}),
        ("acl_cl", {"methods": {"acl": {"title": "Ours"}, "acl_cl": {}}}),
    ],
)
def test_what_a_study_calls_things_or_the_default_itself_makes_no_other_run(
    tiny_encoder: Path, tiny_task: Path, method: str, change: dict[str, Any]
) -> None:
    given = config("one", ONE, METHODS, tiny_encoder, tiny_task)
    first, second = (
        job(load_study(each), tiny_encoder, tiny_task, method) for each in (given, given | change)
    )
    assert first.key == second.key and first.key_hash == second.key_hash


def test_so_many_epochs_are_so_many_however_they_were_written(
    tiny_encoder: Path, tiny_task: Path
) -> None:
    given = config("one", ONE, {"jt": {"epochs_factor": 2}}, tiny_encoder, tiny_task)
    other = given | {"methods": {"jt": {}}, "training": given["training"] | {"epochs": 2}}
    keys = [job(load_study(each), tiny_encoder, tiny_task, "jt").key for each in (given, other)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    "change",
    [
        {"methods": {"acl": {"lambda": 0.4}, "acl_cl": {}}},
        {"methods": {"acl": {"temperature": 0.1}, "acl_cl": {}}},
        {"methods": {"acl": {"training": {"warmup_ratio": 0.2}}, "acl_cl": {}}},
        {"training": {"threads": 2}},
        {"training": {"precision": "bf16"}},
        {"training": {"epochs": 2}},
        {"tasks": {"selection_metric": "f1"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["acl", "acl_cl"])
def test_what_changes_numbers_makes_another_run_of_a_teacher_and_its_student(
    tiny_encoder: Path, tiny_task: Path, method: str, change: dict[str, Any]
) -> None:
    given = config("one", ONE, METHODS, tiny_encoder, tiny_task)
    changed = given | {key: value for key, value in change.items() if key == "methods"}
    changed["training"] = given["training"] | change.get("training", {})
    changed["tasks"] = {"tiny": given["tasks"]["tiny"] | change.get("tasks", {})}
    keys = {
        job(load_study(each), tiny_encoder, tiny_task, method).key_hash for each in (given, changed)
    }
    assert len(keys) == 2


def test_seed_lambda_rows_and_encoder_make_another_run(tiny_encoder: Path, tiny_task: Path) -> None:
    study = load_study(config("one", ONE, METHODS, tiny_encoder, tiny_task))
    keys = [
        job(study, tiny_encoder, tiny_task).key_hash,
        job(study, tiny_encoder, tiny_task, seed=2).key_hash,
        job(study, tiny_encoder, tiny_task, weight=0.25).key_hash,
    ]
    for part in ("fingerprint", "encoder_fingerprint"):
        of_others = job(study, tiny_encoder, tiny_task)
        of_others.tokens.description[part] = "other"
        keys.append(of_others.key_hash)
    of_others = job(study, tiny_encoder, tiny_task)
    of_others.tokens.task["fingerprint"] = "other"
    keys.append(of_others.key_hash)
    assert len(set(keys)) == len(keys)


def test_a_teacher_is_not_the_run_that_tried_its_lambda(both: tuple[Path, Path]) -> None:
    """The one that tried it, with the same settings, has not seen dev."""
    one, _ = both
    given = yaml.safe_load(one.read_text())
    tuning = {"enabled": True, "lambdas": [0.5], "seeds": [101]}
    one.write_text(yaml.safe_dump(given | {"tuning": tuning}))
    tried = ("--seed", "101", "--lambda", "0.5")
    assert main([*finetune(one, ONE, "acl"), "--tuning", *tried]) == 0
    choose = ("--task", "tiny", "--encoder", "small", "--method", "acl")
    assert main(arguments("choose-lambda", one, *choose)) == 0
    assert main([*finetune(one, ONE, "acl_cl"), "--tuning", *tried]) == 0
    folder = one.parent / "results" / "one"
    store = Store.beside(folder)
    teacher = store.named(name_path(folder, "tiny", "small", "acl", 101))
    (trial,) = (
        store.named(path) for path in find_names(folder, tuning=True) if "acl/" in str(path)
    )
    assert teacher.config()["method"]["lambda"] == trial.config()["method"]["lambda"] == 0.5
    assert teacher.metrics()["metrics"] and not trial.metrics()["metrics"]
