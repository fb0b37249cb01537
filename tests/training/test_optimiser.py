import torch
from torch import nn

from acl_bert.settings.training import Training
from acl_bert.training.optimiser import build_optimiser


def test_warm_up_then_decay_to_zero() -> None:
    model = nn.Linear(3, 2)
    optimiser, schedule = build_optimiser(model, Training(learning_rate=1.0, warmup=0.1), 50)
    rates = []
    for _ in range(50):
        rates.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    peak = rates.index(max(rates))
    assert peak == 5 and rates[peak] == 1.0
    assert 0 < rates[0] < rates[1] and 0 < rates[-1] < rates[-2]
    assert schedule.get_last_lr()[0] == 0.0


def test_vectors_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    optimiser, _ = build_optimiser(model, Training(weight_decay=0.1), 10)
    decay = {id(p): g["weight_decay"] for g in optimiser.param_groups for p in g["params"]}
    assert {name: decay[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.1, "0.bias": 0.0, "1.weight": 0.0, "1.bias": 0.0,
    }  # fmt: skip


def test_no_warm_up() -> None:
    _, schedule = build_optimiser(nn.Linear(2, 2), Training(warmup=0.0, learning_rate=0.5), 4)
    assert schedule.get_last_lr() == [0.5, 0.5]
    assert torch.is_grad_enabled()
