import torch
from torch import nn

from acl_bert.config.training import Training
from acl_bert.training.optimiser import Optimiser


def test_warm_up_then_decay_to_zero() -> None:
    model = nn.Linear(3, 2)
    optimiser = Optimiser(model, Training(learning_rate=1.0, warmup_ratio=0.1), 50)
    rates = []
    for _ in range(50):
        rates.append(optimiser.learning_rate)
        optimiser.update()
    peak = rates.index(max(rates))
    assert peak == 5 and rates[peak] == 1.0
    assert 0 < rates[0] < rates[1] and 0 < rates[-1] < rates[-2]
    assert optimiser.learning_rate == 0.0


def test_vectors_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    adamw = Optimiser(model, Training(weight_decay=0.1), 10).adamw
    decay = {id(p): g["weight_decay"] for g in adamw.param_groups for p in g["params"]}
    assert {name: decay[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.1, "0.bias": 0.0, "1.weight": 0.0, "1.bias": 0.0,
    }  # fmt: skip


def test_no_warm_up() -> None:
    optimiser = Optimiser(nn.Linear(2, 2), Training(warmup_ratio=0.0, learning_rate=0.5), 4)
    assert optimiser.learning_rate == 0.5


def test_gradients_are_clipped_together_and_cleared() -> None:
    model = nn.Linear(2, 1)
    optimiser = Optimiser(model, Training(max_grad_norm=1.0), 4)
    seen = []
    optimiser.adamw.register_step_pre_hook(
        lambda *_: seen.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())
    )
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)
    assert optimiser.update() == torch.tensor(27.0).sqrt()
    assert seen[0] == torch.tensor(1.0) or abs(seen[0] - 1) < 1e-5
    assert all(parameter.grad is None for parameter in model.parameters())
