"""LaCon against its formula in explicit loops, and at its edges."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from acl_bert.objectives.lacon import lacon_loss

DOUBLE = torch.float64


def drawn(n: int, k: int, d: int = 12, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """h, labels and label embeddings."""
    draw = torch.Generator().manual_seed(seed)
    h, w = (torch.randn(rows, d, generator=draw, dtype=DOUBLE) for rows in (n, k))
    return h.requires_grad_(), torch.randint(k, (n,), generator=draw), w.requires_grad_()


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def cut(vector: list[float], heads: int) -> list[list[float]]:
    """Pieces of equal length, or the first ones longer by one."""
    short, more = divmod(len(vector), heads)
    pieces, start = [], 0
    for head in range(heads):
        end = start + short + (head < more)
        pieces.append(vector[start:end])
        start = end
    return pieces


def in_loops(
    h: Tensor,
    labels: Tensor,
    w: Tensor,
    temperature: float = 0.1,
    heads: int = 6,
    regularizer: float = 0.5,
) -> tuple[float, float, float]:
    """ICL, LCL and the weighted LER, in Python's own float64."""
    samples, anchors, y = h.tolist(), w.tolist(), labels.tolist()
    icl = 0.0
    for head in range(heads):
        for sample, label in zip(samples, y, strict=True):
            own = cut(sample, heads)[head]
            scores = [math.exp(cosine(own, cut(a, heads)[head]) / temperature) for a in anchors]
            icl -= math.log(scores[label] / sum(scores)) / len(samples)
    per_label = []
    for p, anchor in enumerate(anchors):
        scores = [math.exp(cosine(anchor, sample) / temperature) for sample in samples]
        positives = [s for s, label in zip(scores, y, strict=True) if label == p]
        negatives = [s for s, label in zip(scores, y, strict=True) if label != p]
        if positives and negatives:
            per_label.append(-sum(math.log(s / sum(negatives)) for s in positives))
    lcl = sum(per_label) / len(per_label) if per_label else 0.0
    apart = [
        math.exp(1 + cosine(a, b)) - 1
        for i, a in enumerate(anchors)
        for j, b in enumerate(anchors)
        if i != j
    ]
    ler = sum(apart) / len(apart) if apart else 0.0
    return icl, lcl, regularizer * ler


@pytest.mark.parametrize(("n", "k"), [(8, 2), (9, 3), (5, 7), (1, 2), (1, 1), (6, 1), (32, 4)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5, "heads": 1, "regularizer": 0.0},
        {"temperature": 0.05, "heads": 5, "regularizer": 2.0},  # 12 = 3 + 3 + 2 + 2 + 2
    ],
)
def test_is_the_formula(n: int, k: int, options: dict[str, Any]) -> None:
    h, labels, w = drawn(n, k, seed=n)
    expected = sum(in_loops(h, labels, w, **options))
    loss = lacon_loss(h, labels, w, **options)
    assert loss.dtype == DOUBLE and loss.shape == ()
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    single = lacon_loss(h.float(), labels, w.float(), **options)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(expected, rel=1e-4, abs=1e-4)
    with torch.autograd.set_detect_anomaly(True):  # a NaN on the way is an error
        gradients = torch.autograd.grad(loss, [h, w])
    assert all(g.isfinite().all() for g in gradients)


def test_by_hand() -> None:
    """Two samples at their labels, at right angles: every part is a number that can be read off."""
    axes = torch.eye(2, dtype=DOUBLE)
    icl = 2 * math.log(1 + math.exp(-2))  # a sample's cosines are 1 and 0, over τ = 0.5
    lcl = 2 * -2.0  # log [e² / e⁰] for each of two labels, and the mean over them
    ler = math.e - 1
    loss = lacon_loss(axes, torch.tensor([0, 1]), axes, temperature=0.5, heads=1, regularizer=3.0)
    assert loss.item() == pytest.approx(icl / 2 + lcl / 2 + 3 * ler)


def test_a_class_missing_in_the_batch_is_no_anchor_but_a_candidate() -> None:
    h, _, w = drawn(6, 3)
    labels = torch.tensor([0, 0, 2, 2, 2, 0])
    expected = in_loops(h, labels, w)
    assert lacon_loss(h, labels, w).item() == pytest.approx(sum(expected))
    (gradient,) = torch.autograd.grad(lacon_loss(h, labels, w, regularizer=0.0), w)
    assert gradient[1].norm() > 0  # samples are drawn away from it


def test_a_batch_of_one_class_has_no_label_centred_part() -> None:
    h, _, w = drawn(4, 2)
    labels = torch.ones(4, dtype=torch.long)
    icl, lcl, ler = in_loops(h, labels, w)
    assert lcl == 0
    loss = lacon_loss(h, labels, w)
    assert loss.item() == pytest.approx(icl + ler)
    gradients = torch.autograd.grad(loss, [h, w])
    assert all(g.isfinite().all() and g.norm() > 0 for g in gradients)


def test_gradcheck() -> None:
    h, labels, w = drawn(4, 2, d=5)
    assert torch.autograd.gradcheck(
        lambda a, b: lacon_loss(a, labels, b, temperature=0.3, heads=2), (h, w)
    )


def test_descent_puts_samples_to_their_labels_and_labels_apart() -> None:
    h, labels, w = drawn(12, 3, seed=4)
    optimiser = torch.optim.Adam([h, w], lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        lacon_loss(h, labels, w).backward()
        optimiser.step()
    unit_h, unit_w = (torch.nn.functional.normalize(x) for x in (h, w))
    assert torch.equal((unit_h @ unit_w.T).argmax(dim=1), labels)
    assert (unit_w @ unit_w.T)[~torch.eye(3, dtype=torch.bool)].max() < 0


@pytest.mark.parametrize("autocast", [False, True])
def test_low_precision_input_is_computed_in_float32(autocast: bool) -> None:
    h, labels, w = drawn(8, 3)
    h, w = (x.detach().bfloat16().requires_grad_() for x in (h, w))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = lacon_loss(h, labels, w)
    assert loss.dtype == torch.float32
    expected = sum(in_loops(h.double(), labels, w.double()))
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_rows_without_direction_do_no_harm() -> None:
    h, labels, w = drawn(6, 2)
    h.data[0] = 0
    h.data[1, :2] = 0  # the first of six heads
    w.data[1] = 0
    loss = lacon_loss(h, labels, w)
    gradients = torch.autograd.grad(loss, [h, w])
    assert loss.isfinite() and all(g.isfinite().all() for g in gradients)


def test_wrong_arguments_are_named() -> None:
    h, labels, w = drawn(4, 2)
    for message, options in {
        "temperature is 0": {"temperature": 0},
        "heads is 0": {"heads": 0},
        "heads is 13; .* d = 12": {"heads": 13},
    }.items():
        with pytest.raises(ValueError, match=message):
            lacon_loss(h, labels, w, **options)
    with pytest.raises(ValueError, match="label_embeddings has d = 11"):
        lacon_loss(h, labels, w[:, :11])
    with pytest.raises(ValueError, match="labels has shape"):
        lacon_loss(h, labels[:3], w)
