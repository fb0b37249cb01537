"""The contrastive losses against their formula in explicit loops, and at its edges."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss
from torch import Tensor

from acl_bert.objectives.contrastive import (
    Reduction,
    acl_cl_loss,
    acl_embed_loss,
    supervised_contrastive_loss,
)

VECTORS = json.loads((Path(__file__).parent / "vectors" / "objectives.json").read_text())
DOUBLE = torch.float64


@dataclass
class Batch:
    """N samples h of K classes and the label embeddings w, at a student and at a teacher exit."""

    labels: Tensor
    h: Tensor
    w: Tensor
    teacher_h: Tensor
    teacher_w: Tensor

    @property
    def leaves(self) -> list[Tensor]:
        return [self.h, self.w, self.teacher_h, self.teacher_w]


def random_batch(n: int, k: int, d: int = 8, seed: int = 0, dtype: torch.dtype = DOUBLE) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=draw)
    drawn = [torch.randn(rows, d, generator=draw, dtype=DOUBLE) for rows in (n, k, n, k)]
    return Batch(labels, *(x.to(dtype).requires_grad_() for x in drawn))


Loss = Callable[..., Tensor]
LOSSES: dict[str, Loss] = {
    "supervised_contrastive": lambda b, **o: supervised_contrastive_loss(b.h, b.labels, **o),
    "acl_embed_anchors_all": lambda b, **o: acl_embed_loss(b.h, b.labels, b.w, **o),
    "acl_embed_anchors_samples": lambda b, **o: acl_embed_loss(
        b.h, b.labels, b.w, anchors="samples", **o
    ),
    "acl_cl_anchors_student": lambda b, **o: acl_cl_loss(
        b.h, b.w, b.teacher_h, b.teacher_w, b.labels, **o
    ),
    "acl_cl_anchors_all": lambda b, **o: acl_cl_loss(
        b.h, b.w, b.teacher_h, b.teacher_w, b.labels, anchors="all", **o
    ),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def items_of(name: str, batch: Batch) -> tuple[list[Tensor], list[int], int]:
    """The loss's items with their classes, in the paper's order, and how many are anchors."""
    y, k = batch.labels.tolist(), list(range(len(batch.w)))
    samples = list(batch.h)
    with_labels = samples + list(batch.w)
    everything = with_labels + list(batch.teacher_h) + list(batch.teacher_w)
    return {
        "supervised_contrastive": (samples, y, len(y)),
        "acl_embed_anchors_all": (with_labels, y + k, len(y + k)),
        "acl_embed_anchors_samples": (with_labels, y + k, len(y)),
        "acl_cl_anchors_student": (everything, (y + k) * 2, len(y + k)),
        "acl_cl_anchors_all": (everything, (y + k) * 2, len(y + k) * 2),
    }[name]


def in_loops(
    name: str,
    batch: Batch,
    temperature: float = 0.3,
    normalize: bool = True,
    reduction: str = "mean",
) -> float:
    """The formula of docs/paper.md §2.3 as it reads, in Python's own float64."""
    tensors, classes, anchors = items_of(name, batch)
    items = [item.detach().double().tolist() for item in tensors]
    if normalize:
        items = [[v / math.hypot(*item) for v in item] for item in items]

    def weight(i: int, j: int) -> float:
        return sum(a * b for a, b in zip(items[i], items[j], strict=True)) / temperature

    losses = []
    for i in range(anchors):
        positives = [j for j in range(len(items)) if j != i and classes[j] == classes[i]]
        if not positives:
            continue
        exponents = [weight(i, k) for k in range(len(items)) if k != i]
        top = max(exponents)
        log_sum = top + math.log(math.fsum(math.exp(e - top) for e in exponents))
        losses.append(-math.fsum(weight(i, j) - log_sum for j in positives) / len(positives))
    total = math.fsum(losses)
    return total if reduction == "sum" else total / max(len(losses), 1)


def gradients(loss: Tensor, batch: Batch) -> list[Tensor]:
    found = torch.autograd.grad(loss, batch.leaves, allow_unused=True)
    return [
        torch.zeros_like(x) if g is None else g for x, g in zip(batch.leaves, found, strict=True)
    ]


@each_loss
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("temperature", [0.01, 0.3])
def test_is_the_formula(name: str, temperature: float, normalize: bool, reduction: str) -> None:
    options: dict[str, Any] = {
        "temperature": temperature,
        "normalize": normalize,
        "reduction": reduction,
    }
    for n, k in [(1, 3), (7, 2), (8, 4)]:
        batch = random_batch(n, k, seed=n)
        expected = in_loops(name, batch, **options)
        loss = LOSSES[name](batch, **options)
        assert loss.dtype == torch.float64 and loss.shape == ()
        assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-12)

        single = random_batch(n, k, seed=n, dtype=torch.float32)
        expected = in_loops(name, single, **options)
        loss = LOSSES[name](single, **options)
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)


@each_loss
@pytest.mark.parametrize("k", range(1, 21))
def test_any_number_of_classes(name: str, k: int) -> None:
    batch = random_batch(10, k, seed=k)
    assert LOSSES[name](batch).item() == pytest.approx(in_loops(name, batch), rel=1e-6, abs=1e-12)


@each_loss
@pytest.mark.parametrize("case", range(len(VECTORS)))
def test_matches_the_vectors(name: str, case: int) -> None:
    vector = VECTORS[case]
    keys = ("representations", "label_embeddings")
    exits = [vector[prefix + key] for prefix in ("", "teacher_") for key in keys]
    batch = Batch(torch.tensor(vector["labels"]), *(torch.tensor(x, dtype=DOUBLE) for x in exits))
    loss = LOSSES[name](batch, temperature=vector["temperature"], normalize=vector["normalize"])
    assert loss.item() == pytest.approx(vector["expected"][name], rel=1e-9, abs=1e-12)


@each_loss
@pytest.mark.parametrize("seed", range(3))
def test_coincides_with_pytorch_metric_learning(name: str, seed: int) -> None:
    """Its SupConLoss is the same loss once told the pairs: every anchor with every other item."""
    batch = random_batch(9, 3, seed=seed)
    tensors, classes, anchors = items_of(name, batch)
    items, labels = torch.stack(tensors), torch.tensor(classes)
    same = labels[:anchors, None] == labels
    other = ~torch.eye(*same.shape, dtype=torch.bool)
    pairs = (*torch.where(same & other), *torch.where(~same))
    theirs = SupConLoss(temperature=0.3)(
        items[:anchors], labels[:anchors], pairs, ref_emb=items, ref_labels=labels
    )
    ours = LOSSES[name](batch)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    for mine, other_gradient in zip(gradients(ours, batch), gradients(theirs, batch), strict=True):
        torch.testing.assert_close(mine, other_gradient)


@each_loss
@pytest.mark.parametrize(("normalize", "reduction"), [(True, "mean"), (False, "sum")])
def test_gradcheck(name: str, normalize: bool, reduction: str) -> None:
    batch = random_batch(4, 2, d=3)

    def loss(*leaves: Tensor) -> Tensor:
        batch.h, batch.w, batch.teacher_h, batch.teacher_w = leaves
        return LOSSES[name](batch, normalize=normalize, reduction=reduction)

    assert torch.autograd.gradcheck(loss, tuple(batch.leaves))


@pytest.mark.parametrize("labels", [[], [2], [0, 1, 2]], ids=["empty", "batch of one", "all apart"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_no_positive_is_zero_yet_goes_backward(labels: list[int], reduction: Reduction) -> None:
    h = torch.randn(len(labels), 4, requires_grad=True)
    y = torch.tensor(labels, dtype=torch.long)
    with torch.autograd.set_detect_anomaly(True):  # a NaN on the way is an error
        loss = supervised_contrastive_loss(h, y, reduction=reduction)
        assert loss.item() == 0
        (gradient,) = torch.autograd.grad(loss, h)
    assert torch.equal(gradient, torch.zeros_like(h))


def test_an_anchor_without_a_positive_is_not_counted() -> None:
    h = torch.randn(3, 4, dtype=DOUBLE, requires_grad=True)
    y = torch.tensor([0, 0, 1])
    mean = supervised_contrastive_loss(h, y)
    assert mean.item() == pytest.approx(
        supervised_contrastive_loss(h, y, reduction="sum").item() / 2
    )
    # It still is a candidate for the others: the only negative, it is pushed away.
    (gradient,) = torch.autograd.grad(mean, h)
    assert gradient[2].norm() > 0


@each_loss
def test_one_class(name: str) -> None:
    batch = random_batch(6, 1)
    loss = LOSSES[name](batch)
    assert loss.item() == pytest.approx(in_loops(name, batch), rel=1e-6)
    assert all(g.isfinite().all() for g in gradients(loss, batch))


@each_loss
@pytest.mark.parametrize("temperature", [0.01, 0.3])
def test_identical_rows(name: str, temperature: float) -> None:
    """All similarities are 1/τ: a positive is one of the I − 1 other items, whatever τ is."""
    batch = random_batch(6, 2, dtype=torch.float32)
    for leaf in batch.leaves:
        leaf.data[:] = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
    loss = LOSSES[name](batch, temperature=temperature)
    others = len(items_of(name, batch)[0]) - 1
    assert loss.item() == pytest.approx(math.log(others), rel=1e-4)
    assert all(g.abs().max() < 1e-3 / temperature for g in gradients(loss, batch))


@each_loss
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.bfloat16, 0.0),
        (torch.float32, 0.0),
        (torch.float32, 1e-12),
        (torch.float32, 1e-30),
        (DOUBLE, 0.0),
        (DOUBLE, 1e-30),
    ],
)
def test_a_row_without_direction_gets_no_gradient(
    name: str, dtype: torch.dtype, size: float
) -> None:
    """Zero, or so short that only rounding gave it a direction."""
    batch = random_batch(6, 2, dtype=dtype)
    for leaf in batch.leaves:
        leaf.data[0] *= size
    loss = LOSSES[name](batch)
    assert loss.isfinite()
    for g in gradients(loss, batch):
        assert torch.equal(g[0], torch.zeros_like(g[0]))
        assert g.isfinite().all() and g.abs().max() < 1e3
    if name != "supervised_contrastive":
        assert gradients(LOSSES[name](batch), batch)[1][1].norm() > 0


@each_loss
@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_length_does_not_matter_when_normalised(name: str, scale: float) -> None:
    batch, scaled = random_batch(7, 3), random_batch(7, 3)
    for leaf in scaled.leaves:
        leaf.data *= scale
    assert LOSSES[name](scaled).item() == pytest.approx(LOSSES[name](batch).item(), rel=1e-9)


@each_loss
def test_a_row_that_is_not_a_number_is_not_hidden(name: str) -> None:
    batch = random_batch(6, 2)
    batch.h.data[0, 0] = math.nan
    assert LOSSES[name](batch).isnan()


@each_loss
def test_low_temperature_on_large_values_does_not_overflow(name: str) -> None:
    batch = random_batch(8, 2, dtype=torch.float32)
    for leaf in batch.leaves:
        leaf.data *= 1e3
    for normalize in (True, False):
        loss = LOSSES[name](batch, temperature=0.01, normalize=normalize)
        expected = in_loops(name, batch, temperature=0.01, normalize=normalize)
        assert loss.item() == pytest.approx(expected, rel=1e-4)
        assert all(g.isfinite().all() for g in gradients(loss, batch))


@each_loss
@pytest.mark.parametrize("autocast", [False, True])
def test_low_precision_input_is_computed_in_float32(name: str, autocast: bool) -> None:
    batch = random_batch(8, 3, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = LOSSES[name](batch, temperature=0.05)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(in_loops(name, batch, temperature=0.05), rel=1e-5)
    assert all(g.dtype == torch.bfloat16 for g in gradients(loss, batch))


@each_loss
def test_autocast_changes_nothing_for_float32(name: str) -> None:
    batch = random_batch(8, 3, dtype=torch.float32)
    plain = LOSSES[name](batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = LOSSES[name](batch)
    assert torch.equal(loss, plain)
    for a, b in zip(gradients(loss, batch), gradients(plain, batch), strict=True):
        assert torch.equal(a, b)


def test_mixed_precision_is_computed_in_the_widest() -> None:
    batch = random_batch(8, 3)
    half = batch.h.detach().bfloat16()
    loss = acl_embed_loss(half, batch.labels, batch.w)
    assert torch.equal(loss, acl_embed_loss(half.double(), batch.labels, batch.w))


def test_the_labels_learn() -> None:
    """The label embeddings are the classifier's weight: the loss must reach it."""
    batch = random_batch(8, 3)
    for name in ("acl_embed_anchors_all", "acl_embed_anchors_samples", "acl_cl_anchors_student"):
        assert (gradients(LOSSES[name](batch), batch)[1].norm(dim=1) > 0).all()


def test_detaching_the_teacher_is_left_to_the_caller() -> None:
    batch = random_batch(8, 3)
    loss = acl_cl_loss(batch.h, batch.w, batch.teacher_h, batch.teacher_w, batch.labels)
    attached = gradients(loss, batch)
    assert all(g.norm() > 0 for g in attached)

    teacher = (batch.teacher_h.detach(), batch.teacher_w.detach())
    frozen = gradients(acl_cl_loss(batch.h, batch.w, *teacher, batch.labels), batch)
    assert frozen[2].norm() == frozen[3].norm() == 0
    torch.testing.assert_close(frozen[:2], attached[:2])


def test_wrong_arguments_are_named() -> None:
    b = random_batch(4, 2)
    wider = torch.zeros(2, 9)
    scl: Loss = supervised_contrastive_loss
    embed: Loss = acl_embed_loss
    cl: Loss = acl_cl_loss
    for message, call in {
        "temperature is 0": lambda: scl(b.h, b.labels, temperature=0),
        "temperature is nan": lambda: scl(b.h, b.labels, math.nan),
        "reduction is 'none'": lambda: scl(b.h, b.labels, reduction="none"),
        "anchors is 'student'": lambda: embed(b.h, b.labels, b.w, anchors="student"),
        "anchors is 'samples'": lambda: cl(b.h, b.w, b.h, b.w, b.labels, anchors="samples"),
        "representations has shape": lambda: scl(b.h[0], b.labels),
        "labels has shape": lambda: scl(b.h, b.labels[:3]),
        "labels has shape .* torch.float32": lambda: scl(b.h, b.labels.float()),
        "label_embeddings has d = 9": lambda: embed(b.h, b.labels, wider),
        "label_embeddings has shape": lambda: embed(b.h, b.labels, b.w[0]),
        "student_label_embeddings has 2 classes": lambda: cl(
            b.h, b.w, b.h, torch.zeros(3, 8), b.labels
        ),
        "teacher_representations needs": lambda: cl(b.h, b.w, b.h[:3], b.w, b.labels),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
