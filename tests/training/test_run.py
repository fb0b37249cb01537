"""A whole run on a tiny encoder: its files, and that it can be repeated."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import model_of, tiny_settings, train_run

from acl_bert.config.method import Method
from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import TrainingError
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.files import HISTORY_COLUMNS, PUBLISHED, RunFolder
from acl_bert.runs.store import MANIFEST
from acl_bert.training.hardware import resolve_settings
from acl_bert.training.loop import compute_logits

TRAINING = Training(epochs=3, batch_size=16, learning_rate=1e-3, device="cpu")


def settings(method: str = "acl", seed: int = 1, **training: Any) -> RunSettings:
    return tiny_settings(method, Training.model_validate(TRAINING.model_dump() | training), seed)


def run(
    folder: Path, encoder: Path, tokens: Path, chosen: RunSettings, keep_model: bool = False
) -> RunFolder:
    made = train_run(chosen, encoder, tokens, folder, keep_model=keep_model)
    assert not list((folder / "work").iterdir())
    return made


@pytest.fixture(scope="module")
def acl_run(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, tiny_task: Path
) -> RunFolder:
    return run(tmp_path_factory.mktemp("acl"), tiny_encoder, tiny_task, settings(), keep_model=True)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_file_is_there_and_says_the_same(acl_run: RunFolder) -> None:
    assert {path.name for path in acl_run.path.iterdir()} == {*PUBLISHED, MANIFEST}
    metrics, history = acl_run.metrics(), acl_run.history()
    assert list(read(acl_run.history_path)[0]) == list(HISTORY_COLUMNS)
    assert len(history) == 3 * 6  # 96 rows in batches of 16
    discarded = sum(row["kept"] == 0 for row in history)
    assert metrics["gate"] is not None
    assert metrics["gate"]["discarded"] == discarded
    assert metrics["gate"]["decisions"] == len(history)
    for row in history:
        expected = row["ce"] + (0.5 * row["contrastive"] if row["kept"] else 0)  # type: ignore[operator]
        assert row["loss"] == pytest.approx(expected, rel=1e-6)
        assert (row["angle"] <= 90) == bool(row["kept"])  # type: ignore[operator]
    tokens = acl_run.timings()["tokens"]
    assert tokens == sum(row["tokens"] or 0 for row in history)
    best = max(acl_run.epochs(), key=lambda row: row["selection_accuracy"] or 0)
    assert metrics["selection"] == {
        "metric": "accuracy",
        "value": best["selection_accuracy"],
        "epoch": best["epoch"],
    }


def test_predictions_give_the_metrics(acl_run: RunFolder) -> None:
    rows = read(acl_run.predictions_path)
    assert len(rows) == 48
    correct = [row["label"] == row["prediction"] for row in rows]
    assert acl_run.metrics()["metrics"]["accuracy"] == pytest.approx(np.mean(correct))
    for row in rows:
        logits = [float(row["logit_0"]), float(row["logit_1"])]
        assert int(row["prediction"]) == int(np.argmax(logits))
        assert all(str(np.float32(row[f"logit_{k}"])) == row[f"logit_{k}"] for k in (0, 1))


@pytest.mark.parametrize("method", ["ce", "acl"])
def test_the_task_is_learned(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path, method: str
) -> None:
    learned = run(
        tmp_path, tiny_encoder, tiny_task, settings(method, epochs=12, learning_rate=5e-3)
    ).metrics()
    assert learned["metrics"]["accuracy"] > 0.8
    assert learned["degenerate"] is False


def test_the_model_comes_back(acl_run: RunFolder, tiny_task: Path) -> None:
    model = EncoderClassifier.from_pretrained(model_of(acl_run))
    assert model.config.id2label == {0: "no", 1: "yes"}
    dev = TokenStore(tiny_task).split("dev")
    logits = compute_logits(model, dev, resolve_settings(settings()).training)
    kept = read(acl_run.predictions_path)
    ours = np.array([[r["logit_0"], r["logit_1"]] for r in kept], dtype=np.float32)
    assert np.array_equal(ours, logits[:, 0])


@pytest.mark.parametrize("method", ["ce", "ce_scl", "acl_embed", "acl"])
def test_the_same_run_gives_the_same_bits(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path, method: str
) -> None:
    first = run(tmp_path / "a", tiny_encoder, tiny_task, settings(method, epochs=2))
    torch.rand(7)  # whatever was drawn before must not matter
    second = run(tmp_path / "b", tiny_encoder, tiny_task, settings(method, epochs=2))
    for name in ("metrics.json", "history.csv", "epochs.csv", "predictions.csv", "config.json"):
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes(), name


def test_another_seed_is_another_run(tmp_path: Path, tiny_encoder: Path, tiny_task: Path) -> None:
    runs = [
        run(tmp_path / str(seed), tiny_encoder, tiny_task, settings("ce", seed, epochs=1))
        for seed in (1, 2)
    ]
    assert runs[0].history_path.read_text() != runs[1].history_path.read_text()
    assert runs[0].run_hash != runs[1].run_hash


def test_methods_of_a_seed_see_the_same_batches(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path
) -> None:
    ce, scl = (
        run(tmp_path / method, tiny_encoder, tiny_task, settings(method, epochs=1)).history()
        for method in ("ce", "ce_scl")
    )
    assert ce[0]["ce"] == scl[0]["ce"]
    assert [row["tokens"] for row in ce] == [row["tokens"] for row in scl]


def test_the_best_epoch_is_scored_not_the_last(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acl_bert.training import loop

    values = iter([0.9, 0.4, 0.9])  # the first of equals counts
    monkeypatch.setattr(
        loop,
        "exit_scores",
        lambda logits, labels, metrics: [{"accuracy": next(values), "f1": 0, "matthews": 0}],
    )
    best = run(tmp_path / "three", tiny_encoder, tiny_task, settings("ce"))
    assert best.metrics()["selection"]["epoch"] == 1
    # One epoch alone has another schedule; so compare with three epochs that are all the first.
    values = iter([0.1, 0.2, 0.3])
    last = run(tmp_path / "last", tiny_encoder, tiny_task, settings("ce"))
    assert last.metrics()["selection"]["epoch"] == 3
    assert best.predictions_path.read_text() != last.predictions_path.read_text()


def test_a_diverging_run_says_so(tmp_path: Path, tiny_encoder: Path, tiny_task: Path) -> None:
    with pytest.raises(TrainingError, match=r"step \d+: the loss is .*learning_rate"):
        run(tmp_path, tiny_encoder, tiny_task, settings("ce", learning_rate=1e30))


def test_accumulation_makes_fewer_larger_updates(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path
) -> None:
    whole = run(tmp_path / "a", tiny_encoder, tiny_task, settings("acl", epochs=1))
    parts = run(
        tmp_path / "b", tiny_encoder, tiny_task,
        settings("acl", epochs=1, batch_size=8, gradient_accumulation_steps=2),
    )  # fmt: skip
    assert len(parts.history()) == len(whole.history()) == 6
    assert sum(r["tokens"] or 0 for r in parts.history()) == sum(
        r["tokens"] or 0 for r in whole.history()
    )
    gate = parts.metrics()["gate"]
    assert gate is not None and gate["decisions"] == 12  # decided on every micro-batch
    uneven = settings("acl", epochs=1, gradient_accumulation_steps=4)
    assert len(run(tmp_path / "c", tiny_encoder, tiny_task, uneven).history()) == 2


def test_variants_of_the_open_choices_all_run(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path
) -> None:
    base = settings("acl", epochs=1)
    seen = set()
    for number, change in enumerate(
        [
            {"temperature": 0.05},
            {"reduction": "sum"},
            {"normalize": False},
            {"anchors": "samples"},
            {"representation": "cls"},
            {"representation": "dropout"},
            {"combination": "convex"},
            {"gate": {"mode": "discard", "scope": "last_layer"}},
            {"gate": {"mode": "discard", "threshold": 75}},
        ]
    ):
        method = Method.model_validate(base.method.model_dump(by_alias=True) | change)
        chosen = base.model_copy(update={"method": method})
        metrics = run(tmp_path / str(number), tiny_encoder, tiny_task, chosen)
        seen.add(metrics.predictions_path.read_text())
    assert len(seen) == 9  # each choice made a difference


def test_json_is_plain(acl_run: RunFolder) -> None:
    config = json.loads(acl_run.config_path.read_text())
    assert config["method"]["lambda"] == 0.5
    assert config["method"]["gate"] == {"mode": "discard", "scope": "encoder", "threshold": 90.0}
    assert config["training"]["batch_size"] == 16
