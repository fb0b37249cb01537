"""From a user's files to early answers through the command line, where the stages must agree."""

import csv
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file
from tiny_runs import model_of
from transformers import AutoTokenizer

from acl_bert.cli import main
from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import criterion_values, exits_taken
from acl_bert.runs.files import LOGITS, RunFolder, name_path
from acl_bert.runs.store import Store

LABELS = ["no", "maybe", "yes"]
MAX_LENGTH = 20  # some pairs are longer
DEV = 240
NOUNS = ["cat", "dog", "bird"]
OTHERS = ["the", "a", "sees", "hears", "not", "quickly", "and", "old", "new", "house", "tree"]


def write_pairs(path: Path, count: int, seed: int) -> Path:
    """Sentence pairs: the label says which noun the left one, mostly, starts with."""
    draw = random.Random(seed)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["number", "left", "right", "verdict"])
        for number in range(count):
            first, second = draw.choice(NOUNS), draw.choice(NOUNS)
            sides = [
                " ".join([noun, *draw.choices(OTHERS, k=draw.randint(2, 11))])
                for noun in (first, second)
            ]
            verdict = LABELS[NOUNS.index(first if draw.random() < 0.75 else second)]
            writer.writerow([number, *sides, verdict])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> tuple[Path, Path]:
    """Its config and the folder of its results, after a teacher and its student were trained."""
    folder = tmp_path_factory.mktemp("chain")
    files = {
        split: write_pairs(folder / f"{split}.csv", count, seed).name
        for seed, (split, count) in enumerate([("train", 192), ("dev", DEV)])
    }
    config = folder / "pairs.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "name": "pairs",
                "source": {"kind": "files", "folder": str(folder)},
                "tasks": {
                    "pairs": {
                        "title": "Pairs",
                        "text": ["left", "right"],
                        "label": "verdict",
                        "labels": LABELS,
                        "metrics": ["accuracy", "matthews"],
                        "selection_metric": "accuracy",
                        "files": files,
                    }
                },
                "encoders": {"tiny": {"path": str(tiny_encoder)}},
                "methods": {"acl": {}, "acl_cl": {}},
                "seeds": [1],
                "training": {
                    "epochs": 6,
                    "batch_size": 16,
                    "learning_rate": 4e-3,
                    "max_length": MAX_LENGTH,
                    "precision": "fp32",
                },
                "keep_models": "all",
                "tracking": {"enabled": False},
            }
        )
    )
    results = folder / "results"
    one_run = ["--task", "pairs", "--encoder", "tiny", "--method"]
    for verb, *more in (
        ["finetune", *one_run, "acl"],
        ["finetune", *one_run, "acl_cl"],
        ["collect", "--complete"],
        ["sweep", "--complete"],
        ["gradients", "--complete"],
        ["clusters", "--complete"],
        ["tables"],
        ["figures"],
        ["report"],
    ):
        assert call(config, results, verb, *more) == 0, verb
    return config, results / "pairs"


def call(config: Path, results: Path, verb: str, *more: str) -> int:
    return main([verb, "--config", str(config), "--results", str(results), *more])


@pytest.fixture(scope="module")
def student(study: tuple[Path, Path]) -> RunFolder:
    return read_run(study[1], "acl_cl")


@dataclass(frozen=True)
class Point:
    """A row of early_exit.csv, and what follows from the saved logits at its threshold."""

    row: dict[str, str]
    layers: np.ndarray
    """(rows,): where each row of dev leaves."""
    labels: list[str]
    """What it leaves with."""
    on_it: np.ndarray
    """(rows,): whether it has a value so close to the threshold that rounding may decide."""


@pytest.fixture(scope="module")
def point(study: tuple[Path, Path], student: RunFolder) -> Point:
    """At the threshold of entropy's that spreads dev over the exits most evenly."""
    rows = [
        row
        for row in read(study[1] / "early_exit.csv")
        if (row["method"], row["criterion"], row["metric"]) == ("acl_cl", "entropy", "accuracy")
    ]
    assert len(rows) == 101
    logits, _ = student.dev_logits()["dev"]
    exits = sorted(map(int, student.metrics()["exits"]))
    assert exits == [1, 2, 3]
    values = criterion_values("entropy", logits, exits)
    thresholds = np.array([float(row["threshold"]) for row in rows])
    place = exits_taken("entropy", values, thresholds)
    fewest = np.array([np.bincount(column, minlength=3).min() for column in place.T])
    best = int(fewest.argmax())
    assert fewest[best] > DEV / 50, "all exits are taken"
    left_at = place[:, best]
    return Point(
        rows[best],
        np.array(exits)[left_at],
        [LABELS[row[taken].argmax()] for row, taken in zip(logits, left_at, strict=True)],
        (np.abs(values - thresholds[best]) < 1e-5).any(axis=1),
    )


def test_every_stage_leaves_its_files(study: tuple[Path, Path], student: RunFolder) -> None:
    folder = study[1]
    runs, exits = read(folder / "runs.csv"), read(folder / "exits.csv")
    assert {(row["method"], row["seed"]) for row in runs} == {("acl", "1"), ("acl_cl", "1")}
    scores = student.metrics()["exits"]
    found = {row["exit"]: float(row["value"]) for row in exits if is_accuracy(row, "acl_cl")}
    assert found == pytest.approx({m: score["accuracy"] for m, score in scores.items()})
    assert "2 of 2 runs finished" in (folder / "report.html").read_text("utf-8")
    for name in ("finetuning", "multi_exit", "quality_speed", "clusters", "claims"):
        for suffix in ("csv", "md", "tex"):
            assert (folder / "tables" / f"{name}.{suffix}").stat().st_size
    for name in ("finetuning", "layer_scores", "quality_speed"):
        for suffix in ("png", "pdf"):
            assert (folder / "figures" / f"{name}.{suffix}").stat().st_size
    assert "ACL-CL" in (folder / "tables" / "multi_exit.md").read_text()
    assert student.metrics()["teacher"] == read_run(folder, "acl").run_hash


def is_accuracy(row: dict[str, str], method: str) -> bool:
    return (row["method"], row["metric"]) == (method, "accuracy")


def read_run(folder: Path, method: str) -> RunFolder:
    return Store.beside(folder).named(name_path(folder, "pairs", "tiny", method, 1))


def test_progress_counts_the_runs(study: tuple[Path, Path], capsys: Any) -> None:
    config, folder = study
    assert call(config, folder.parent, "progress") == 0
    assert capsys.readouterr().out.strip() == "2 of 2 runs done"


def test_dev_is_scored_in_the_order_of_its_file(
    study: tuple[Path, Path], student: RunFolder
) -> None:
    rows = read(study[0].with_name("dev.csv"))
    _, labels = student.dev_logits()["dev"]
    assert [LABELS[label] for label in labels] == [row["verdict"] for row in rows]


def test_some_rows_are_longer_than_the_training_allows(
    study: tuple[Path, Path], student: RunFolder
) -> None:
    """Else what follows would not compare how the two stages cut them."""
    tokenizer = AutoTokenizer.from_pretrained(model_of(student))
    assert tokenizer.model_max_length == MAX_LENGTH
    rows = read(study[0].with_name("dev.csv"))
    lengths = [
        len(tokenizer(row["left"], row["right"], truncation=False, verbose=False)["input_ids"])
        for row in rows
    ]
    assert 0.05 < np.mean(np.array(lengths) > MAX_LENGTH) < 0.95


@pytest.mark.parametrize("batch_size", [1, 7])
def test_early_answers_are_those_that_the_sweep_foretold(
    study: tuple[Path, Path],
    student: RunFolder,
    point: Point,
    batch_size: int,
    tmp_path: Path,
    capsys: Any,
) -> None:
    dev, out = study[0].with_name("dev.csv"), tmp_path / "answers.csv"
    name = name_path(study[1], "pairs", "tiny", "acl_cl", 1)
    called = ["predict", "--model", str(name), "--output", str(out)]
    called += ["--input", str(dev), "--text", "left", "right", "--threads", "1"]
    called += ["--criterion", "entropy", "--threshold", point.row["threshold"]]
    assert main([*called, "--batch-size", str(batch_size)]) == 0
    answers = read(out)
    assert [int(row["index"]) for row in answers] == list(range(DEV))

    layers = np.array([int(row["exit"]) for row in answers])
    labels = [row["prediction"] for row in answers]
    differs = (layers != point.layers) | (np.array(labels) != np.array(point.labels))
    assert point.on_it.sum() <= DEV / 100
    assert not (differs & ~point.on_it).any()

    # The table's numbers are those of these answers, but for what rounding decided.
    rounding = differs.mean() + 1e-9
    mean = layers.mean()
    assert mean == pytest.approx(float(point.row["layers"]), abs=2 * rounding)
    assert float(point.row["speedup"]) == pytest.approx(3 / float(point.row["layers"]))
    told = re.search(r": (\d+) texts, (\S+) of (\d+) layers", capsys.readouterr().out)
    assert told and told.groups() == (str(DEV), f"{mean:.2f}", "3")
    right = np.mean([a == row["verdict"] for a, row in zip(labels, read(dev), strict=True)])
    assert right == pytest.approx(float(point.row["value"]), abs=rounding)


def test_without_a_criterion_the_last_exit_answers(
    study: tuple[Path, Path], student: RunFolder, tmp_path: Path
) -> None:
    out = tmp_path / "answers.csv"
    name = name_path(study[1], "pairs", "tiny", "acl_cl", 1)
    called = ["predict", "--model", str(name), "--output", str(out)]
    called += ["--input", str(study[0].with_name("dev.csv")), "--text", "left", "right"]
    assert main(called) == 0
    logits, _ = student.dev_logits()["dev"]
    probabilities = np.exp(logits[:, -1]) / np.exp(logits[:, -1]).sum(axis=1, keepdims=True)
    for row, each in zip(read(out), probabilities, strict=True):
        assert (row["exit"], row["prediction"]) == ("3", LABELS[each.argmax()])
        assert float(row["probability"]) == pytest.approx(each.max(), abs=1e-5)


@pytest.mark.parametrize(
    ("columns", "output", "message"),
    [
        (["left"], "answers.csv", "1 texts a row, but the model was trained on 2"),
        (["left", "right"], "texts.csv", "is a folder, or the texts themselves"),
        (["left", "right"], ".", "is a folder, or the texts themselves"),
    ],
)
def test_answers_that_would_be_wrong_or_overwrite_are_refused(
    study: tuple[Path, Path],
    student: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    columns: list[str],
    output: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = study[0].with_name("dev.csv").read_text()
    Path("texts.csv").write_text(texts)
    called = ["predict", "--model", str(model_of(student)), "--input", "texts.csv"]
    assert main([*called, "--output", output, "--text", *columns]) == 2
    assert message in capsys.readouterr().err
    assert Path("texts.csv").read_text() == texts and not Path("answers.csv").exists()


def test_files_of_different_runs_are_not_read_together(
    study: tuple[Path, Path], student: RunFolder, capsys: Any
) -> None:
    """As after a run more that was swept and not collected."""
    curves = study[1] / "early_exit.csv"
    before = curves.read_text()
    curves.write_text(before.replace(student.run_hash, "0" * 64))
    try:
        assert call(study[0], study[1].parent, "tables") == 2
    finally:
        curves.write_text(before)
    assert "not of the same runs as exits.csv; gather both again" in capsys.readouterr().err


def test_logits_that_do_not_fit_the_run_are_refused(student: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(student.path, copy.path)
    good = load_file(copy.path / LOGITS)
    for name, logits in (
        ("fewer exits", good["dev.logits"][:, :2]),
        ("fewer rows", good["dev.logits"][1:]),
        ("not finite", np.full_like(good["dev.logits"], np.nan)),
    ):
        save_file(good | {"dev.logits": np.ascontiguousarray(logits)}, copy.path / LOGITS)
        with pytest.raises(InputError, match=r"run it again"):
            copy.dev_logits()
            pytest.fail(name)
