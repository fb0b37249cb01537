"""ACL-Grad (docs/paper.md §2.4), and what others do where two gradients disagree (§3.5).

With g_CE and g the gradients of CE and of the auxiliary loss, γ the angle between them over the
parameters of the gate's scope, and φ = cos γ:

    log_only  g counts, whatever γ is
    discard   ACL-Grad: g counts where γ is at most the threshold; else g_CE alone, with weight 1
    pcgrad    PCGrad (Yu et al. 2020): where φ < 0, g loses its component along g_CE
    gradvac   GradVac (Wang et al. 2021): where φ is below a running target φ̂, g gains as much of
              g_CE as brings their cosine to φ̂

The last two change the auxiliary gradient only, to g + a·g_CE within the scope, with

    pcgrad    a = −(g·g_CE) / ‖g_CE‖²
    gradvac   a = ‖g‖ (φ̂ √(1−φ²) − φ √(1−φ̂²)) / (‖g_CE‖ √(1−φ̂²))

so that every mode ends in a pair of weights, of g_CE and of g: one pair for the parameters inside
the scope, one for those outside. `decide` computes the pairs from three inner products; `combine`
applies them, usually to more gradients than were compared.

Gradients come as `torch.autograd.grad(..., allow_unused=True)` gives them: one tensor per
parameter, or None, which stands for zeros, where a loss does not reach the parameter.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]


class Weights(NamedTuple):
    """The factors of a parameter's two gradients, or of an exit's two losses."""

    ce: float
    auxiliary: float


class InnerProducts(NamedTuple):
    """Of g_CE and g, each seen as one long vector."""

    ce_ce: float
    ce_auxiliary: float
    auxiliary_auxiliary: float

    @property
    def cosine(self) -> float | None:
        """φ, −1 to 1; None where a gradient is zero, or not finite."""
        norms = math.sqrt(self.ce_ce) * math.sqrt(self.auxiliary_auxiliary)
        if not 0 < norms < math.inf:
            return None
        return max(-1.0, min(1.0, self.ce_auxiliary / norms))


@dataclass(frozen=True)
class GateDecision:
    """The angle on one mini-batch, and the weights that follow from it."""

    angle: float | None
    """γ in degrees, 0 to 180; None where a gradient is zero (or not finite)."""
    keep: bool
    """Whether the two agree well enough for the auxiliary gradient to be used as it is."""
    inside: Weights
    """For the parameters of the scope."""
    outside: Weights
    """For all others."""


class RunningTargets(dict[str, float]):
    """GradVac's φ̂ by the name of what is compared: 0 at first, then φ̂ ← (1−β) φ̂ + β φ.

    They belong to the state of a training, as an optimiser's moments do.
    """

    BETA = 0.01

    def __missing__(self, name: str) -> float:
        return 0.0

    def follow(self, name: str, cosine: float | None) -> None:
        """Move the target towards φ; an undefined φ leaves it where it is."""
        if cosine is not None:
            self[name] = (1 - self.BETA) * self[name] + self.BETA * cosine


@torch.no_grad()
def inner_products(pairs: Sequence[tuple[Gradients, Gradients]]) -> list[InnerProducts]:
    """The inner products of (g_CE, g) of each pair; the device is waited for once for all.

    The two sequences of a pair belong to the same parameters, in the same order. Raises ValueError
    where they do not match.
    """
    if not pairs:
        return []
    products = torch.stack([_inner_products(*pair) for pair in pairs])
    return [InnerProducts(*row) for row in products.tolist()]


def decide(
    products: InnerProducts,
    mode: str,
    ce_weight: float,
    weight: float,
    threshold: float = 90.0,
    target: float = 0.0,
) -> GateDecision:
    """The decision of a gate of this mode, as described at the top of this module.

    ce_weight, weight: w_ce and λ, which hold where the gate does not interfere. threshold: degrees,
    for log_only and discard; exactly 90° is kept: there the sign of the inner product decides, not
    an angle that was rounded. target: φ̂, for gradvac.

    Without an angle the auxiliary gradient is kept: a gradient is then zero, or not finite, and the
    update shows that as it would without a gate.
    """
    plain = Weights(ce_weight, weight)
    cosine = products.cosine
    if cosine is None:
        return GateDecision(None, True, plain, plain)
    if mode == "gradvac":
        lowest = target
    elif mode == "pcgrad" or threshold == 90:
        lowest = 0.0  # cos(90°) is 6e-17 in floating point: it would refuse orthogonal gradients
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
    ratio = math.sqrt(products.auxiliary_auxiliary / products.ce_ce)
    return ratio * (wanted * math.sqrt((1 - cosine**2) / (1 - wanted**2)) - cosine)


@torch.no_grad()
def combine(
    g_ce: Gradients, g_auxiliary: Gradients, weights: Sequence[Weights]
) -> list[Tensor | None]:
    """The update's gradient of each parameter, ce · g_CE + auxiliary · g, by its weights.

    Each product is rounded before the sum, as the expression reads. A gradient of weight 0 is left
    out, even one that is not finite, so that a discarded g leaves g_CE itself. None where no
    gradient is left.

    The arguments are used up: their memory may hold the result.

    Raises ValueError if the sequences differ in length.
    """
    if not len(g_ce) == len(g_auxiliary) == len(weights):
        raise ValueError(
            f"{len(g_ce)} CE gradients, {len(g_auxiliary)} auxiliary ones, {len(weights)} weights; "
            "each parameter needs one of all"
        )
    factors = [pair.ce for pair in weights] + [pair.auxiliary for pair in weights]
    counted = [g if f else None for g, f in zip([*g_ce, *g_auxiliary], factors, strict=True)]
    gradients = _apart(counted)
    scaled = [(g, f) for g, f in zip(gradients, factors, strict=True) if g is not None and f != 1]
    if scaled:
        torch._foreach_mul_([g for g, _ in scaled], [f for _, f in scaled])
    pairs = list(zip(gradients[: len(g_ce)], gradients[len(g_ce) :], strict=True))
    both = [(a, c) for c, a in pairs if c is not None and a is not None]
    if both:
        torch._foreach_add_([a for a, _ in both], [c for _, c in both])
    return [c if a is None else a for c, a in pairs]


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
    for pair in zip(first, second, strict=True):
        present = next((g for g in pair if g is not None), None)
        if present is not None:
            a, b = (torch.zeros_like(present) if g is None else g for g in pair)
            yield a.flatten(), b.flatten()


def _pieces(pairs: Iterable[tuple[Tensor, Tensor]], size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The two long vectors, cut at the same places into pieces of at most `size` elements."""
    waiting: list[tuple[Tensor, Tensor]] = []
    filled = 0
    for first, second in pairs:
        for a, b in zip(torch.split(first, size), torch.split(second, size), strict=True):
            if filled + len(a) > size:
                yield torch.cat([x for x, _ in waiting]), torch.cat([x for _, x in waiting])
                waiting, filled = [], 0
            waiting.append((a, b))
            filled += len(a)
    yield torch.cat([x for x, _ in waiting]), torch.cat([x for _, x in waiting])
