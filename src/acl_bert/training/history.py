"""The files of a run that grow while it trains."""

import csv
import math
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from acl_bert.config.method import Method
from acl_bert.errors import TrainingError
from acl_bert.files import atomic_file, naming
from acl_bert.objectives.gate import GateDecision
from acl_bert.runs.files import HISTORY_COLUMNS
from acl_bert.training.step import StepRecord

# Each look at the numbers waits for the GPU, so there is one in ten updates, or in some seconds.
LOOK = 10
SECONDS = 5.0

# Of a gate's decision, what its summary needs: γ in degrees, and whether the two agreed.
Seen = tuple[float | None, bool]


class GrowingCsv:
    """A CSV file that others read while it grows: every row is flushed whole.

    `keep`: how many bytes stay of the file that is there. They go into a new file: a process that
    still has the old one open does not write into this one.
    """

    def __init__(self, path: Path, header: Sequence[str], keep: int = 0) -> None:
        self.path = path
        kept = path.read_bytes()[:keep] if keep else b""
        with atomic_file(path) as aside:
            aside.write_bytes(kept)
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._writer = csv.writer(self._stream, lineterminator="\n")
        if not keep:
            self.write([header])

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        with naming(self.path):
            self._writer.writerows(rows)
            self._stream.flush()

    def synced_size(self) -> int:
        """Bytes, all of them on the disk."""
        if not self._stream.closed:
            with naming(self.path):
                os.fsync(self._stream.fileno())
        return self.path.stat().st_size

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

    def __init__(self, path: Path, method: Method, keep: int = 0) -> None:
        super().__init__(path, HISTORY_COLUMNS, keep)
        self.step = 0
        self._method = method
        self.tokens = 0
        self._waiting: list[tuple[int, int, Sequence[StepRecord], float, Tensor, int]] = []
        self._looked = time.monotonic()
        self._epoch = 0
        self._losses: list[float] = []  # of the epoch
        self._gates: dict[int, list[Seen]] = {}  # by exit layer
        self._at_h: list[Seen] = []

    def add(
        self, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor, tokens: int
    ) -> None:
        self.step += 1
        self.tokens += tokens
        self._waiting.append((self.step, epoch, records, rate, norm, tokens))
        if len(self._waiting) >= LOOK or time.monotonic() - self._looked > SECONDS:
            self._look()

    def epoch_loss(self) -> float:
        """The mean loss over the updates of the epoch under way."""
        self._look()
        return statistics.fmean(self._losses)

    def tensors(self) -> dict[str, Tensor]:
        """The losses of the epoch under way, and all that the gate saw."""
        self._look()
        tensors = {"losses": torch.tensor(self._losses, dtype=torch.float64)}
        for name, seen in (*self._gates.items(), ("at_h", self._at_h)):
            if seen:
                angles = [math.nan if angle is None else angle for angle, _ in seen]
                tensors[f"angle.{name}"] = torch.tensor(angles, dtype=torch.float64)
                tensors[f"keep.{name}"] = torch.tensor([keep for _, keep in seen])
        return tensors

    def values(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.tokens, "epoch": self._epoch}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """What the two above gave."""
        self.step, self.tokens = values["step"], values["tokens"]
        self._epoch, self._losses = values["epoch"], tensors["losses"].tolist()
        for name in (key.removeprefix("angle.") for key in tensors if key.startswith("angle.")):
            angles, keep = tensors[f"angle.{name}"].tolist(), tensors[f"keep.{name}"].tolist()
            seen = [
                (None if math.isnan(angle) else angle, kept)
                for angle, kept in zip(angles, keep, strict=True)
            ]
            if name == "at_h":
                self._at_h = seen
            else:
                self._gates[int(name)] = seen

    def _look(self) -> None:
        """Write what waits. Raises TrainingError where it is not finite."""
        if not self._waiting:
            return
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
                self._gates.setdefault(layer, []).append((decision.angle, decision.keep))
        at_h = [record.at_h for record in records if record.at_h is not None]
        self._at_h += [(decision.angle, decision.keep) for decision in at_h]
        loss = _mean(record.loss for record in records)
        if epoch != self._epoch:
            self._epoch, self._losses = epoch, []
        self._losses.append(loss)
        term = _mean(record.term for record in records if record.term is not None)
        contrastive = self._method.contrastive != "none"
        observed = self._method.gate.mode == "log_only"
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
        every = [seen for decisions in self._gates.values() for seen in decisions]
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
                "different": sum(kept != other for (_, kept), (_, other) in pairs),
            }
        return summary

    def _summary(self, gates: Sequence[Seen]) -> dict[str, Any]:
        angles = [angle for angle, _ in gates if angle is not None]
        gate = self._method.gate
        opposed = sum(not keep for _, keep in gates)
        return {
            "decisions": len(gates),
            "angles": len(angles),
            "above_threshold": sum(angle > gate.threshold for angle in angles),
            "discarded": opposed if gate.mode == "discard" else 0,
            "changed": opposed if gate.mode in ("pcgrad", "gradvac") else 0,
            "median_angle": statistics.median(angles) if angles else None,
            "mean_angle": statistics.fmean(angles) if angles else None,
        }


def _mean(values: Iterable[float | Tensor]) -> Any:
    """The mean, a whole number where all are; an empty cell where there are none."""
    numbers = [x if isinstance(x, int) else float(x) for x in values]
    if not numbers:
        return ""
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)
