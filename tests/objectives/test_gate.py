"""The gate: what each mode decides, and what it makes of the two gradients."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from acl_bert.objectives import gate
from acl_bert.objectives.contrastive import acl_embed_loss
from acl_bert.objectives.gate import (
    GateDecision,
    Gradients,
    RunningTargets,
    Weights,
    combine,
    inner_products,
)

VECTORS = json.loads((Path(__file__).parent / "vectors" / "gates.json").read_text())
DOUBLE = torch.float64


def vectors_at(degrees: float, n: int = 6, lengths: tuple[float, float] = (1, 1)) -> list[Tensor]:
    """Two float64 vectors in a random plane, at the given angle."""
    plane, _ = torch.linalg.qr(torch.randn(n, 2, dtype=DOUBLE, generator=seeded()))
    radians = math.radians(degrees)
    turned = math.cos(radians) * plane[:, 0] + math.sin(radians) * plane[:, 1]
    return [lengths[0] * plane[:, 0], lengths[1] * turned]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def decide(
    g_ce: Gradients, g_term: Gradients, mode: str = "discard", **options: float
) -> GateDecision:
    (products,) = inner_products([(g_ce, g_term)])
    return gate.decide(products, mode, **{"ce_weight": 1.0, "weight": 0.5} | options)


def seen(g_ce: Gradients, g_term: Gradients, threshold: float = 90) -> tuple[float | None, bool]:
    decision = decide(g_ce, g_term, threshold=threshold)
    return decision.angle, decision.keep


def combined(
    g_ce: Gradients, g_term: Gradients, ce_weight: float, weight: float
) -> list[Tensor | None]:
    return combine(g_ce, g_term, [Weights(ce_weight, weight)] * len(g_ce))


class Task:
    """A small classifier, the contrastive loss on its representations, and their gradients.

    The weight of the classifier is the label embeddings; its bias gets no contrastive gradient.
    """

    def __init__(self, dtype: torch.dtype = torch.float32, seed: int = 0):
        torch.manual_seed(seed)
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
        self.classifier = nn.Linear(8, 3)
        self.model = nn.ModuleList([self.encoder, self.classifier]).to(dtype)
        self.x = torch.randn(10, 12, dtype=dtype)
        self.labels = torch.arange(10) % 3
        self.parameters = list(self.model.parameters())

    def losses(self) -> tuple[Tensor, Tensor]:
        h = self.encoder(self.x)
        ce = nn.functional.cross_entropy(self.classifier(h), self.labels)
        return ce, acl_embed_loss(h, self.labels, self.classifier.weight)

    def gradients(self) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Each from a forward and a backward pass of its own."""
        ce, _ = self.losses()
        _, contrastive = self.losses()
        return (
            list(torch.autograd.grad(ce, self.parameters, allow_unused=True)),
            list(torch.autograd.grad(contrastive, self.parameters, allow_unused=True)),
        )


def identical(first: Gradients, second: Gradients) -> bool:
    return all(
        x is y if x is None or y is None else torch.equal(x, y)
        for x, y in zip(first, second, strict=True)
    )


def joined(gradients: Gradients) -> Tensor:
    return torch.cat([g for g in gradients if g is not None])


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("parts", [[12], [1, 4, 7]], ids=["one parameter", "three"])
@pytest.mark.parametrize(
    ("mode", "expected_key"),
    [("discard", "discard"), ("pcgrad", "pcgrad"), ("gradvac", "pcgrad")],  # φ̂ is 0 at first
)
def test_matches_the_vectors(vector: dict, parts: list[int], mode: str, expected_key: str) -> None:
    g_ce, g_contrastive, expected = (
        torch.tensor(vector[key], dtype=DOUBLE).split(parts)
        for key in ("g_ce", "g_contrastive", expected_key)
    )
    decision = decide(g_ce, g_contrastive, mode, weight=vector["weight"])
    assert decision.angle == pytest.approx(vector["angle_degrees"], rel=1e-12)
    assert decision.keep == (vector["angle_degrees"] <= 90)
    update = combine(g_ce, g_contrastive, [decision.inside] * len(parts))
    torch.testing.assert_close(joined(update), joined(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("threshold", [75, 90, 105, 120])
@pytest.mark.parametrize("off", [-60, -1, -1e-6, 1e-6, 1, 60])
def test_the_threshold_decides(threshold: float, off: float) -> None:
    g_ce, g_contrastive = vectors_at(threshold + off, lengths=(3, 1e-4))
    decision = decide([g_ce], [g_contrastive], threshold=threshold)
    assert decision.angle == pytest.approx(threshold + off, abs=1e-9)
    assert decision.keep == (off <= 0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0, 0.0], [0.0, 1.0]),
        ([1.0, 1.0, 0.0], [1.0, -1.0, 5.0]),
        ([0.1, 0.3], [0.3, -0.1]),
        ([0.1, 0.3], [-0.3, 0.1]),
        ([0.7, 1e-3, 0.7, 1e-3], [1e-3, -0.7, -1e-3, 0.7]),
    ],
)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_exactly_90_degrees_is_kept(
    a: list[float], b: list[float], split: bool, dtype: torch.dtype
) -> None:
    """Products that cancel decide by their exact sum, 0, not by the rounding of either."""
    g_ce, g_contrastive = (
        torch.tensor(g, dtype=dtype).split(1 if split else len(g)) for g in (a, b)
    )
    assert seen(g_ce, g_contrastive) == (90.0, True)


def test_just_beyond_90_degrees_is_discarded() -> None:
    """By the sign of the product: the angle itself may round to 90."""
    assert seen([torch.tensor([1.0, 0.0])], [torch.tensor([-1e-25, 1.0])]) == (90.0, False)


@pytest.mark.parametrize("threshold", [75, 90, 180])
def test_parallel_and_opposite(threshold: float) -> None:
    """Rounding takes the cosine neither beyond ±1 nor, at 180°, below the threshold's."""
    for seed in range(50):
        g = torch.randn(7, dtype=DOUBLE, generator=seeded(seed))
        along, against = (decide([g], [f * g], threshold=threshold) for f in (0.3, -0.3))
        assert along.angle == pytest.approx(0, abs=1e-5) and along.keep
        assert against.angle == pytest.approx(180, abs=1e-5)
        assert against.keep == (threshold == 180)


@pytest.mark.parametrize("threshold", [75, 90, 120])
@pytest.mark.parametrize("zero", [torch.zeros(4), None])
def test_a_zero_gradient_has_no_angle_and_is_kept(zero: Tensor | None, threshold: float) -> None:
    g = torch.randn(4, generator=seeded())
    nothing = (None, True)
    assert seen([g], [zero], threshold) == nothing
    assert seen([zero], [g], threshold) == nothing
    assert seen([zero], [zero], threshold) == nothing
    assert seen([], [], threshold) == nothing
    assert seen([g, zero], [zero, g], threshold)[0] == 90


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_has_no_angle_and_is_kept(value: float) -> None:
    bad, good = torch.tensor([value, 1.0]), torch.ones(2)
    for pair in ([bad], [good]), ([good], [bad]):
        assert seen(*pair) == (None, True)


def test_tiny_gradients_still_have_an_angle() -> None:
    """Their squares underflow in float32."""
    g_ce, g_contrastive = ([g.float() * 1e-30] for g in vectors_at(60))
    assert decide(g_ce, g_contrastive).angle == pytest.approx(60, abs=1e-4)


def test_none_stands_for_zeros() -> None:
    a, b, c = (torch.randn(2, 3, generator=seeded(seed)) for seed in range(3))
    zeros = torch.zeros(2, 3)
    assert decide([a, b, None, None], [c, None, b, None]) == decide(
        [a, b, zeros, zeros], [c, zeros, b, zeros]
    )


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_pieces_do_not_change_the_products(size: int) -> None:
    """However the long vectors are cut and joined, no element is lost or meets another."""
    shapes = [(3, 50), (5,), (1,), (64,), (), (2, 7, 9), (0,), (2,), (2,), (2,), (2,)]
    a, b = ([torch.randn(s, generator=seeded(k)) for s in shapes] for k in (1, 2))
    flat_a, flat_b = (torch.cat([x.flatten() for x in g]) for g in (a, b))
    pieces = list(gate._pieces(gate._flat_pairs(a, b), size))
    assert torch.equal(torch.cat([x for x, _ in pieces]), flat_a)
    assert torch.equal(torch.cat([x for _, x in pieces]), flat_b)
    assert max(len(x) for x, _ in pieces) <= size


def test_inner_products_of_long_gradients() -> None:
    a, b = (torch.randn(300, 500, generator=seeded(k)) for k in (1, 2))
    expected = [(x.double() * y.double()).sum().item() for x, y in ((a, a), (a, b), (b, b))]
    assert gate._inner_products([a], [b]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("convex", [False, True])
def test_a_discarded_step_is_the_ce_step_bit_for_bit(convex: bool) -> None:
    task = Task()
    ce_alone, _ = task.gradients()
    g_ce, g_contrastive = task.gradients()
    weights = decide([torch.ones(1)], [-torch.ones(1)], ce_weight=0.5 if convex else 1.0).inside
    update = combine(g_ce, g_contrastive, [weights] * len(g_ce))
    assert identical(update, ce_alone)


@pytest.mark.parametrize(("ce_weight", "weight"), [(1.0, 0.3), (1.0, 0.5), (0.7, 0.3), (0.9, 0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_a_kept_step_is_the_weighted_sum_bit_for_bit(
    ce_weight: float, weight: float, dtype: torch.dtype
) -> None:
    task = Task(dtype)
    expected: list[Tensor | None] = []
    for ce, contrastive in zip(*task.gradients(), strict=True):
        assert ce is not None
        weighted = ce if ce_weight == 1 else ce_weight * ce
        expected.append(weighted if contrastive is None else weighted + weight * contrastive)
    update = combined(*task.gradients(), ce_weight, weight)
    assert identical(update, expected)


@pytest.mark.parametrize("ce_weight", [1.0, 0.7])
def test_a_kept_step_is_the_joint_backward(ce_weight: float) -> None:
    task = Task(DOUBLE)
    ce, contrastive = task.losses()
    (ce_weight * ce + 0.3 * contrastive).backward()
    # One forward pass and two backward passes through it, as a training step has them.
    ce, contrastive = task.losses()
    g_ce = torch.autograd.grad(ce, task.parameters, retain_graph=True)
    g_contrastive = torch.autograd.grad(contrastive, task.parameters, allow_unused=True)
    update = combined(g_ce, g_contrastive, ce_weight, 0.3)
    for parameter, u in zip(task.parameters, update, strict=True):
        torch.testing.assert_close(u, parameter.grad, rtol=1e-10, atol=1e-14)


def test_combine_where_a_loss_does_not_reach_a_parameter() -> None:
    def given() -> tuple[list[Tensor | None], list[Tensor | None]]:
        return [torch.ones(2), torch.ones(2), None, None], [
            torch.ones(2),
            None,
            torch.ones(2),
            None,
        ]

    for weights, expected in [
        ((0.5, 0.25), [0.75, 0.5, 0.25, None]),
        ((1.0, 0.0), [1, 1, None, None]),
        ((0.0, 1.0), [1, None, 1, None]),
    ]:
        update = combined(*given(), *weights)
        assert [None if u is None else u[0].item() for u in update] == expected
    assert combined([None], [None], 0.5, 0.5) == [None]
    assert combine([], [], []) == []


def test_a_gradient_of_weight_0_is_left_out_whatever_it_is() -> None:
    good, bad = torch.ones(1), torch.tensor([math.nan])
    assert combined([good], [bad], 1.0, 0.0) == combined([bad], [good], 0.0, 1.0) == [good]


def test_each_parameter_has_its_own_weights() -> None:
    """Also where two parameters were given one tensor."""
    shared, term = torch.ones(1), [torch.ones(1), torch.ones(1)]
    update = combine([shared, shared], term, [Weights(1.0, 0.5), Weights(3.0, 0.25)])
    assert [u.item() for u in update if u is not None] == [1.5, 3.25]


@pytest.mark.parametrize("ce_weight", [1.0, 0.5])
def test_gradients_that_share_memory_are_combined_once(ce_weight: float) -> None:
    """autograd gives the parameters of a + b one tensor; of a sum, an expanded one."""
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))
    factors = torch.tensor([1.0, 2.0, 3.0])

    def shared() -> tuple[Tensor, ...]:
        return torch.autograd.grad(((a + b) * factors).sum(), [a, b])

    def expanded() -> tuple[Tensor, ...]:
        return torch.autograd.grad((a + b).sum(), [a, b])

    assert shared_memory(shared()) and expanded()[0].stride() == (0,)
    both = shared()
    for g_ce, g_contrastive in [(shared(), expanded()), (expanded(), shared()), (both, both)]:
        expected = [ce_weight * ce + 0.25 * g for ce, g in zip(g_ce, g_contrastive, strict=True)]
        update = combined(g_ce, g_contrastive, ce_weight, 0.25)
        assert identical(update, expected)


def shared_memory(tensors: tuple[Tensor, ...]) -> bool:
    return len({x.data_ptr() for x in tensors}) < len(tensors)


# ---- PCGrad and GradVac


@pytest.mark.parametrize("mode", ["pcgrad", "gradvac"])
@pytest.mark.parametrize(
    ("g_ce", "g_term", "changed"),
    [
        ([2.0, 0.0], [-3.0, 4.0], [0.0, 4.0]),  # the first component opposes g_CE
        ([0.0, -1.0], [1.0, 0.5], [1.0, 0.0]),
        ([1.0, 1.0], [-1.0, 0.0], [-0.5, 0.5]),
        ([1.0, 0.0], [-2.0, 0.0], [0.0, 0.0]),  # opposite: nothing is left
        ([1.0, 0.0], [0.0, 2.0], [0.0, 2.0]),  # orthogonal, or nearer: as it is
        ([1.0, 0.0], [3.0, 2.0], [3.0, 2.0]),
    ],
)
def test_a_conflict_by_hand(
    mode: str, g_ce: list[float], g_term: list[float], changed: list[float]
) -> None:
    """GradVac's first target is 0, with which it is PCGrad."""
    first, second = ([torch.tensor(g, dtype=DOUBLE)] for g in (g_ce, g_term))
    decision = decide(first, second, mode, ce_weight=0.75, weight=0.25)
    assert decision.keep == (changed == g_term)
    assert decision.outside == (0.75, 0.25)
    (update,) = combine(first, second, [decision.inside])
    assert update is not None
    expected = [0.75 * a + 0.25 * b for a, b in zip(g_ce, changed, strict=True)]
    assert update.tolist() == pytest.approx(expected, abs=1e-15)


def test_gradvac_by_hand() -> None:
    """φ = 0, φ̂ = 0.6: g gains ‖g‖·0.6/(‖g_CE‖·0.8) of g_CE, a 3-4-5 triangle."""
    g_ce, g = [torch.tensor([10.0, 0.0], dtype=DOUBLE)], [torch.tensor([0.0, 4.0], dtype=DOUBLE)]
    decision = decide(g_ce, g, "gradvac", target=0.6)
    assert (decision.angle, decision.keep) == (90.0, False)
    (update,) = combine(g_ce, g, [Weights(decision.inside.ce - 1, 0.5)])
    assert update is not None and update.tolist() == pytest.approx([1.5, 2.0])


def turned(g_ce: Tensor, g: Tensor, decision: GateDecision) -> Tensor:
    """What became of the term's gradient."""
    added = (decision.inside.ce - decision.outside.ce) / decision.inside.auxiliary
    return g + added * g_ce


@pytest.mark.parametrize("degrees", [90.001, 100, 135, 179])
def test_the_projected_gradient_is_orthogonal(degrees: float) -> None:
    g_ce, g = vectors_at(degrees, lengths=(3, 1e-3))
    projected = turned(g_ce, g, decide([g_ce], [g], "pcgrad"))
    assert abs(torch.dot(projected, g_ce).item()) < 1e-12 * 3e-3
    # What did not oppose g_CE is left.
    along = torch.dot(projected, g) / projected.norm() ** 2
    assert along.item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("degrees", [30, 89, 90, 120, 179])
@pytest.mark.parametrize("target", [-0.9, -0.2, 0.0, 0.01, 0.5, 0.999])
def test_gradvac_brings_the_cosine_to_the_target(degrees: float, target: float) -> None:
    g_ce, g = vectors_at(degrees, lengths=(1e-3, 5))
    decision = decide([g_ce], [g], "gradvac", target=target)
    cosine = math.cos(math.radians(degrees))
    assert decision.keep == (cosine >= target - 1e-9)
    after = turned(g_ce, g, decision)
    found = torch.dot(after, g_ce) / (after.norm() * g_ce.norm())
    assert found.item() == pytest.approx(max(cosine, target), abs=1e-9)
    if decision.keep:
        assert decision.inside == decision.outside


@pytest.mark.parametrize("mode", ["pcgrad", "gradvac"])
@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_without_an_angle_the_two_are_combined_plainly(mode: str, bad: float) -> None:
    g, without = torch.tensor([-1.0]), torch.tensor([bad])
    for pair in (([g], [without]), ([without], [g])):
        decision = decide(*pair, mode, target=0.5)
        assert (decision.angle, decision.keep) == (None, True)
        assert decision.inside == decision.outside == (1.0, 0.5)


def test_the_running_target_follows_the_cosine() -> None:
    targets = RunningTargets()
    assert targets["h3"] == 0.0
    targets.follow("h3", 0.5)
    assert targets["h3"] == pytest.approx(0.005)
    targets.follow("h3", -1.0)
    assert targets["h3"] == pytest.approx(0.99 * 0.005 - 0.01)
    targets.follow("h3", None)
    assert targets["h3"] == pytest.approx(-0.00505)
    assert targets["h4"] == 0.0
    for _ in range(10_000):
        targets.follow("h4", 1.0)
    assert 0.999 < targets["h4"] < 1, "1 would ask for an infinite multiple"


def test_wrong_arguments_are_refused() -> None:
    g = torch.ones(2)
    with pytest.raises(ValueError):
        decide([g, g], [g])
    with pytest.raises(ValueError, match="2 CE gradients"):
        combine([g, g], [g], [Weights(1.0, 0.5)] * 2)
