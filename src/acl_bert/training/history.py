"""The files of a run that grow while it trains."""

import csv
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

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
        self._waiting: list[tuple[Any, ...]] = []
        self._angles: list[float | None] = []
        self._kept: list[bool] = []
        self._looked = time.monotonic()

    def add(
        self, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor, tokens: int
    ) -> None:
        self.step += 1
        self.tokens += tokens
        self._waiting.append((self.step, epoch, records, rate, norm, tokens))
        if len(self._waiting) >= LOOK or time.monotonic() - self._looked > SECONDS:
            self.look()

    def look(self) -> None:
        """Write what waits."""
        self.write([self._row(*row) for row in self._waiting])
        self._waiting.clear()
        self._looked = time.monotonic()

    def _row(
        self, step: int, epoch: int, records: Sequence[StepRecord], rate: float, norm: Tensor,
        tokens: int,
    ) -> list[Any]:  # fmt: skip
        gates = [record.gate for record in records if record.gate is not None]
        self._angles += [gate.angle for gate in gates]
        self._kept += [gate.keep for gate in gates]
        angles = [gate.angle for gate in gates if gate.angle is not None]
        contrastive = [record.contrastive for record in records if record.contrastive is not None]
        return [
            step,
            epoch,
            _mean([record.loss for record in records]),
            _mean([record.ce for record in records]),
            _mean(contrastive) if contrastive else "",
            statistics.fmean(angles) if angles else "",
            statistics.fmean(gate.keep for gate in gates) if len(gates) > 1
            else int(gates[0].keep) if gates else "",
            rate,
            float(norm),
            tokens,
        ]  # fmt: skip

    def gate_summary(self, gate: Gate) -> dict[str, Any] | None:
        """What the gate saw and did over the run; None without one."""
        if gate.mode == "off":
            return None
        angles = [angle for angle in self._angles if angle is not None]
        return {
            **gate.model_dump(),
            "steps": len(self._angles),
            "angles": len(angles),
            "above_threshold": self._kept.count(False),
            "discarded": self._kept.count(False) if gate.mode == "discard" else 0,
            "median_angle": statistics.median(angles) if angles else None,
            "mean_angle": statistics.fmean(angles) if angles else None,
        }


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).mean())
