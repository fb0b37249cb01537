"""The gate inside a training step: which gradients end up on the parameters."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from acl_bert.config.method import Method, known_methods
from acl_bert.data.tokens import TokenStore
from acl_bert.model.build import build_classifier
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import RunningTargets
from acl_bert.objectives.lacon import lacon_loss
from acl_bert.training import exit_losses, gate_over_parameters, gate_over_representations
from acl_bert.training.batches import load_batch
from acl_bert.training.exit_losses import auxiliary_loss
from acl_bert.training.regimes import ExitLoss
from acl_bert.training.step import training_step

LAST = [ExitLoss(0, 1.0, True)]
CE_ALONE = [ExitLoss(0, 1.0, False)]
SCOPES = ["encoder", "last_layer", "representation"]


@pytest.fixture
def batch(tiny_task: Path) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    split = TokenStore(tiny_task).split("train")
    import numpy as np

    return load_batch(split, np.arange(16), torch.device("cpu"))


@pytest.fixture
def model(tiny_encoder: Path) -> EncoderClassifier:
    torch.manual_seed(3)
    return build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler").train()


def acl(**changes: Any) -> Method:
    row = known_methods()["acl"].model_dump(by_alias=True)
    row["gate"] |= {
        key: changes.pop(key) for key in ("mode", "scope", "threshold") if key in changes
    }
    return Method.model_validate(row | changes)


def gradients(
    model: EncoderClassifier, batch: Any, method: Method, **more: Any
) -> tuple[dict[str, torch.Tensor], Any]:
    """The gradients that one step leaves, dropout drawn from the same state each time."""
    model = copy.deepcopy(model)
    torch.manual_seed(11)
    exit_losses = LAST if method.has_auxiliary_loss else CE_ALONE
    record = training_step(model, *batch, method, exit_losses, **more)
    return {
        name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
    }, record


def separate(model: EncoderClassifier, batch: Any, method: Method) -> tuple[Any, Any]:
    """g_CE and g_ACL of every parameter, each from a forward and a backward pass of its own."""
    found = []
    for which in ("ce", "contrastive"):
        own = copy.deepcopy(model)
        torch.manual_seed(11)
        inputs, labels = batch
        (h,) = own.represent(**inputs)
        head = own.heads[0]
        logits = head.classify(h)
        loss = (
            cross_entropy(logits, labels)
            if which == "ce"
            else exit_losses.auxiliary_loss(method, h, logits, labels, head.label_embeddings, None)
        )
        loss.backward()
        found.append({n: p.grad for n, p in own.named_parameters() if p.grad is not None})
    return tuple(found)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("combination", ["additive", "convex"])
def test_a_discarded_step_is_the_ce_step_bit_for_bit(
    model: EncoderClassifier, batch: Any, scope: str, combination: str
) -> None:
    # 1e-6 degrees: no two gradients agree so closely, so every step is discarded.
    method = acl(scope=scope, threshold=1e-6, combination=combination)
    ours, record = gradients(model, batch, method)
    ce, _ = gradients(model, batch, known_methods()["ce"])
    assert record.gates[3].keep is False
    assert torch.equal(record.loss, record.ce)
    assert same(ours, ce)


@pytest.mark.parametrize("scope", ["encoder", "last_layer"])
def test_a_kept_step_is_the_sum_of_two_gradients_bit_for_bit(
    model: EncoderClassifier, batch: Any, scope: str
) -> None:
    method = acl(scope=scope, threshold=180)
    ours, record = gradients(model, batch, method)
    g_ce, g_acl = separate(model, batch, method)
    assert record.gates[3].keep is True
    for name, gradient in ours.items():
        parts = [g_ce.get(name), g_acl.get(name)]
        if parts[0] is not None and parts[1] is not None:
            expected = parts[0] + method.weight * parts[1]
        else:
            expected = parts[0] if parts[1] is None else method.weight * parts[1]
        assert torch.equal(gradient, expected), name


def watch_h(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The gradients that arrive at h from now on, one a backward pass."""
    seen: list[torch.Tensor] = []
    represent = EncoderClassifier.represent

    def watched(self: EncoderClassifier, **inputs: torch.Tensor) -> list[torch.Tensor]:
        (h,) = represent(self, **inputs)
        h.register_hook(lambda g: seen.append(g.clone()))
        return [h]

    monkeypatch.setattr(EncoderClassifier, "represent", watched)
    return seen


def test_at_h_the_two_gradients_meet_in_one_encoder_pass(
    model: EncoderClassifier, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h and the classifier get g_CE + λ g_ACL bit for bit; the encoder is passed once."""
    method = acl(scope="representation", threshold=180)
    seen = watch_h(monkeypatch)
    ours, _ = gradients(model, batch, method)
    (at_h,) = seen
    seen.clear()
    g_ce, g_acl = separate(model, batch, method)
    assert torch.equal(at_h, seen[0] + method.weight * seen[1])
    for name in ("heads.0.classifier.weight",):
        assert torch.equal(ours[name], g_ce[name] + method.weight * g_acl[name])


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("combination", ["additive", "convex"])
@pytest.mark.parametrize("representation", ["pooler", "cls", "dropout"])
def test_a_kept_step_is_the_joint_backward(
    tiny_encoder: Path, batch: Any, scope: str, combination: str, representation: str
) -> None:
    torch.manual_seed(3)
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], representation)
    model = model.double().train()
    method = acl(scope=scope, threshold=180, combination=combination, representation=representation)
    ours, _ = gradients(model, batch, method)
    joint, _ = gradients(model, batch, acl(mode="off", combination=combination))
    assert ours.keys() == joint.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], joint[name], rtol=0, atol=1e-10)


def test_observe_records_the_angle_and_keeps_the_term(model: EncoderClassifier, batch: Any) -> None:
    observed, seen = gradients(model, batch, acl(mode="log_only", threshold=1e-6))
    kept, _ = gradients(model, batch, acl(threshold=180))
    assert seen.gates[3].keep is False and seen.gates[3].angle is not None
    assert not torch.equal(seen.loss, seen.ce)
    assert same(observed, kept)


def test_the_scope_decides_which_parameters_are_compared(
    model: EncoderClassifier, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, list[int]] = {}
    multiply = gate_over_parameters.inner_products

    def watched(pairs: Any) -> Any:
        sizes[scope] = [sum(g.numel() for g in g_ce if g is not None) for g_ce, _ in pairs]
        return multiply(pairs)

    for module in (gate_over_parameters, gate_over_representations):
        monkeypatch.setattr(module, "inner_products", watched)
    for scope in SCOPES:
        training_step(copy.deepcopy(model), *batch, acl(scope=scope), LAST)
    layer, h = model.layer(model.exits[-1]), 16 * 32
    assert sizes["encoder"] == [sum(p.numel() for p in model.encoder.parameters()), h]
    assert sizes["last_layer"] == [sum(p.numel() for p in layer.parameters()), h]
    assert sizes["representation"] == [h]


@pytest.mark.parametrize("scope", ["encoder", "last_layer"])
def test_a_gate_over_parameters_records_what_h_says(
    model: EncoderClassifier, batch: Any, scope: str
) -> None:
    _, over_parameters = gradients(model, batch, acl(scope=scope))
    _, over_h = gradients(model, batch, acl(scope="representation"))
    assert over_parameters.at_h == over_h.gates[3]
    assert over_parameters.at_h != over_parameters.gates[3]
    assert over_h.at_h is None


# ---- PCGrad and GradVac: the term's gradient is changed within the gate's scope only

SURGERY = [("pcgrad", 0.0), ("gradvac", 0.0), ("gradvac", 0.9), ("gradvac", -0.9)]


def at(target: float) -> RunningTargets:
    return RunningTargets({"parameters": target, "h3": target, "h": target})


@pytest.mark.parametrize(("mode", "target"), SURGERY)
@pytest.mark.parametrize("opposed", [False, True])
@pytest.mark.parametrize(
    ("scope", "combination"), [("encoder", "convex"), ("last_layer", "additive")]
)
def test_within_the_scope_the_terms_gradient_is_changed(
    model: EncoderClassifier,
    batch: Any,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    target: float,
    opposed: bool,
    scope: str,
    combination: str,
) -> None:
    if opposed:
        oppose(monkeypatch)
    method = acl(mode=mode, scope=scope, combination=combination)
    model = model.double()
    ours, record = gradients(model, batch, method, targets=at(target))
    g_ce, g_acl = separate(model, batch, method)
    module, prefix = (
        (model.encoder, "encoder.")
        if scope == "encoder"
        else (model.layer(3), "encoder.encoder.layer.2.")
    )
    inside = [prefix + name for name, _ in module.named_parameters()]
    inside = [name for name in inside if name in g_ce]
    a, b = (torch.cat([g[name].flatten() for name in inside]) for g in (g_ce, g_acl))
    phi = float(a @ b / (a.norm() * b.norm()))
    assert (phi < 0) == opposed
    changed = b
    if phi < target:
        raised = target * (1 - phi**2) ** 0.5 - phi * (1 - target**2) ** 0.5
        changed = b + b.norm() * raised / (a.norm() * (1 - target**2) ** 0.5) * a
    decision = record.gates[3]
    assert decision.keep is (phi >= target)
    found = torch.cat([ours[name].flatten() for name in inside])
    torch.testing.assert_close(
        found, method.ce_weight * a + method.weight * changed, rtol=1e-8, atol=1e-12
    )
    outside = sorted(ours.keys() - set(inside))
    assert "heads.0.classifier.weight" in outside
    for name in outside:
        plain = method.ce_weight * g_ce[name]
        if name in g_acl:
            plain = plain + method.weight * g_acl[name]
        torch.testing.assert_close(ours[name], plain, rtol=1e-8, atol=1e-12)
    loss = method.ce_weight * record.ce + method.weight * record.auxiliary
    torch.testing.assert_close(record.loss, loss)


def oppose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the term's gradient against CE's."""
    unopposed = exit_losses.auxiliary_loss

    def against(method: Method, h: Any, logits: Any, labels: Any, *more: Any) -> torch.Tensor:
        return unopposed(method, h, logits, labels, *more) - 30 * cross_entropy(logits, labels)

    monkeypatch.setattr(exit_losses, "auxiliary_loss", against)


@pytest.mark.parametrize(("mode", "target"), SURGERY)
@pytest.mark.parametrize("opposed", [False, True])
def test_at_h_the_terms_gradient_is_changed_there(
    model: EncoderClassifier,
    batch: Any,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    target: float,
    opposed: bool,
) -> None:
    """What arrives at h is changed; the classifier's own parameters get the plain sum."""
    if opposed:
        oppose(monkeypatch)
    method = acl(mode=mode, scope="representation")
    model = model.double()
    seen = watch_h(monkeypatch)
    ours, record = gradients(model, batch, method, targets=at(target))
    g_ce, g_acl = separate(model, batch, method)
    arrived, a, b = seen
    phi = float((a * b).sum() / (a.norm() * b.norm()))
    changed = b
    if phi < target:
        raised = target * (1 - phi**2) ** 0.5 - phi * (1 - target**2) ** 0.5
        changed = b + b.norm() * raised / (a.norm() * (1 - target**2) ** 0.5) * a
    assert record.gates[3].keep is (phi >= target)
    torch.testing.assert_close(arrived, a + method.weight * changed, rtol=1e-8, atol=1e-12)
    name = "heads.0.classifier.weight"
    torch.testing.assert_close(ours[name], g_ce[name] + method.weight * g_acl[name])


@pytest.mark.parametrize("scope", SCOPES)
def test_a_gradient_that_is_as_aligned_as_wanted_is_a_kept_one_bit_for_bit(
    model: EncoderClassifier, batch: Any, scope: str
) -> None:
    kept, _ = gradients(model, batch, acl(scope=scope, threshold=180))
    ours, record = gradients(model, batch, acl(mode="gradvac", scope=scope), targets=at(-0.999))
    assert record.gates[3].keep is True
    assert same(ours, kept)


@pytest.mark.parametrize("scope", SCOPES)
def test_gradvac_moves_the_target_of_each_place_at_each_step(
    model: EncoderClassifier, batch: Any, scope: str
) -> None:
    targets = RunningTargets()
    method = acl(mode="gradvac", scope=scope)
    for count in (1, 2):
        _, record = gradients(model, batch, method, targets=targets)
        decisions = {"h3": record.gates[3]}
        if scope != "representation":
            assert record.at_h is not None
            decisions = {"parameters": record.gates[3], "h": record.at_h}
        assert targets.keys() == decisions.keys()
        for name, decision in decisions.items():
            assert decision.angle is not None
            cosine = math.cos(math.radians(decision.angle))
            assert targets[name] == pytest.approx(cosine * (1 - 0.99**count), rel=1e-6)


def test_the_other_modes_have_no_target(model: EncoderClassifier, batch: Any) -> None:
    for mode in ("log_only", "discard", "pcgrad"):
        targets = RunningTargets()
        gradients(model, batch, acl(mode=mode), targets=targets)
        assert targets == {}


def test_the_same_targets_give_the_same_continuation(model: EncoderClassifier, batch: Any) -> None:
    """As after a stop between two steps: the state that was written gives the same gradient."""
    method = acl(mode="gradvac", scope="representation")
    going_on = at(0.8)
    gradients(model, batch, method, targets=going_on)
    resumed = RunningTargets(going_on)
    first, _ = gradients(model, batch, method, targets=going_on)
    second, _ = gradients(model, batch, method, targets=resumed)
    afresh, _ = gradients(model, batch, method, targets=RunningTargets())
    assert same(first, second)
    assert not same(first, afresh)


def test_each_exit_has_its_own_target(tiny_encoder: Path, batch: Any) -> None:
    torch.manual_seed(3)
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", every_layer=True)
    targets = RunningTargets()
    exits = [ExitLoss(index, 1.0, True) for index in range(3)]
    method = acl(mode="gradvac", scope="representation", regime="joint")
    record = training_step(model, *batch, method, exits, targets=targets)
    cosines = {
        f"h{layer}": math.cos(math.radians(gate.angle or math.nan))
        for layer, gate in record.gates.items()
    }
    assert dict(targets) == pytest.approx({k: 0.01 * c for k, c in cosines.items()})
    assert len(set(cosines.values())) == 3


# ---- LaCon


def test_lacons_choices_reach_its_loss() -> None:
    row = known_methods()["lacon"].model_dump(by_alias=True)
    chosen = {"temperature": 0.2, "heads": 3, "regularizer": 0.7}
    method = Method.model_validate(row | chosen)
    h, w = torch.randn(8, 12), torch.randn(2, 12)
    labels = torch.arange(8) % 2
    loss = auxiliary_loss(method, h, torch.zeros(8, 2), labels, w, None)
    assert torch.equal(loss, lacon_loss(h, labels, w, **chosen))
    for usual in ({"temperature": 0.1}, {"heads": 6}, {"regularizer": 0.5}):
        assert not torch.equal(loss, lacon_loss(h, labels, w, **chosen | usual))


def test_lacon_has_no_ce(tiny_encoder: Path, batch: Any) -> None:
    """CE is recorded, the term alone is descended; it reaches projection and label embeddings."""
    method = known_methods()["lacon"]
    torch.manual_seed(3)
    model = build_classifier(
        str(tiny_encoder),
        None,
        ["no", "yes"],
        method.representation,
        cosine_temperature=method.cosine_temperature,
    )
    model = model.double().train()
    ours, record = gradients(model, batch, method)
    assert torch.equal(record.loss, record.auxiliary)
    assert record.ce > 0
    _, term = separate(model, batch, method)
    assert same(ours, term)
    learned = {name for name, g in ours.items() if g.abs().max() > 0}
    assert {"heads.0.classifier.weight", "heads.0.pooler.4.bias"} <= learned
    assert "heads.0.classifier.bias" not in dict(model.named_parameters())


@pytest.mark.parametrize(
    "method", [known_methods()["ce"], acl(threshold=180), acl(scope="representation")]
)
def test_micro_batches_add_up(model: EncoderClassifier, batch: Any, method: Method) -> None:
    model.eval()  # without dropout, so that the same batch twice is the same
    whole, _ = gradients(model, batch, method)
    own = copy.deepcopy(model)
    exit_losses = LAST if method.has_auxiliary_loss else CE_ALONE
    for _ in range(2):
        training_step(own, *batch, method, exit_losses, loss_scale=0.5)
    for name, parameter in own.named_parameters():
        if name in whole:
            torch.testing.assert_close(parameter.grad, whole[name], rtol=1e-5, atol=1e-8)


def test_bf16_autocast_leaves_float32_gradients_and_losses(
    model: EncoderClassifier, batch: Any
) -> None:
    ours, record = gradients(model, batch, acl(threshold=180), precision="bf16")
    assert record.loss.dtype == record.ce.dtype == torch.float32
    assert {g.dtype for g in ours.values()} == {torch.float32}
    exact, _ = gradients(model, batch, acl(threshold=180))
    weight = "encoder.encoder.layer.1.output.dense.weight"
    torch.testing.assert_close(ours[weight], exact[weight], rtol=0.2, atol=5e-3)
