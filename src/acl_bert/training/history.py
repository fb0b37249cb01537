"""The files of a run that grow while it trains."""

import csv
import math
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from acl_bert.config.method import Method
from acl_bert.errors import TrainingError
from acl_bert.files import atomic_file, naming
from acl_bert.objectives.gate import GateDecision
from acl_bert.runs.files import HISTORY_COLUMNS
from acl_bert.training.step import StepRecord

# Reading the numbers waits for the GPU, so they are read every tenth update, or after some seconds.
UPDATES = 10
SECONDS = 5.0

# A gate's decision, as its summary needs it: the exit's layer, γ in degrees or NaN, and `keep`.
Decision = tuple[int, float, bool]
AT_H = 0
"""Stands for the layer of what a gate over parameters would have decided over h."""


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
        """The file's size in bytes, all of which are on the disk."""
        if not self._stream.closed:
            with naming(self.path):
                os.fsync(self._stream.fileno())
        return self.path.stat().st_size

    def close(self) -> None:
        self._stream.close()


class History(GrowingCsv):
    """history.csv: one row an update, the mean over its micro-batches where there are several."""

    def __init__(self, path: Path, method: Method, keep: int = 0) -> None:
        super().__init__(path, HISTORY_COLUMNS, keep)
        self.step = 0
        self.tokens = 0
        self._method = method
        self._waiting: list[tuple[int, int, Sequence[StepRecord], float, Tensor, int]] = []
        self._last_write = time.monotonic()
        self._epoch = 0
        self._losses: list[float] = []  # of the epoch
        self._decisions: list[Decision] = []

    def add(
        self, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor, tokens: int
    ) -> None:
        """Add an update: a record per micro-batch, learning rate, gradient norm, tokens."""
        self.step += 1
        self.tokens += tokens
        self._waiting.append((self.step, epoch, records, rate, norm, tokens))
        if len(self._waiting) >= UPDATES or time.monotonic() - self._last_write > SECONDS:
            self._write_waiting()

    def epoch_loss(self) -> float:
        """The mean loss over the updates of the current epoch."""
        self._write_waiting()
        return statistics.fmean(self._losses)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint: the losses of the current epoch, and all decisions of the gate."""
        self._write_waiting()
        decisions = torch.tensor(self._decisions, dtype=torch.float64).reshape(-1, 3)
        return {"losses": torch.tensor(self._losses, dtype=torch.float64), "decisions": decisions}

    def values(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.tokens, "epoch": self._epoch}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Go on from what `tensors` and `values` returned."""
        self.step, self.tokens, self._epoch = values["step"], values["tokens"], values["epoch"]
        self._losses = tensors["losses"].tolist()
        rows = tensors["decisions"].tolist()
        self._decisions = [(int(layer), angle, bool(keep)) for layer, angle, keep in rows]

    def _write_waiting(self) -> None:
        """Raises TrainingError where a loss or a gradient norm is not finite."""
        if not self._waiting:  # so always once the file is closed
            return
        rows = [self._row(*row) for row in self._waiting]
        self.write(rows)
        self._waiting.clear()
        self._last_write = time.monotonic()
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
        gates = [pair for record in records for pair in record.gates.items()]
        at_h = [(AT_H, record.at_h) for record in records if record.at_h is not None]
        self._decisions += [
            (layer, math.nan if gate.angle is None else gate.angle, gate.keep)
            for layer, gate in (*gates, *at_h)
        ]
        loss = _mean(record.loss for record in records)
        if epoch != self._epoch:
            self._epoch, self._losses = epoch, []
        self._losses.append(loss)
        auxiliary = _mean(record.auxiliary for record in records if record.auxiliary is not None)
        is_contrastive = self._method.contrastive != "none"
        only_logs = self._method.gate.mode == "log_only"
        return [
            step,
            epoch,
            loss,
            _mean(record.ce for record in records),
            auxiliary if is_contrastive else "",
            "" if is_contrastive else auxiliary,
            _mean_angle(gates),
            _mean_angle(at_h),
            _mean(int(gate.keep or only_logs) for _, gate in gates),
            rate,
            float(norm),
            tokens,
        ]

    def gate_summary(self) -> dict[str, Any] | None:
        """The decisions of the gate over the run, counted batch by batch; None without a gate.

        `discarded` and `changed` count the batches whose auxiliary loss was dropped, or had its
        gradient changed. Where each exit decides for itself, `exits` has the same by layer; where
        the parameters decide, `at_h` is the summary over h, and `different` counts the decisions
        that would have been others there.
        """
        by_layer: dict[int, list[Decision]] = {}
        for decision in self._decisions:
            by_layer.setdefault(decision[0], []).append(decision)
        at_h = by_layer.pop(AT_H, None)
        if not by_layer:
            return None
        gate = self._method.gate
        every = [decision for decisions in by_layer.values() for decision in decisions]
        summary = gate.model_dump() | self._summary(every)
        if self._method.is_multi_exit and gate.scope == "representation":
            summary["exits"] = {str(layer): self._summary(by_layer[layer]) for layer in by_layer}
        if at_h:
            different = sum(a[2] != b[2] for a, b in zip(every, at_h, strict=True))
            counts = {"discarded": 0, "changed": 0, "different": different}
            summary["at_h"] = self._summary(at_h) | counts
        return summary

    def _summary(self, decisions: Sequence[Decision]) -> dict[str, Any]:
        angles = [angle for _, angle, _ in decisions if not math.isnan(angle)]
        gate = self._method.gate
        opposed = sum(not keep for _, _, keep in decisions)
        return {
            "decisions": len(decisions),
            "angles": len(angles),
            "above_threshold": sum(angle > gate.threshold for angle in angles),
            "discarded": opposed if gate.mode == "discard" else 0,
            "changed": opposed if gate.mode in ("pcgrad", "gradvac") else 0,
            "median_angle": statistics.median(angles) if angles else None,
            "mean_angle": statistics.fmean(angles) if angles else None,
        }


def _mean_angle(gates: Iterable[tuple[int, GateDecision]]) -> Any:
    return _mean(gate.angle for _, gate in gates if gate.angle is not None)


def _mean(values: Iterable[float | Tensor]) -> Any:
    """The mean; the number itself where there is one, an empty cell where there is none."""
    numbers = [x if isinstance(x, int) else float(x) for x in values]
    if not numbers:
        return ""
    return numbers[0] if len(numbers) == 1 else statistics.fmean(numbers)
