"""A student learns from the run that comes first: its weights, and what it made of the rows."""

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import model_of, tiny_job, tiny_settings, train_run
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import acl_bert.model  # noqa: F401  # makes the models' types known
from acl_bert.config.method import known_methods
from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import InputError
from acl_bert.model.build import build_classifier, load_model, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.model.multi_exit import MultiExitForSequenceClassification
from acl_bert.runs.files import PUBLISHED, RunFolder
from acl_bert.runs.store import MANIFEST, Store
from acl_bert.training.batches import load_batch
from acl_bert.training.jobs import Job
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import ExitSchedule
from acl_bert.training.step import training_step
from acl_bert.training.teacher import (
    Teacher,
    TeacherItems,
    read_teacher_outputs,
    teacher_items,
    write_teacher_outputs,
)

TRAINING = Training(epochs=1, batch_size=16, learning_rate=1e-3, device="cpu", precision="fp32")
CPU = torch.device("cpu")


def settings(method: str, epochs: int = 1) -> RunSettings:
    return tiny_settings(method, TRAINING.model_copy(update={"epochs": epochs}))


def run(
    store: Path, encoder: Path, tokens: Path, method: str, teacher: Job | None = None,
    epochs: int = 1, **options: Any,
) -> RunFolder:  # fmt: skip
    return train_run(
        settings(method, epochs), encoder, tokens, store, teacher, keep_model=True, **options
    )


@pytest.fixture(scope="module")
def taught_by(tiny_encoder: Path, tiny_task: Path) -> Job:
    return tiny_job(settings("acl", epochs=3), tiny_encoder, tiny_task, keep_model=True)


@pytest.fixture(scope="module")
def study(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, tiny_task: Path
) -> tuple[RunFolder, Path]:
    """A teacher's run, and its outputs."""
    folder = tmp_path_factory.mktemp("teacher")
    teacher = run(folder, tiny_encoder, tiny_task, "acl", epochs=3)
    outputs = folder / "acl.safetensors"
    write_teacher_outputs(model_of(teacher), TokenStore(tiny_task), TRAINING, outputs)
    return teacher, outputs


def follow(teacher: Teacher, model_folder: Path, encoder: Path, tokens: Path) -> list[float]:
    """The losses of a student's first 20 steps."""
    torch.manual_seed(2)
    model = build_classifier(str(encoder), None, ["no", "yes"], "pooler", every_layer=True)
    start_from(model, load_model(model_folder))
    method, rows = known_methods()["acl_cl"], TokenStore(tokens).split("train")
    schedule = ExitSchedule(method, model.exits, teacher_depth=3)
    optimiser = Optimiser(model, TRAINING, 20)
    schedule.train_mode(model)
    generator = np.random.default_rng(0)
    losses = []
    for update in range(20):
        batch = generator.choice(len(rows), 16, replace=False)
        inputs, labels = load_batch(rows, batch, CPU)
        items = teacher(batch)
        losses.append(
            float(training_step(model, inputs, labels, method, schedule.losses(update), items).loss)
        )
        optimiser.update()
    return losses


def test_twenty_steps_are_those_with_a_recomputed_teacher(
    study: tuple[RunFolder, Path], tiny_encoder: Path, tiny_task: Path
) -> None:
    run_folder, outputs = study
    store = TokenStore(tiny_task)
    model, rows = load_model(model_of(run_folder)), store.split("train")

    def recomputed(batch: np.ndarray) -> TeacherItems:
        return teacher_items(model, load_batch(rows, batch, CPU)[0])

    cached = read_teacher_outputs(outputs, CPU)
    first, second = (
        follow(teacher, model_of(run_folder), tiny_encoder, tiny_task)
        for teacher in (cached, recomputed)
    )
    assert first == pytest.approx(second, abs=1e-4)

    def of_other_rows(batch: np.ndarray) -> TeacherItems:
        return recomputed((batch + 1) % len(rows))

    other = follow(of_other_rows, model_of(run_folder), tiny_encoder, tiny_task)
    assert first != pytest.approx(other, abs=1e-4), "the comparison must be able to fail"


def test_outputs_that_cannot_be_read_are_named(
    study: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    (tmp_path / "torn.safetensors").write_bytes(study[1].read_bytes()[:100])
    for name in ("torn", "absent"):
        with pytest.raises(InputError, match=f"{name}.safetensors: .*it is made again"):
            read_teacher_outputs(tmp_path / f"{name}.safetensors", CPU)


def test_a_teacher_whose_model_is_gone_is_trained_again_to_the_same_bits(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path
) -> None:
    """Its run in the store stays what it is; its outputs are made once for all students."""
    taught_by = tiny_job(settings("acl"), tiny_encoder, tiny_task, keep_model=True)
    first = run(tmp_path / "whole", tiny_encoder, tiny_task, "acl_cl", taught_by)
    store = Store(tmp_path / "pruned")
    teacher = run(store.root, tiny_encoder, tiny_task, "acl")
    before = {path: path.stat().st_ino for path in teacher.path.iterdir()}
    shutil.rmtree(store.root / "heavy")
    said: list[str] = []
    second = run(store.root, tiny_encoder, tiny_task, "acl_cl", taught_by, report=said.append)
    assert any("tiny · acl · " in line for line in said)
    assert not any("not quite those" in line for line in said)
    for name in ("metrics.json", "history.csv", "predictions.csv"):
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes(), name
    assert {path: path.stat().st_ino for path in teacher.path.iterdir()} == before
    outputs = store.teacher_outputs(teacher.path.name)
    made = outputs.stat().st_mtime_ns
    run(store.root, tiny_encoder, tiny_task, "logits_kd", taught_by)
    assert outputs.stat().st_mtime_ns == made


@pytest.fixture(scope="module")
def student(
    study: tuple[RunFolder, Path], taught_by: Job, tiny_encoder: Path, tiny_task: Path
) -> RunFolder:
    return run(study[0].path.parent, tiny_encoder, tiny_task, "acl_cl", taught_by, epochs=2)


def test_a_students_files_know_every_exit_and_the_teacher(
    study: tuple[RunFolder, Path], student: RunFolder
) -> None:
    assert {path.name for path in student.path.iterdir()} == {*PUBLISHED, MANIFEST}
    metrics = student.metrics()
    assert metrics["depth"] == 3
    assert list(metrics["exits"]) == ["1", "2", "3"]
    assert metrics["metrics"] == metrics["exits"]["3"]
    assert metrics["teacher"] == study[0].run_hash == student.config()["teacher_run"]
    gate: dict[str, Any] = metrics["gate"]  # type: ignore[assignment]
    assert list(gate["exits"]) == ["1", "2"]
    assert gate["decisions"] == 2 * len(student.history())
    assert gate["discarded"] == sum(exit["discarded"] for exit in gate["exits"].values())
    logits, labels = student.dev_logits()["dev"]
    assert logits.shape == (48, 3, 2) and logits.dtype == np.float32
    for exit_index in range(3):
        right = (logits[:, exit_index].argmax(axis=1) == labels).mean()
        assert metrics["exits"][str(exit_index + 1)]["accuracy"] == pytest.approx(right)
    assert metrics["degenerate"] is ("3" in metrics["degenerate_exits"])


@pytest.mark.parametrize(("model_selection", "epoch"), [("mean", 2), ("last", 1)])
def test_the_epoch_is_chosen_by_the_mean_over_exits_or_by_the_last(
    tmp_path: Path,
    tiny_encoder: Path,
    tiny_task: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_selection: str,
    epoch: int,
) -> None:
    from acl_bert.training import loop

    each_epoch = iter([(0.1, 0.1, 0.9), (0.5, 0.5, 0.8)])
    monkeypatch.setattr(
        loop,
        "exit_scores",
        lambda *_: [{"accuracy": x, "f1": 0, "matthews": 0} for x in next(each_epoch)],
    )
    method = known_methods()["jt"].model_copy(update={"model_selection": model_selection})
    monkeypatch.setitem(known_methods(), "jt", method)
    chosen = run(tmp_path, tiny_encoder, tiny_task, "jt", epochs=2).metrics()["selection"]
    assert chosen["epoch"] == epoch
    assert chosen["value"] == pytest.approx(0.6 if model_selection == "mean" else 0.9)


def test_a_students_key_depends_on_its_teacher(
    taught_by: Job, tiny_encoder: Path, tiny_task: Path
) -> None:
    other = tiny_job(settings("acl"), tiny_encoder, tiny_task)
    keys = {
        tiny_job(settings("acl_cl"), tiny_encoder, tiny_task, teacher).key_hash
        for teacher in (None, taught_by, other)
    }
    assert len(keys) == 3


def test_a_kept_model_comes_back_by_auto_class_with_card_and_tokenizer(
    student: RunFolder, tiny_task: Path
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(model_of(student)).eval()
    assert isinstance(model, MultiExitForSequenceClassification)
    rows = TokenStore(tiny_task).split("dev")
    inputs, labels = load_batch(rows, np.arange(48), CPU)
    with torch.inference_mode():
        output = model(labels=labels, **inputs)
    logits, _ = student.dev_logits()["dev"]
    np.testing.assert_allclose(output.logits.numpy(), logits, atol=1e-5)
    expected = sum(torch.nn.functional.cross_entropy(output.logits[:, m], labels) for m in range(3))
    torch.testing.assert_close(output.loss, expected)
    tokenizer = AutoTokenizer.from_pretrained(model_of(student))
    assert tokenizer.model_max_length == TRAINING.max_length
    card = (model_of(student) / "README.md").read_text()
    assert card.startswith("---\n") and "ACL-CL on tiny" in card
    for layer, scores in student.metrics()["exits"].items():
        assert f"| {layer} | {scores['accuracy']:.4f} |" in card


def test_a_teacher_of_several_exits_teaches_by_its_last(
    student: RunFolder, tiny_encoder: Path, tiny_task: Path
) -> None:
    teacher = load_model(model_of(student))
    assert teacher.exits == (1, 2, 3)
    inputs, _ = load_batch(TokenStore(tiny_task).split("dev"), np.arange(8), CPU)
    items = teacher_items(teacher, inputs)
    with torch.inference_mode():
        assert torch.equal(items.logits, teacher(**inputs).logits[:, -1])
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler")
    start_from(model, teacher)
    last = teacher.heads[-1].classifier.weight
    assert torch.equal(model.heads[0].classifier.weight, last)


def test_a_student_deeper_than_its_teacher_is_refused(tiny_encoder: Path) -> None:
    shallow, deep = (
        build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", layers=layers)
        for layers in (2, 3)
    )
    with pytest.raises(InputError, match="teacher's encoder, of 2 layers, has no"):
        start_from(deep, shallow)


def test_a_student_starts_as_its_teacher(
    study: tuple[RunFolder, Path], tiny_encoder: Path, tiny_task: Path
) -> None:
    teacher = load_model(model_of(study[0]))
    inputs, _ = load_batch(TokenStore(tiny_task).split("dev"), np.arange(8), CPU)

    def build(**more: Any) -> EncoderClassifier:
        torch.manual_seed(9)
        return build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", **more).eval()

    whole, cut = build(every_layer=True), build(layers=2)
    before = copy.deepcopy(whole)
    start_from(whole, teacher)
    start_from(cut, teacher)
    with torch.inference_mode():
        assert torch.equal(whole(**inputs).logits[:, -1], teacher(**inputs).logits)
        assert not torch.equal(before(**inputs).logits[:, -1], teacher(**inputs).logits)
    assert cut.exits == (2,)
    assert torch.equal(cut.heads[0].classifier.weight, build(layers=2).heads[0].classifier.weight)
    for name, weight in cut.encoder.state_dict().items():
        assert torch.equal(weight, teacher.encoder.state_dict()[name])


def test_the_exits_share_no_parameter(tiny_encoder: Path) -> None:
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", every_layer=True)
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(addresses)) == len(addresses)
    heads = [head.state_dict() for head in model.heads]
    assert torch.equal(heads[0]["pooler.weight"], heads[1]["pooler.weight"])  # both pre-trained
    assert not torch.equal(heads[0]["classifier.weight"], heads[1]["classifier.weight"])


def test_a_model_is_cut_at_k_and_no_deeper_than_it_is(tiny_encoder: Path) -> None:
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", True, layers=2)
    assert model.exits == (1, 2)
    with pytest.raises(InputError, match="has 3 layers; `layers: 4`"):
        build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", layers=4)
