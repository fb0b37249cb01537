"""Training regimes (docs/paper.md §3.1): which exits learn, and which parameters move.

A model's exits are counted from 0 here, as its heads are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from torch import nn

from acl_bert.config.method import Method
from acl_bert.errors import InputError
from acl_bert.model.classifier import EncoderClassifier


@dataclass(frozen=True)
class Regime:
    learning: Callable[[int, int], range]
    """From an update's number (from 0) and how many exits there are to those whose losses count."""
    frozen: bool = False
    """Whether the backbone and the last exit stay as they are."""


REGIMES = {
    "single_exit": Regime(lambda update, exits: range(exits - 1, exits)),
    "joint": Regime(lambda update, exits: range(exits)),
    # BERxiT: the last exit alone at even updates, all together at odd ones.
    "alternating": Regime(lambda update, exits: range(0 if update % 2 else exits - 1, exits)),
    # DeeBERT's second stage.
    "frozen_backbone": Regime(lambda update, exits: range(exits - 1), frozen=True),
}


def exit_weights(kind: str, exits: int) -> list[float]:
    """The exits' weights, which sum to their number; ascending is PABEE's, j / Σj."""
    if kind == "uniform":
        return [1.0] * exits
    total = exits * (exits + 1) / 2
    ascending = [exits * (place + 1) / total for place in range(exits)]
    return ascending if kind == "ascending" else ascending[::-1]


@dataclass(frozen=True)
class ExitLoss:
    """An exit that learns at an update: its weight, and whether by the method's term as well."""

    place: int
    weight: float
    term: bool


class Plan:
    """What a method's regime means for one model: the losses of each update.

    `teacher_depth`: the layer of the teacher's exit, None without a teacher. Raises InputError
    where no exit would learn by the method's term.
    """

    def __init__(self, method: Method, exits: tuple[int, ...], teacher_depth: int | None) -> None:
        self.regime = REGIMES[method.regime]
        self._count = len(exits)
        if method.is_multi_exit and self._count < 2:
            raise InputError(
                f"{method.title}: the encoder has one layer, and regime {method.regime} needs "
                "several exits; take another encoder"
            )
        weights = exit_weights(method.exit_weights, self._count)
        if method.spares_teacher_exit and teacher_depth is None:
            teacher_depth = exits[-1]  # it is the model's own last exit
        self._losses = [
            ExitLoss(place, weight, method.has_auxiliary_loss and layer != teacher_depth)
            for place, (layer, weight) in enumerate(zip(exits, weights, strict=True))
        ]
        if method.has_auxiliary_loss and not any(
            self._losses[place].term for place in self.regime.learning(1, self._count)
        ):
            raise InputError(
                f"{method.title}: no exit lies below the teacher's, in layer {teacher_depth}; give "
                "`layers`, or a regime with more exits"
            )

    def losses(self, update: int) -> list[ExitLoss]:
        return [self._losses[place] for place in self.regime.learning(update, self._count)]

    def freeze(self, model: EncoderClassifier) -> None:
        """Let only those parameters move that the regime moves."""
        if self.regime.frozen:
            fixed: list[nn.Module] = [model.encoder, model.heads[-1]]
            for parameter in chain.from_iterable(module.parameters() for module in fixed):
                parameter.requires_grad_(False)

    def train_mode(self, model: EncoderClassifier) -> None:
        """As model.train(); what is frozen gives the same output each time, without dropout."""
        model.train()
        if self.regime.frozen:
            model.encoder.eval()
