"""What all measures share: the machine, the rows, and how figures are taken in turns."""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from acl_bert.config.training import Training
from acl_bert.data.tokens import Split


@dataclass(frozen=True)
class Setup:
    encoder: str
    """As in a study's config."""
    training: Training
    device: torch.device
    precision: str
    rows: Split
    config: Path
    """Of a study that has these rows."""
    rounds: int
    batches: int
    """A chunk's length in steps, where rows of many lengths are trained on."""

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    measure: str
    value: str
    goal: str = ""
    met: bool | None = None
    rounds: int = 1
    figures: str = ""

    def __str__(self) -> str:
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        cells = (self.measure, self.value, self.goal, met, str(self.rounds), self.figures)
        return f"| {' | '.join(cells)} |"


HEADER = (
    "| Measure | Median (range) | Goal | Met | Rounds | Figures |\n"
    "| --- | --- | --- | --- | ---: | --- |"
)

Figures = dict[str, list[float]]


def in_turns(contenders: Mapping[str, Callable[[int], float]], rounds: int) -> Figures:
    """Each contender's figure of every round; A B, B A, A B, … so that a drift hits all alike."""
    figures: Figures = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(contenders)[:: 1 if number % 2 == 0 else -1]:
            figures[name].append(contenders[name](number))
            print(f"  {number + 1}/{rounds} {name}: {figures[name][-1]:.4g}", file=sys.stderr)
    return figures


def ratio_row(
    measure: str,
    above: Sequence[float],
    below: Sequence[float],
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
    percent: bool = False,
) -> Row:
    """The median of the rounds' ratios above/below, and the medians of both in `unit`."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    median = statistics.median(ratios)
    goal, met = "", None
    if at_least is not None:
        goal, met = f"≥ {at_least:g}", median >= at_least
    elif at_most is not None:
        goal, met = f"≤ {at_most:g}", median <= at_most
    shown = "{:.0%}" if percent else "{:.2f}"
    middle, low, high = map(shown.format, (median, min(ratios), max(ratios)))
    figures = f"{statistics.median(above):,.3g} / {statistics.median(below):,.3g} {unit}"
    if statistics.median(above) >= 100:
        figures = f"{statistics.median(above):,.0f} / {statistics.median(below):,.0f} {unit}"
    return Row(measure, f"{middle} ({low}–{high})", goal, met, len(ratios), figures)


def spread(
    batches: Sequence[np.ndarray], setup: Setup, count: int, number: int
) -> list[np.ndarray]:
    """`count` whole batches that stand for an epoch's: evenly spread over their widths.

    A length-grouped epoch has its widest batches first or in any order, so that its first few
    steps stand for nothing. Round `number` takes others than the one before, from all contenders
    alike.
    """
    whole = [batch for batch in batches if len(batch) == setup.training.batch_size]
    whole.sort(key=lambda batch: (setup.rows.lengths[batch].max(), setup.rows.lengths[batch].sum()))
    shift = (0.5 + number * 0.618) % 1  # the golden ratio fills the unit interval evenly
    return [whole[int((place + shift) / count * len(whole))] for place in range(count)]
