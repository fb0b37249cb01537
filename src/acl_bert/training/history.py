"""The files of a run that grow while it trains."""

import csv
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from acl_bert.errors import TrainingError
from acl_bert.objectives.gate import GateDecision
from acl_bert.run_files import HISTORY_COLUMNS
from acl_bert.settings.method import Gate
from acl_bert.training.step import StepRecord

# Each look at the numbers waits for the GPU, so there is one in ten updates, or in some seconds.
LOOK = 10
SECONDS = 5.0


class GrowingCsv:
    """A CSV file that others read while it grows: every row is flushed whole."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self._stream = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._stream, lineterminator="\n")
        self.write([header])

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        self._writer.writerows(rows)
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stream.close()


class History(GrowingCsv):
    """history.csv: one row an update, the mean over its micro-batches where there are several."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, HISTORY_COLUMNS)
        self.step = 0
        self.tokens = 0
        self._waiting: list[tuple[int, int, Sequence[StepRecord], float, Tensor, int]] = []
        self._looked = time.monotonic()
        self._losses: list[float] = []  # of the epoch
        self._gates: list[GateDecision] = []

    def add(
        self, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor, tokens: int
    ) -> None:
        self.step += 1
        self.tokens += tokens
        self._waiting.append((self.step, epoch, records, rate, norm, tokens))
        if len(self._waiting) >= LOOK or time.monotonic() - self._looked > SECONDS:
            self._look()

    def epoch_loss(self) -> float:
        """The mean loss over the epoch's updates, which ends it."""
        self._look()
        loss = statistics.fmean(self._losses)
        self._losses.clear()
        return loss

    def _look(self) -> None:
        """Write what waits. Raises TrainingError where it is not finite."""
        rows = [self._row(*row) for row in self._waiting]
        self.write(rows)
        self._waiting.clear()
        self._looked = time.monotonic()
        for step, _, loss, *_, norm, _ in rows:
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise TrainingError(
                    f"step {step}: the loss is {loss}, the gradient's norm {norm}; lower "
                    "training.learning_rate or the method's lambda, or use precision fp32"
                )

    def _row(
        self, step: int, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor,
        tokens: int,
    ) -> list[Any]:  # fmt: skip
        gates = [record.gate for record in records if record.gate is not None]
        self._gates += gates
        loss = _mean(record.loss for record in records)
        self._losses.append(loss)
        return [
            step,
            epoch,
            loss,
            _mean(record.ce for record in records),
            _mean(record.contrastive for record in records if record.contrastive is not None),
            _mean(gate.angle for gate in gates if gate.angle is not None),
            _mean(record.kept for record in records if record.kept is not None),
            rate,
            float(norm),
            tokens,
        ]

    def gate_summary(self, gate: Gate) -> dict[str, Any] | None:
        """What the gate saw and did over the run, batch by batch; None without one."""
        if not self._gates:
            return None
        angles = [decision.angle for decision in self._gates if decision.angle is not None]
        above = sum(not decision.keep for decision in self._gates)
        return {
            **gate.model_dump(),
            "steps": len(self._gates),
            "angles": len(angles),
            "above_threshold": above,
            "discarded": above if gate.mode == "discard" else 0,
            "median_angle": statistics.median(angles) if angles else None,
            "mean_angle": statistics.fmean(angles) if angles else None,
        }


def _mean(values: Iterable[float | Tensor]) -> Any:
    """The mean, a whole number where all are; an empty cell where there are none."""
    numbers = [x if isinstance(x, int) else float(x) for x in values]
    if not numbers:
        return ""
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)
