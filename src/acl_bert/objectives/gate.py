"""ACL-Grad (§2): is the contrastive gradient worth following on this mini-batch?

With γ the angle between g_CE and g_ACL, the contrastive term counts with λ' = λ where γ is at most
the threshold, and with λ' = 0 otherwise. It is kept or discarded whole, never projected.

The two questions are apart, since the gradients compared (the scope of γ) are usually fewer than
those that are combined: `gate_decision` looks, `combine` builds the update. Another way to settle
a conflict is another function beside `combine`, on the same inner products.

Gradients come as `torch.autograd.grad(..., allow_unused=True)` gives them: one tensor per
parameter, None where a loss does not reach the parameter, which stands for zeros.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]


@dataclass(frozen=True)
class GateDecision:
    """What ACL-Grad saw and decided on one mini-batch."""

    angle: float | None
    """γ in degrees, 0 to 180; None where a gradient is zero (or not finite)."""
    keep: bool
    """Whether the contrastive term counts."""


def gate_decision(
    g_ce: Gradients, g_contrastive: Gradients, threshold: float = 90.0
) -> GateDecision:
    """ACL-Grad's decision (§2): keep the contrastive term unless γ exceeds the threshold (degrees).

    The two sequences belong to the same parameters, in the same order. γ is the angle between them
    as two long vectors. Exactly 90° is kept: there the sign of the inner product decides, not an
    angle that was rounded. Without an angle there is nothing to object to, and the term is kept: a
    gradient that is zero, or not finite, in which case the update shows it as it would without a
    gate. The device is waited for once.

    Raises ValueError if the gradients do not match or the threshold is not in (0, 180].
    """
    return gate_decisions([(g_ce, g_contrastive)], threshold)[0]


def gate_decisions(
    pairs: Sequence[tuple[Gradients, Gradients]], threshold: float = 90.0
) -> list[GateDecision]:
    """`gate_decision` of several pairs, one an exit; the device is waited for once for all."""
    if not 0 < threshold <= 180:
        raise ValueError(f"threshold is {threshold}; it must be above 0 and at most 180 degrees")
    if not pairs:
        return []
    products = torch.stack([_inner_products(*pair) for pair in pairs])
    return [_decide(a_a, a_b, b_b, threshold) for a_a, a_b, b_b in products.tolist()]


def _decide(
    ce_ce: float, ce_contrastive: float, contrastive_contrastive: float, threshold: float
) -> GateDecision:
    norms = math.sqrt(ce_ce) * math.sqrt(contrastive_contrastive)
    if not 0 < norms < math.inf:
        return GateDecision(angle=None, keep=True)
    cosine = max(-1.0, min(1.0, ce_contrastive / norms))
    # cos(90°) is 6e-17 in floating point: as a bound it would discard orthogonal gradients.
    lowest = 0.0 if threshold == 90 else math.cos(math.radians(threshold))
    return GateDecision(angle=math.degrees(math.acos(cosine)), keep=cosine >= lowest)


@torch.no_grad()
def combine(
    g_ce: Gradients,
    g_contrastive: Gradients,
    ce_weight: float,
    contrastive_weight: float,
    keep: bool,
) -> list[Tensor | None]:
    """The update's gradient under ACL-Grad (§2), for each parameter.

    Kept: ce_weight · g_CE + contrastive_weight · g_ACL, each product rounded before the sum, as
    the expression reads. Discarded: g_CE itself with weight 1, in the convex form too, where
    λ' = 0 makes (1 − λ') L_CE. None where neither loss reaches the parameter.

    The arguments are used up: where the term is kept, their memory may hold the result.

    Raises ValueError if the two sequences differ in length.
    """
    if len(g_ce) != len(g_contrastive):
        raise ValueError(f"{len(g_ce)} CE gradients, but {len(g_contrastive)} contrastive ones")
    if not keep:
        return _apart(g_ce)
    gradients = _apart([*g_ce, *g_contrastive])
    ce, contrastive = gradients[: len(g_ce)], gradients[len(g_ce) :]
    _scale(ce, ce_weight)
    _scale(contrastive, contrastive_weight)
    pairs = [
        (c, e) for c, e in zip(contrastive, ce, strict=True) if c is not None and e is not None
    ]
    if pairs:
        torch._foreach_add_([c for c, _ in pairs], [e for _, e in pairs])
    return [e if c is None else c for c, e in zip(contrastive, ce, strict=True)]


def _apart(gradients: Gradients) -> list[Tensor | None]:
    """The gradients, each in memory of its own, to be written in place.

    autograd may hand out one tensor for several parameters, or an expanded one (the gradients of
    a + b).
    """
    taken: set[int] = set()
    apart: list[Tensor | None] = []
    for g in gradients:
        if g is not None and (g.data_ptr() in taken or not g.is_contiguous()):
            g = g.clone(memory_format=torch.contiguous_format)
        if g is not None:
            taken.add(g.data_ptr())
        apart.append(g)
    return apart


def _scale(gradients: Gradients, factor: float) -> None:
    present = [g for g in gradients if g is not None]
    if present and factor != 1:
        torch._foreach_mul_(present, factor)


@torch.no_grad()
def _inner_products(first: Gradients, second: Gradients) -> Tensor:
    """a·a, a·b and b·b, (3,), of two gradients a and b, each seen as one long vector.

    In float64, where the product of two float32 numbers is exact and does not underflow: products
    that cancel leave 0, not a rounding error of either sign, which would decide at 90°.
    """
    pairs = list(_flat_pairs(first, second))
    if not pairs:
        return torch.zeros(3, dtype=torch.float64)
    # On a CPU a piece and its float64 copy stay in the cache, so that each gradient is read from
    # memory once; elsewhere few launches count more.
    size = 2**16 if pairs[0][0].device.type == "cpu" else 2**24
    sums = []
    for a, b in _pieces(pairs, size):
        a, b = a.double(), b.double()
        sums.append(torch.stack([a.dot(a), a.dot(b), b.dot(b)]))
    return torch.stack(sums).sum(dim=0)


def _flat_pairs(first: Gradients, second: Gradients) -> Iterator[tuple[Tensor, Tensor]]:
    """The two gradients of each parameter as vectors; a None beside a gradient becomes zeros."""
    for index, (a, b) in enumerate(zip(first, second, strict=True)):
        present = a if a is not None else b
        if present is None:
            continue
        if a is None or b is None:
            zeros = present.new_zeros(()).expand(present.shape)
            a, b = (zeros if g is None else g for g in (a, b))
        if a.shape != b.shape:
            raise ValueError(f"gradients {index} have shapes {tuple(a.shape)}, {tuple(b.shape)}")
        yield a.flatten(), b.flatten()


def _pieces(pairs: Iterable[tuple[Tensor, Tensor]], size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The two long vectors, cut at the same places into pieces of at most `size` elements."""
    waiting: list[tuple[Tensor, Tensor]] = []
    filled = 0
    for first, second in pairs:
        for a, b in zip(torch.split(first, size), torch.split(second, size), strict=True):
            if filled + len(a) > size:
                yield _joined(waiting)
                waiting, filled = [], 0
            waiting.append((a, b))
            filled += len(a)
    yield _joined(waiting)


def _joined(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(pairs) == 1:
        return pairs[0]
    return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])
