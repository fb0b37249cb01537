"""A student learns from the run that comes first: its weights, and what it made of the rows."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import tiny_settings, train_run
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import acl_bert.model  # noqa: F401  # makes the models' types known
from acl_bert.errors import InputError
from acl_bert.model.build import build_classifier, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.model.multi_exit import MultiExitForSequenceClassification
from acl_bert.runs.files import PUBLISHED, RunFolder
from acl_bert.settings.method import method_rows
from acl_bert.settings.study import RunSettings
from acl_bert.settings.training import Training
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training.batches import load_batch
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import Plan
from acl_bert.training.step import training_step
from acl_bert.training.teacher import (
    Teacher,
    TeacherItems,
    check_teacher,
    load_teacher,
    read_teacher_outputs,
    teacher_items,
    write_teacher_outputs,
)

TRAINING = Training(epochs=1, batch_size=16, learning_rate=1e-3, device="cpu", precision="fp32")
CPU = torch.device("cpu")


def run(
    folder: Path,
    encoder: Path,
    tokens: Path,
    method: str,
    teacher_run: Path | None = None,
    teacher_outputs: Path | None = None,
    epochs: int = 1,
) -> RunFolder:
    settings = tiny_settings(method, TRAINING.model_copy(update={"epochs": epochs}))
    target = folder / method
    return train_run(
        settings, encoder, tokens, target, teacher_run, teacher_outputs, keep_model=True
    )


@pytest.fixture(scope="module")
def study(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, tiny_task: Path
) -> tuple[RunFolder, Path]:
    """A teacher's run, and its outputs."""
    folder = tmp_path_factory.mktemp("teacher")
    teacher = run(folder, tiny_encoder, tiny_task, "acl", epochs=3)
    outputs = folder / "acl.safetensors"
    write_teacher_outputs(teacher.path, TokenStore(tiny_task), TRAINING, outputs)
    return teacher, outputs


def follow(teacher: Teacher, folder: Path, encoder: Path, tokens: Path) -> list[float]:
    """The losses of a student's first 20 steps."""
    torch.manual_seed(2)
    model = build_classifier(str(encoder), None, ["no", "yes"], "pooler", every_layer=True)
    start_from(model, load_teacher(folder))
    method, rows = method_rows()["acl_cl"], TokenStore(tokens).split("train")
    plan = Plan(method, model.exits, teacher_depth=3)
    optimiser = Optimiser(model, TRAINING, 20)
    plan.train_mode(model)
    generator = np.random.default_rng(0)
    losses = []
    for update in range(20):
        batch = generator.choice(len(rows), 16, replace=False)
        inputs, labels = load_batch(rows, batch, CPU)
        items = teacher(batch)
        losses.append(
            float(training_step(model, inputs, labels, method, plan.losses(update), items).loss)
        )
        optimiser.update()
    return losses


def test_twenty_steps_are_those_with_a_recomputed_teacher(
    study: tuple[RunFolder, Path], tiny_encoder: Path, tiny_task: Path
) -> None:
    run_folder, outputs = study
    store = TokenStore(tiny_task)
    model, rows = load_teacher(run_folder.path).eval(), store.split("train")

    def recomputed(batch: np.ndarray) -> TeacherItems:
        return teacher_items(model, load_batch(rows, batch, CPU)[0])

    cached = read_teacher_outputs(outputs, run_folder.path, store, CPU)
    first, second = (
        follow(teacher, run_folder.path, tiny_encoder, tiny_task)
        for teacher in (cached, recomputed)
    )
    assert first == pytest.approx(second, abs=1e-4)

    def of_other_rows(batch: np.ndarray) -> TeacherItems:
        return recomputed((batch + 1) % len(rows))

    other = follow(of_other_rows, run_folder.path, tiny_encoder, tiny_task)
    assert first != pytest.approx(other, abs=1e-4), "the comparison must be able to fail"


def test_outputs_of_another_run_or_other_rows_are_refused(
    study: tuple[RunFolder, Path], tiny_task: Path, tmp_path: Path
) -> None:
    run_folder, outputs = study
    store = TokenStore(tiny_task)
    # The same settings, trained at another time: other weights, perhaps, under the same hash.
    again = tmp_path / "again"
    shutil.copytree(run_folder.path, again)
    timings = json.loads((again / "timings.json").read_text())
    (again / "timings.json").write_text(json.dumps(timings | {"started": "2026-01-01T00:00:00"}))
    with pytest.raises(InputError, match=r"of another training; make it again"):
        read_teacher_outputs(outputs, again, store, CPU)
    store.description = store.description | {"fingerprint": "other"}
    with pytest.raises(InputError, match=r"of another tokens; make it again"):
        read_teacher_outputs(outputs, run_folder.path, store, CPU)
    (tmp_path / "torn.safetensors").write_bytes(outputs.read_bytes()[:100])
    for name in ("torn", "absent"):
        with pytest.raises(InputError, match=f"{name}.safetensors: .*make it again"):
            read_teacher_outputs(tmp_path / f"{name}.safetensors", run_folder.path, store, CPU)


def test_a_teacher_of_other_rows_is_refused(
    study: tuple[RunFolder, Path], tiny_task: Path, tmp_path: Path
) -> None:
    store = TokenStore(tiny_task)
    for key in ("fingerprint", "encoder_fingerprint"):
        store.description = TokenStore(tiny_task).description | {key: "other"}
        with pytest.raises(InputError, match="trained on other rows, or from another encoder"):
            check_teacher(study[0].path, store)
        with pytest.raises(InputError, match="run the teacher again"):
            write_teacher_outputs(study[0].path, store, TRAINING, tmp_path / "outputs")


def test_a_teacher_without_its_model_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model.*run the teacher first"):
        load_teacher(tmp_path)


@pytest.fixture(scope="module")
def student(study: tuple[RunFolder, Path], tiny_encoder: Path, tiny_task: Path) -> RunFolder:
    teacher, outputs = study
    folder = outputs.parent
    return run(folder, tiny_encoder, tiny_task, "acl_cl", teacher.path, outputs, epochs=2)


def test_a_students_files_know_every_exit_and_the_teacher(
    study: tuple[RunFolder, Path], student: RunFolder
) -> None:
    assert {path.name for path in student.path.iterdir()} == {*PUBLISHED, "model"}
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
    for place in range(3):
        right = (logits[:, place].argmax(axis=1) == labels).mean()
        assert metrics["exits"][str(place + 1)]["accuracy"] == pytest.approx(right)
    assert metrics["degenerate"] is ("3" in metrics["degenerate_exits"])


@pytest.mark.parametrize(("selected_by", "epoch"), [("mean", 2), ("last", 1)])
def test_the_epoch_is_chosen_by_the_mean_over_exits_or_by_the_last(
    tmp_path: Path,
    tiny_encoder: Path,
    tiny_task: Path,
    monkeypatch: pytest.MonkeyPatch,
    selected_by: str,
    epoch: int,
) -> None:
    from acl_bert.training import loop

    each_epoch = iter([(0.1, 0.1, 0.9), (0.5, 0.5, 0.8)])
    monkeypatch.setattr(
        loop,
        "exit_scores",
        lambda *_: [{"accuracy": x, "f1": 0, "matthews": 0} for x in next(each_epoch)],
    )
    method = method_rows()["jt"].model_copy(update={"selected_by": selected_by})
    monkeypatch.setitem(method_rows(), "jt", method)
    chosen = run(tmp_path, tiny_encoder, tiny_task, "jt", epochs=2).metrics()["selection"]
    assert chosen["epoch"] == epoch
    assert chosen["value"] == pytest.approx(0.6 if selected_by == "mean" else 0.9)


def test_a_students_hash_depends_on_its_teacher(
    study: tuple[RunFolder, Path], student: RunFolder, tiny_encoder: Path, tiny_task: Path
) -> None:
    settings = RunSettings.model_validate(
        {name: student.config()[name] for name in RunSettings.model_fields}
    )
    hashes = {settings.identity("t", "e", teacher) for teacher in (None, "a", "b")}
    assert len(hashes) == 3


def test_a_kept_model_comes_back_by_auto_class_with_card_and_tokenizer(
    student: RunFolder, tiny_task: Path
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(student.model_path).eval()
    assert isinstance(model, MultiExitForSequenceClassification)
    rows = TokenStore(tiny_task).split("dev")
    inputs, labels = load_batch(rows, np.arange(48), CPU)
    with torch.inference_mode():
        output = model(labels=labels, **inputs)
    logits, _ = student.dev_logits()["dev"]
    np.testing.assert_allclose(output.logits.numpy(), logits, atol=1e-5)
    expected = sum(torch.nn.functional.cross_entropy(output.logits[:, m], labels) for m in range(3))
    torch.testing.assert_close(output.loss, expected)
    tokenizer = AutoTokenizer.from_pretrained(student.model_path)
    assert tokenizer.model_max_length == TRAINING.max_length
    card = (student.model_path / "README.md").read_text()
    assert card.startswith("---\n") and "ACL-CL on tiny" in card
    for layer, scores in student.metrics()["exits"].items():
        assert f"| {layer} | {scores['accuracy']:.4f} |" in card


def test_a_teacher_of_several_exits_teaches_by_its_last(
    student: RunFolder, tiny_encoder: Path, tiny_task: Path
) -> None:
    teacher = load_teacher(student.path)
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
    teacher = load_teacher(study[0].path).eval()
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
    places = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(places)) == len(places)
    heads = [head.state_dict() for head in model.heads]
    assert torch.equal(heads[0]["pooler.weight"], heads[1]["pooler.weight"])  # both pre-trained
    assert not torch.equal(heads[0]["classifier.weight"], heads[1]["classifier.weight"])


def test_a_model_is_cut_at_k_and_no_deeper_than_it_is(tiny_encoder: Path) -> None:
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", True, layers=2)
    assert model.exits == (1, 2)
    with pytest.raises(InputError, match="has 3 layers; `layers: 4`"):
        build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", layers=4)
