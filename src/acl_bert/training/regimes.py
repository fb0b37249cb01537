"""Training regimes (docs/paper.md §3.1): which exits learn, and which parameters move.

Exits are counted from 0 here, as a model's heads are; their layers from 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from acl_bert.config.method import Method
from acl_bert.errors import InputError
from acl_bert.model.classifier import EncoderClassifier


@dataclass(frozen=True)
class Regime:
    learning: Callable[[int, int], range]
    """From an update's number (from 0) and the number of exits to the exits that learn."""
    frozen: bool = False
    """Whether the backbone and the last exit stay as they are."""


REGIMES = {
    "single_exit": Regime(lambda update, exits: range(exits - 1, exits)),
    # JT, joint training: all exits at every update.
    "joint": Regime(lambda update, exits: range(exits)),
    # ALT, alternating training (BERxiT): the last exit alone at even updates, all at odd ones.
    "alternating": Regime(lambda update, exits: range(0 if update % 2 else exits - 1, exits)),
    # 2ST, the second of two stages (DeeBERT): the other exits on the model that stage one trained.
    "frozen_backbone": Regime(lambda update, exits: range(exits - 1), frozen=True),
}


def exit_weights(kind: str, exits: int) -> list[float]:
    """The exits' weights, which sum to their number; ascending is PABEE's, j / Σj."""
    if kind == "uniform":
        return [1.0] * exits
    total = exits * (exits + 1) / 2
    ascending = [exits * layer / total for layer in range(1, exits + 1)]
    return ascending if kind == "ascending" else ascending[::-1]


@dataclass(frozen=True)
class ExitLoss:
    """An exit that learns at an update."""

    exit_index: int
    weight: float
    auxiliary: bool
    """Whether it learns by the method's auxiliary loss besides CE."""


class ExitSchedule:
    """The losses of each update that a method's regime asks of one model.

    `teacher_depth`: the layer of the teacher's exit, None without a teacher. Raises InputError
    where no exit would learn by the method's auxiliary loss.
    """

    def __init__(self, method: Method, exits: tuple[int, ...], teacher_depth: int | None) -> None:
        self._regime = REGIMES[method.regime]
        if method.is_multi_exit and len(exits) < 2:
            raise InputError(
                f"{method.title}: the encoder has one layer, and regime {method.regime} needs "
                "several exits; take another encoder"
            )
        weights = exit_weights(method.exit_weights, len(exits))
        if method.spares_teacher_exit and teacher_depth is None:
            teacher_depth = exits[-1]  # the model's own last exit
        self._losses = [
            ExitLoss(index, weight, method.has_auxiliary_loss and layer != teacher_depth)
            for index, (layer, weight) in enumerate(zip(exits, weights, strict=True))
        ]
        if method.has_auxiliary_loss and not any(loss.auxiliary for loss in self.losses(1)):
            raise InputError(
                f"{method.title}: no exit lies below the teacher's, in layer {teacher_depth}; give "
                "`layers`, or a regime with more exits"
            )

    def losses(self, update: int) -> list[ExitLoss]:
        """The exits that learn at this update, counted from 0."""
        return [self._losses[index] for index in self._regime.learning(update, len(self._losses))]

    def freeze(self, model: EncoderClassifier) -> None:
        """Exclude from training the parameters that the regime does not move."""
        if self._regime.frozen:
            for parameter in chain(model.encoder.parameters(), model.heads[-1].parameters()):
                parameter.requires_grad_(False)

    def train_mode(self, model: EncoderClassifier) -> None:
        """As model.train(), but a frozen encoder stays without dropout."""
        model.train()
        if self._regime.frozen:
            model.encoder.eval()
