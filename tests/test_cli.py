"""The command line as its user meets it."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow_store import runs_of
from run_folders import finish_run, name_run

from acl_bert.cli import main
from acl_bert.evaluation.early_exit import CRITERIA
from acl_bert.runs.files import RunFolder, name_path
from acl_bert.runs.store import Store

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "transformers", "datasets", "sklearn", "mlflow", "pandas", "seaborn", "snakemake"}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)


def acl_bert(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python("-m", "acl_bert", *map(str, arguments))


def refused(*arguments: object) -> str:
    """The one line that a faulty call answers, on stderr."""
    done = acl_bert(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr.removeprefix("error: ").strip()


@pytest.fixture
def study(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A study of one small generated task on a tiny encoder; λ is not tuned."""
    return write(
        tmp_path / "study.yaml",
        {
            "name": "tiny",
            "source": {"kind": "generator"},
            "tasks": {"acceptability": {"limit": {"train": 64, "dev": 16}}},
            "encoders": {"tiny": {"path": str(tiny_encoder)}},
            "methods": {"ce": {}, "acl": {}},
            "seeds": [1],
            "training": {"epochs": 1, "max_length": 24, "precision": "fp32"},
            "tracking": {"enabled": False},
        },
    )


def write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def finetune(config: Path, results: Path, *more: str) -> int:
    return main(
        ["finetune", "--config", str(config), "--results", str(results)]
        + ["--task", "acceptability", "--method", "acl", *more]
    )


def run_of(results: Path) -> RunFolder:
    """The finished run of the first seed that the study names."""
    folder = results / "tiny"
    return Store.beside(folder).named(name_path(folder, "acceptability", "tiny", "acl", 1))


@pytest.mark.parametrize("arguments", [["--help"], ["finetune", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = python("-X", "importtime", "-m", "acl_bert", *arguments)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "acl_bert.cli" in imported
    assert not {name.partition(".")[0] for name in imported} & HEAVY


def test_reading_a_study_imports_nothing_heavy() -> None:
    """The workflow does it in every one of its processes."""
    code = (
        "import sys; from pathlib import Path; from acl_bert.config.study import load_study; "
        "load_study(Path('config/demo.yaml')); print(*sys.modules)"
    )
    done = python("-c", code)
    assert "acl_bert.config.study" in done.stdout.split(), done.stderr
    assert not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY


def test_help_names_every_verb() -> None:
    told = re.findall(r"^ {4}(\S+)", acl_bert("--help").stdout, re.MULTILINE)
    assert told == [
        *("prepare", "tokenise", "schema", "finetune", "choose-lambda"),
        *("collect", "sweep", "gradients", "clusters", "submissions"),
        *("tables", "figures", "report", "analyse", "where"),
        *("progress", "plan", "calibrate", "sync-tracking", "ui", "prune", "predict"),
    ]


def test_predict_offers_the_criteria_that_there_are() -> None:
    """The parser spells them out, as help imports nothing heavy."""
    offered = re.search(r"--criterion \{(.+?)\}", acl_bert("predict", "--help").stdout)
    assert offered and offered[1].split(",") == list(CRITERIA)


def test_no_verb_or_an_unknown_one() -> None:
    for arguments in ([], ["fintune"]):
        done = acl_bert(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_missing_config() -> None:
    told = refused("collect", "--config", "nowhere.yaml")
    assert told == "nowhere.yaml: No such file or directory; give an existing study file"


def test_a_wrong_config_is_told_fault_by_fault(study: Path) -> None:
    config = yaml.safe_load(study.read_text())
    config["training"] |= {"epoch": 3, "warmup_ratio": 2}
    told = refused("prepare", "--config", write(study, config), "--task", "acceptability")
    assert f"{study}: training.epoch: unknown key; did you mean 'epochs'?" in told
    assert f"{study}: training.warmup_ratio: " in told


@pytest.mark.parametrize(
    ("verb", "changed"),
    [
        ("prepare", "task"),
        ("tokenise", "task"),
        ("tokenise", "encoder"),
        ("finetune", "task"),
        ("finetune", "encoder"),
        ("finetune", "method"),
        ("choose-lambda", "method"),
    ],
)
@pytest.mark.parametrize("tuned", [False, True])
def test_a_name_that_the_study_has_not(
    study: Path, tmp_path: Path, verb: str, changed: str, tuned: bool, capsys: Any
) -> None:
    config = yaml.safe_load(study.read_text())
    write(study, config | {"tuning": {"enabled": tuned}})
    takes = {
        "prepare": ["task"],
        "tokenise": ["task", "encoder"],
        "finetune": ["task", "encoder", "method"],
        "choose-lambda": ["task", "encoder", "method"],
    }
    names = {"task": "acceptability", "encoder": "tiny", "method": "acl"} | {changed: "nope"}
    given = [part for key in takes[verb] for part in (f"--{key}", names[key])]
    called = [verb, "--config", str(study), "--results", str(tmp_path / "results"), *given]
    assert main(called) == 2
    assert f"study tiny, {changed}s: 'nope' is not known" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_lambda_that_the_method_cannot_take(study: Path, tmp_path: Path, capsys: Any) -> None:
    assert finetune(study, tmp_path / "results", "--lambda", "-1") == 2
    assert "methods.acl.lambda: " in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_run_by_hand_makes_what_is_missing(study: Path, tmp_path: Path, capsys: Any) -> None:
    results = tmp_path / "results"
    assert finetune(study, results) == 0
    assert (results / "tiny" / "data" / "acceptability" / "task.json").is_file()
    tokens = results / "tiny" / "tokens" / "acceptability" / "tiny" / "tokens.json"
    made = tokens.stat().st_mtime_ns
    metrics = run_of(results).metrics()
    assert (metrics["task"], metrics["method"], metrics["seed"]) == ("acceptability", "acl", 1)
    assert metrics["data"]["stand_in"] == "generated stand-in data"

    assert finetune(study, results, "--seed", "2", "--lambda", "0.25") == 0
    assert tokens.stat().st_mtime_ns == made, "what was there was made again"
    said = capsys.readouterr().out
    assert "it is none of the study's runs, and not in its tables" in said
    (where,) = re.findall(r"(\S+/store/\S+): finished\n.*none of", said)
    config = json.loads(Path(where, "config.json").read_text())
    assert (config["seed"], config["method"]["lambda"]) == (2, 0.25)
    # The same seed and method under another λ is not the study's run either.
    assert finetune(study, results, "--lambda", "0.25") == 0
    assert run_of(results).config()["method"]["lambda"] == 0.5

    main(["collect", "--config", str(study), "--results", str(results)])
    with (results / "tiny" / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["method"], row["seed"]) for row in rows} == {("acl", "1")}, (
        "the study's cells only"
    )


def test_a_run_by_hand_is_in_mlflow_when_it_ends(study: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(study.read_text())
    write(study, config | {"tracking": {"enabled": True}})
    assert finetune(study, tmp_path / "results") == 0
    folder = tmp_path / "results" / "tiny"
    assert [one.info.status for one in runs_of(f"sqlite:///{folder}/mlflow.db", folder)] == [
        "FINISHED"
    ]
    assert not list(folder.glob("in-progress/*"))


def test_collect_complete_needs_every_run(study: Path, tmp_path: Path, capsys: Any) -> None:
    results = tmp_path / "results"
    assert finetune(study, results) == 0
    collect = ["collect", "--config", str(study), "--results", str(results)]
    assert main([*collect, "--complete"]) == 2
    missing = Path("tiny", "runs", "acceptability", "tiny", "ce", "seed-1.json")
    assert f"{missing}: no such file" in capsys.readouterr().err


def test_a_tuned_run_waits_for_the_choice(study: Path, tmp_path: Path, capsys: Any) -> None:
    results = tmp_path / "results"
    config = yaml.safe_load(study.read_text())
    write(study, config | {"tuning": {"enabled": True, "lambdas": [0.5, 1], "seeds": [101]}})
    assert finetune(study, results) == 2
    assert "run the workflow up to the choice, or give --lambda" in capsys.readouterr().err
    assert not results.exists()

    assert finetune(study, results, "--tuning", "--seed", "101") == 2
    assert "--tuning needs the --lambda that is tried" in capsys.readouterr().err
    for weight in ("0.5", "1.0"):
        assert finetune(study, results, "--tuning", "--seed", "101", "--lambda", weight) == 0
    called = ["choose-lambda", "--config", str(study), "--results", str(results)]
    called += ["--task", "acceptability", "--encoder", "tiny", "--method", "acl"]
    assert main(called) == 0
    folder = results / "tiny" / "tuning" / "acceptability" / "tiny" / "acl"
    scores = {
        weight: Store.beside(results / "tiny")
        .named(folder / f"lambda-{weight}/seed-101.json")
        .metrics()
        for weight in ("0.5", "1.0")
    }
    choice = json.loads((folder / "lambda.json").read_text())
    best = max(scores, key=lambda weight: scores[weight]["selection"]["value"])
    assert choice["lambda"] == float(best)
    assert finetune(study, results) == 0
    assert run_of(results).config()["method"]["lambda"] == float(best)


@pytest.mark.parametrize("given", [("--criterion", "entropy"), ("--threshold", "0.5")])
def test_a_criterion_and_its_threshold_go_together(given: tuple[str, str], tmp_path: Path) -> None:
    told = refused(*predict(tmp_path), *given)
    assert told.startswith("--criterion and --threshold go together")
    assert not list(tmp_path.iterdir())


def test_predict_without_its_model_says_what_to_give(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "a.txt").write_text("the cat\n")
    assert main(predict(tmp_path)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {tmp_path / 'nowhere'}: holds no config.json; give a model")
    assert told.count("\n") == 1
    assert not (tmp_path / "answers.csv").exists()


def test_predict_with_a_run_whose_model_was_not_kept(tmp_path: Path, capsys: Any) -> None:
    study = tmp_path / "results" / "mine"
    name = name_run(study, finish_run(study))
    (tmp_path / "a.txt").write_text("the cat\n")
    assert main(predict(tmp_path, name)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {name}: ") and "keep_models: all" in told
    # A model's own file is no name of a run, and not to be removed.
    (config := tmp_path / "results" / "config.json").write_text("{}")
    assert main(predict(tmp_path, config)) == 2
    assert f"{config}: holds no config.json; give a model" in capsys.readouterr().err


def predict(folder: Path, model: Path | None = None) -> list[str]:
    """A call of predict, if not told otherwise of a model which is not there."""
    given = str(model or folder / "nowhere")
    called = ["predict", "--model", given, "--input", str(folder / "a.txt")]
    return [*called, "--output", str(folder / "answers.csv")]


def test_where_says_what_there_is(study: Path, tmp_path: Path, capsys: Any) -> None:
    results = tmp_path / "results"
    table = results / "tiny" / "tables" / "finetuning.md"
    table.parent.mkdir(parents=True)
    table.touch()
    assert main(["where", "--config", str(study), "--results", str(results)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == str(table)
    assert str(results / "tiny" / "runs.csv") in told[-2]
    assert f"make ui CONFIG={study}" in told[-2]
    assert told[-1] == f"The report: {results / 'tiny' / 'report.html'}"


def test_an_install_has_the_command() -> None:
    command = Path(sys.executable).with_name("acl-bert")
    if not os.access(command, os.X_OK):
        pytest.skip("not installed, run from the source tree")
    done = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert done.stdout == acl_bert("--version").stdout != ""
