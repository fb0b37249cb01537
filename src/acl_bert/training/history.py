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
from acl_bert.settings.method import Method
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

    def __init__(self, path: Path, method: Method) -> None:
        super().__init__(path, HISTORY_COLUMNS)
        self.step = 0
        self._method = method
        self.tokens = 0
        self._waiting: list[tuple[int, int, Sequence[StepRecord], float, Tensor, int]] = []
        self._looked = time.monotonic()
        self._losses: list[float] = []  # of the epoch
        self._gates: dict[int, list[GateDecision]] = {}  # by exit layer
        self._at_h: list[GateDecision] = []

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
        gates: list[GateDecision] = []
        for record in records:
            gates += record.gates.values()
            for layer, decision in record.gates.items():
                self._gates.setdefault(layer, []).append(decision)
        at_h = [record.at_h for record in records if record.at_h is not None]
        self._at_h += at_h
        loss = _mean(record.loss for record in records)
        self._losses.append(loss)
        term = _mean(record.term for record in records if record.term is not None)
        contrastive = self._method.contrastive != "none"
        observed = self._method.gate.mode == "observe"
        return [
            step,
            epoch,
            loss,
            _mean(record.ce for record in records),
            term if contrastive else "",
            "" if contrastive else term,
            _mean(gate.angle for gate in gates if gate.angle is not None),
            _mean(gate.angle for gate in at_h if gate.angle is not None),
            _mean(int(gate.keep or observed) for gate in gates),
            rate,
            float(norm),
            tokens,
        ]

    def gate_summary(self) -> dict[str, Any] | None:
        """What the gate saw and did over the run, batch by batch; None without one.

        `discarded` and `changed` count the batches whose term was dropped, or had its gradient
        changed. Where each exit decides for itself, `exits` has the same by layer; where the
        parameters decide, `at_h` has what h says, and how many decisions would be `different`.
        """
        if not self._gates:
            return None
        every = [decision for decisions in self._gates.values() for decision in decisions]
        summary = self._method.gate.model_dump() | self._summary(every)
        if self._method.is_multi_exit and self._method.gate.scope == "representation":
            summary["exits"] = {
                str(layer): self._summary(decisions) for layer, decisions in self._gates.items()
            }
        if self._at_h:
            (decisions,) = self._gates.values()
            pairs = zip(decisions, self._at_h, strict=True)
            summary["at_h"] = self._summary(self._at_h) | {
                "discarded": 0,
                "changed": 0,
                "different": sum(one.keep != other.keep for one, other in pairs),
            }
        return summary

    def _summary(self, gates: Sequence[GateDecision]) -> dict[str, Any]:
        angles = [decision.angle for decision in gates if decision.angle is not None]
        gate = self._method.gate
        opposed = sum(not decision.keep for decision in gates)
        return {
            "decisions": len(gates),
            "angles": len(angles),
            "above_threshold": sum(angle > gate.threshold for angle in angles),
            "discarded": opposed if gate.mode == "discard" else 0,
            "changed": opposed if gate.mode in ("project", "gradvac") else 0,
            "median_angle": statistics.median(angles) if angles else None,
            "mean_angle": statistics.fmean(angles) if angles else None,
        }


def _mean(values: Iterable[float | Tensor]) -> Any:
    """The mean, a whole number where all are; an empty cell where there are none."""
    numbers = [x if isinstance(x, int) else float(x) for x in values]
    if not numbers:
        return ""
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)
