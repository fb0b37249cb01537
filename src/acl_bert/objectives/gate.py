"""ACL-Grad (docs/paper.md §2.4), and what else is done where gradients disagree (§3.5).

With g_CE and g the gradients of CE and of the term, γ the angle between them over the parameters
of the gate's scope, and φ = cos γ:

    log_only  g counts, whatever γ is
    discard   ACL-Grad: g counts where γ is at most the threshold; else g_CE alone, with weight 1
    pcgrad    PCGrad (Yu et al. 2020): where φ < 0, g loses its component along g_CE
    gradvac   GradVac (Wang et al. 2021): where φ is below a running target φ̂, g gains as much of
              g_CE as brings their cosine to φ̂

The last two change the term's gradient only, to g + a·g_CE within the scope, with

    pcgrad    a = −(g·g_CE) / ‖g_CE‖²
    gradvac   a = ‖g‖ (φ̂ √(1−φ²) − φ √(1−φ̂²)) / (‖g_CE‖ √(1−φ̂²))

so that every mode comes to a pair of weights, of g_CE and of g, for parameters inside the scope and
one for those outside. `settle` finds them from three inner products, `combine` applies them: the
gradients compared are usually fewer than those combined.

Gradients come as `torch.autograd.grad(..., allow_unused=True)` gives them: one tensor per
parameter, None where a loss does not reach the parameter, which stands for zeros.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]


class Weights(NamedTuple):
    """What a parameter's two gradients count with in the update."""

    ce: float
    term: float


class InnerProducts(NamedTuple):
    """Of g_CE and the term's gradient, each seen as one long vector."""

    ce_ce: float
    ce_term: float
    term_term: float

    @property
    def cosine(self) -> float | None:
        """φ, −1 to 1; None where a gradient is zero, or not finite."""
        norms = math.sqrt(self.ce_ce) * math.sqrt(self.term_term)
        if not 0 < norms < math.inf:
            return None
        return max(-1.0, min(1.0, self.ce_term / norms))


@dataclass(frozen=True)
class GateDecision:
    """What the gate saw on one mini-batch, and what follows."""

    angle: float | None
    """γ in degrees, 0 to 180; None where a gradient is zero (or not finite)."""
    keep: bool
    """Whether the two agree well enough for the term's gradient to be used as it is."""
    inside: Weights
    """For the parameters of the scope."""
    outside: Weights
    """For all others."""


class RunningTargets:
    """GradVac's φ̂ for each place that has a gate: 0 at first, then φ̂ ← (1−β) φ̂ + β φ.

    It is part of a training's state, as an optimiser's moments are.
    """

    def __init__(self, beta: float = 0.01) -> None:
        self._beta = beta
        self._targets: dict[str, float] = {}

    def __getitem__(self, place: str) -> float:
        return self._targets.get(place, 0.0)

    def follow(self, place: str, cosine: float | None) -> None:
        """Move the place's target towards φ; an undefined one leaves it."""
        if cosine is not None:
            self._targets[place] = (1 - self._beta) * self[place] + self._beta * cosine

    def state_dict(self) -> dict[str, float]:
        return dict(self._targets)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self._targets = dict(state)


@torch.no_grad()
def inner_products(pairs: Sequence[tuple[Gradients, Gradients]]) -> list[InnerProducts]:
    """The inner products of (g_CE, g) of each pair; the device is waited for once for all.

    The two sequences of a pair belong to the same parameters, in the same order. Raises ValueError
    where they do not match.
    """
    if not pairs:
        return []
    found = torch.stack([_inner_products(*pair) for pair in pairs])
    return [InnerProducts(*products) for products in found.tolist()]


def settle(
    products: InnerProducts,
    mode: str,
    ce_weight: float,
    weight: float,
    threshold: float = 90.0,
    target: float = 0.0,
) -> GateDecision:
    """What a gate of this mode makes of two gradients, as the top of this module says.

    ce_weight, weight: those of CE and the term where the gate does not interfere. threshold: of
    log_only and discard, degrees; exactly 90° is kept: there the sign of the inner product decides,
    not an angle that was rounded. target: φ̂ of gradvac.

    Without an angle there is nothing to object to, and the term is kept: a gradient that is zero,
    or not finite, in which case the update shows it as it would without a gate.

    Raises ValueError for an unknown mode or a threshold that is not in (0, 180].
    """
    if mode not in ("log_only", "discard", "pcgrad", "gradvac"):
        raise ValueError(f"mode is {mode!r}; choose from log_only, discard, pcgrad, gradvac")
    if not 0 < threshold <= 180:
        raise ValueError(f"threshold is {threshold}; it must be above 0 and at most 180 degrees")
    plain = Weights(ce_weight, weight)
    cosine = products.cosine
    if cosine is None:
        return GateDecision(None, True, plain, plain)
    if mode == "gradvac":
        lowest = target
    elif mode == "pcgrad" or threshold == 90:
        lowest = 0.0  # cos(90°) is 6e-17 in floating point: it would object to orthogonal gradients
    else:
        lowest = math.cos(math.radians(threshold))
    keep = cosine >= lowest
    inside = outside = plain
    if mode == "discard" and not keep:
        inside = outside = Weights(1.0, 0.0)
    elif mode in ("pcgrad", "gradvac") and not keep:
        inside = Weights(ce_weight + weight * _added(products, cosine, lowest), weight)
    return GateDecision(math.degrees(math.acos(cosine)), keep, inside, outside)


def _added(products: InnerProducts, cosine: float, wanted: float) -> float:
    """a, for which g_CE and g + a·g_CE have the cosine `wanted`, below 1, and g and g_CE `cosine`.

    GradVac's formula; with `wanted` 0 it is PCGrad's.
    """
    ratio = math.sqrt(products.term_term / products.ce_ce)
    return ratio * (wanted * math.sqrt((1 - cosine**2) / (1 - wanted**2)) - cosine)


@torch.no_grad()
def combine(g_ce: Gradients, g_term: Gradients, weights: Sequence[Weights]) -> list[Tensor | None]:
    """The update's gradient: of each parameter ce · g_CE + term · g, by its weights.

    Each product is rounded before the sum, as the expression reads. A gradient of weight 0 is left
    out, whatever it is, so that a discarded term leaves g_CE itself. None where no gradient is
    left.

    The arguments are used up: their memory may hold the result.

    Raises ValueError if the sequences differ in length.
    """
    if not len(g_ce) == len(g_term) == len(weights):
        raise ValueError(
            f"{len(g_ce)} CE gradients, {len(g_term)} of the term, {len(weights)} weights; "
            "each parameter needs one of all"
        )
    factors = [pair.ce for pair in weights] + [pair.term for pair in weights]
    counted = [g if f else None for g, f in zip([*g_ce, *g_term], factors, strict=True)]
    gradients = _apart(counted)
    _scale(gradients, factors)
    ce, term = gradients[: len(g_ce)], gradients[len(g_ce) :]
    both = [(t, c) for t, c in zip(term, ce, strict=True) if t is not None and c is not None]
    if both:
        torch._foreach_add_([t for t, _ in both], [c for _, c in both])
    return [c if t is None else t for t, c in zip(term, ce, strict=True)]


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


def _scale(gradients: Gradients, factors: Sequence[float]) -> None:
    scaled = [(g, f) for g, f in zip(gradients, factors, strict=True) if g is not None and f != 1]
    if scaled:
        torch._foreach_mul_([g for g, _ in scaled], [f for _, f in scaled])


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
