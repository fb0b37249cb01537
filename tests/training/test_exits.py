"""Several exits in one step: which learn, by what, and what each one's gate lets through."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from acl_bert.config.method import Method, known_methods
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import InputError
from acl_bert.model.build import build_classifier, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import load_batch
from acl_bert.training.exit_losses import auxiliary_loss
from acl_bert.training.regimes import ExitLoss, ExitSchedule, exit_weights
from acl_bert.training.step import StepRecord, training_step
from acl_bert.training.teacher import TeacherItems, teacher_items

Batch = tuple[dict[str, torch.Tensor], torch.Tensor]
Gradients = dict[str, torch.Tensor]
METHODS = known_methods()


@pytest.fixture
def batch(tiny_task: Path) -> Batch:
    return load_batch(TokenStore(tiny_task).split("train"), np.arange(16), torch.device("cpu"))


@pytest.fixture
def teacher(tiny_encoder: Path) -> EncoderClassifier:
    torch.manual_seed(5)
    return build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler").eval()


@pytest.fixture
def model(tiny_encoder: Path, teacher: EncoderClassifier) -> EncoderClassifier:
    torch.manual_seed(3)
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", every_layer=True)
    start_from(model, teacher)
    return model.train()


def row(name: str, **changes: Any) -> Method:
    given = METHODS[name].model_dump(by_alias=True)
    given["gate"] |= {
        key: changes.pop(key) for key in ("mode", "scope", "threshold") if key in changes
    }
    return Method.model_validate(given | changes)


def step(
    model: EncoderClassifier,
    batch: Batch,
    method: Method,
    items: TeacherItems | None = None,
    update: int = 1,
    **more: Any,
) -> tuple[Gradients, StepRecord]:
    """The gradients that one step leaves, dropout drawn from the same state each time."""
    own = copy.deepcopy(model)
    schedule = ExitSchedule(
        method, own.exits, teacher_depth=own.exits[-1] if method.teacher else None
    )
    schedule.freeze(own)
    schedule.train_mode(own)
    torch.manual_seed(11)
    record = training_step(own, *batch, method, schedule.losses(update), items, **more)
    found = {n: p.grad.clone() for n, p in own.named_parameters() if p.grad is not None}
    return found, record


def losses(
    model: EncoderClassifier, batch: Batch, method: Method, items: TeacherItems | None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """CE and the method's term at every exit, from a plain forward pass."""
    inputs, labels = batch
    torch.manual_seed(11)
    found = []
    for head, h in zip(model.heads, model.represent(**inputs), strict=True):
        logits = head.classify(h)
        term = auxiliary_loss(method, h, logits, labels, head.label_embeddings, items)
        found.append((cross_entropy(logits, labels), term))
    return found


def same(first: Gradients, second: Gradients) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def close(first: Gradients, second: Gradients) -> None:
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-7, atol=1e-10)


# ---- Regimes


@pytest.mark.parametrize(
    ("name", "update", "indices"),
    [
        ("ce", 0, [2]),
        ("jt", 0, [0, 1, 2]),
        ("jt", 1, [0, 1, 2]),
        ("alternating", 0, [2]),
        ("alternating", 1, [0, 1, 2]),
        ("alternating", 2, [2]),
        ("two_stage", 0, [0, 1]),
        ("two_stage", 1, [0, 1]),
    ],
)
def test_a_regime_says_which_exits_learn(name: str, update: int, indices: list[int]) -> None:
    schedule = ExitSchedule(METHODS[name], (1, 2, 3), teacher_depth=None)
    assert [loss.exit_index for loss in schedule.losses(update)] == indices
    assert all(loss.weight == 1 for loss in schedule.losses(update))


def test_weights_sum_to_the_number_of_exits_and_ascend_as_pabees() -> None:
    assert exit_weights("uniform", 4) == [1, 1, 1, 1]
    assert exit_weights("ascending", 4) == pytest.approx([0.4, 0.8, 1.2, 1.6])
    assert exit_weights("descending", 4) == pytest.approx([1.6, 1.2, 0.8, 0.4])


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("jt", []),
        ("jt_acl", [0, 1, 2]),
        ("acl_cl", [0, 1]),
        ("acl_cl_no_cross_layer", [0, 1]),
        ("logits_kd", [0, 1]),
    ],
)
def test_the_teachers_exit_learns_by_ce_alone(name: str, indices: list[int]) -> None:
    method = METHODS[name]
    schedule = ExitSchedule(method, (1, 2, 3), teacher_depth=3 if method.teacher else None)
    assert [loss.exit_index for loss in schedule.losses(0) if loss.auxiliary] == indices


def test_a_student_without_an_exit_below_the_teacher_is_refused() -> None:
    with pytest.raises(InputError, match="no exit lies below the teacher's, in layer 3"):
        ExitSchedule(row("acl_cl", regime="single_exit"), (3,), teacher_depth=3)
    assert (
        ExitSchedule(row("acl_cl", regime="single_exit"), (2,), teacher_depth=3)
        .losses(0)[0]
        .auxiliary
    )


@pytest.mark.parametrize("name", ["jt", "jt_ascending", "jt_descending"])
def test_jt_is_the_weighted_sum_of_all_exits_ce(
    model: EncoderClassifier, batch: Batch, name: str
) -> None:
    model = model.double()
    method = METHODS[name]
    weights = exit_weights(method.exit_weights, 3)
    own = copy.deepcopy(model)
    torch.manual_seed(11)
    inputs, labels = batch
    every = [h.classify(x) for h, x in zip(own.heads, own.represent(**inputs), strict=True)]
    total = sum(w * cross_entropy(x, labels) for w, x in zip(weights, every, strict=True))
    total.backward()
    expected = {n: p.grad for n, p in own.named_parameters() if p.grad is not None}
    ours, record = step(model, batch, method)
    close(ours, expected)
    assert float(record.loss) == pytest.approx(total.item())


def test_the_second_stage_moves_the_shallow_exits_and_nothing_else(
    model: EncoderClassifier, batch: Batch
) -> None:
    ours, _ = step(model, batch, METHODS["two_stage"])
    assert {name.split(".classifier")[0].split(".pooler")[0] for name in ours} == {
        "heads.0",
        "heads.1",
    }


def test_a_frozen_backbone_gives_the_same_h_each_time(
    model: EncoderClassifier, batch: Batch
) -> None:
    schedule = ExitSchedule(METHODS["two_stage"], model.exits, 3)
    schedule.train_mode(model)
    first, second = (model.represent(**batch[0]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    ExitSchedule(METHODS["jt"], model.exits, None).train_mode(model)
    first, second = (model.represent(**batch[0]) for _ in range(2))
    assert not torch.equal(first[0], second[0])


def test_alternating_updates_leave_the_shallow_exits_alone_at_even_steps(
    model: EncoderClassifier, batch: Batch
) -> None:
    even, _ = step(model, batch, METHODS["alternating"], update=0)
    odd, _ = step(model, batch, METHODS["alternating"], update=1)
    assert not any(name.startswith(("heads.0", "heads.1")) for name in even)
    assert any(name.startswith("heads.0") for name in odd)


# ---- Terms and gates


STUDENTS: list[tuple[str, dict[str, Any]]] = [
    ("jt_acl", {}),
    ("jt_scl", {"mode": "discard", "scope": "representation"}),
    ("acl_cl", {}),
    ("acl_cl", {"teacher_anchors": True}),
    ("acl_cl", {"representation": "cls"}),
    ("acl_cl", {"exit_weights": "ascending"}),
    ("acl_cl", {"teacher_exit": "live"}),
    ("acl_cl_no_labels", {}),
    ("acl_cl_no_cross_layer", {}),
]


@pytest.mark.parametrize("scope", ["representation", "encoder", "last_layer"])
@pytest.mark.parametrize(("name", "changes"), STUDENTS)
def test_a_step_that_keeps_every_term_is_the_joint_backward(
    model: EncoderClassifier,
    teacher: EncoderClassifier,
    batch: Batch,
    name: str,
    changes: dict[str, Any],
    scope: str,
) -> None:
    model, teacher = model.double(), teacher.double()
    items = teacher_items(teacher, batch[0])
    method = row(name, **changes, **({} if "scope" in changes else {"scope": scope}), threshold=180)
    ours, record = step(model, batch, method, items)
    joint, expected = step(model, batch, row(name, **changes | {"mode": "off"}), items)
    close(ours, joint)
    assert float(record.loss) == pytest.approx(float(expected.loss))
    students = 3 if name.startswith("jt") else 2
    assert len(record.gates) == (students if method.gate.scope == "representation" else 1)


@pytest.mark.parametrize("scope", ["representation", "encoder"])
def test_a_step_that_drops_every_term_is_the_jt_step_bit_for_bit(
    model: EncoderClassifier, teacher: EncoderClassifier, batch: Batch, scope: str
) -> None:
    items = teacher_items(teacher, batch[0])
    ours, record = step(model, batch, row("acl_cl", scope=scope, threshold=1e-6), items)
    assert not any(decision.keep for decision in record.gates.values())
    assert torch.equal(record.loss, record.ce)
    jt, _ = step(model, batch, row("jt", teacher="acl", start="teacher"), items)
    if scope == "encoder":
        assert same(ours, jt)
    else:
        for name in jt:  # the sums at h are taken in another order
            torch.testing.assert_close(ours[name], jt[name], rtol=1e-4, atol=1e-7)


def test_each_exit_decides_for_itself(
    model: EncoderClassifier, teacher: EncoderClassifier, batch: Batch
) -> None:
    items = teacher_items(teacher, batch[0])
    _, seen = step(model, batch, row("acl_cl"), items)
    angles = {layer: decision.angle for layer, decision in seen.gates.items()}
    assert list(angles) == [1, 2]
    low, high = sorted(angles, key=lambda layer: angles[layer] or 0)
    between = sum(angle or 0 for angle in angles.values()) / 2
    method = row("acl_cl", threshold=between)
    ours, record = step(model, batch, method, items)
    assert (record.gates[low].keep, record.gates[high].keep) == (True, False)
    alone = copy.deepcopy(model)
    found = losses(alone, batch, method, items)
    expected = sum(ce for ce, _ in found) + 0.5 * found[low - 1][1]
    assert float(record.loss) == pytest.approx(expected.item(), rel=1e-6)
    expected.backward()
    for name, parameter in alone.named_parameters():
        if name in ours:
            torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("scope", "expected"), [("representation", 1), ("encoder", 2)])
def test_the_encoder_is_passed_once_or_twice(
    model: EncoderClassifier,
    teacher: EncoderClassifier,
    batch: Batch,
    scope: str,
    expected: int,
) -> None:
    items = teacher_items(teacher, batch[0])
    method = row("acl_cl", scope=scope)
    counted: list[int] = []
    hook = model.encoder.encoder.layer[0].attention.register_full_backward_hook(
        lambda *_: counted.append(1)
    )
    schedule = ExitSchedule(method, model.exits, 3)
    training_step(model, *batch, method, schedule.losses(0), items)
    hook.remove()
    assert len(counted) == expected


@pytest.mark.parametrize("name", ["logits_kd", "feature_kd"])
def test_distillation_is_added_below_the_teachers_exit(
    model: EncoderClassifier, teacher: EncoderClassifier, batch: Batch, name: str
) -> None:
    model, teacher = model.double(), teacher.double()
    method, items = METHODS[name], teacher_items(teacher, batch[0])
    ours, record = step(model, batch, method, items)
    own = copy.deepcopy(model)
    found = losses(own, batch, method, items)
    total = sum(ce for ce, _ in found) + 0.5 * sum(term for _, term in found[:-1])
    total.backward()
    close(ours, {n: p.grad for n, p in own.named_parameters() if p.grad is not None})
    assert float(record.loss) == pytest.approx(total.item())
    assert float(record.auxiliary) == pytest.approx(sum(t.item() for _, t in found[:-1]))  # type: ignore[arg-type]


def test_a_frozen_teacher_gets_no_gradient_and_a_live_one_does(
    model: EncoderClassifier, teacher: EncoderClassifier, batch: Batch
) -> None:
    items = teacher_items(teacher, batch[0])
    exits: Sequence[ExitLoss] = [ExitLoss(0, 1.0, True)]
    for live in (False, True):
        own = copy.deepcopy(model)
        method = row("acl_cl", teacher_exit="live" if live else "frozen")
        training_step(own, *batch, method, [*exits, ExitLoss(2, 0.0, False)], items)
        reached = own.heads[-1].classifier.weight.grad
        assert (reached is not None and bool(reached.abs().sum() > 0)) is live


def test_micro_batches_add_up(
    model: EncoderClassifier, teacher: EncoderClassifier, batch: Batch
) -> None:
    items = teacher_items(teacher, batch[0])
    method = row("acl_cl", exit_weights="ascending", threshold=180)
    schedule = ExitSchedule(method, model.exits, 3)
    model.eval()
    whole, halves = copy.deepcopy(model), copy.deepcopy(model)
    training_step(whole, *batch, method, schedule.losses(0), items)
    for _ in range(2):
        training_step(halves, *batch, method, schedule.losses(0), items, loss_scale=0.5)
    for (name, a), b in zip(whole.named_parameters(), halves.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7, msg=name)
