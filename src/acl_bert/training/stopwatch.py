"""When a run began, and how much time its phases take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any


def now() -> str:
    """ISO 8601, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Stopwatch:
    """Wall-clock seconds by phase of a run; a phase that comes again adds up."""

    def __init__(self) -> None:
        self.started = now()
        """ISO 8601."""
        self._taken: dict[str, float] = {}
        self._running: tuple[str, float] | None = None

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        self._running = (phase, time.perf_counter())
        try:
            yield
        finally:
            self._taken, self._running = self.taken, None

    @property
    def taken(self) -> dict[str, float]:
        """By phase, the running one included."""
        if self._running is None:
            return dict(self._taken)
        phase, start = self._running
        return self._taken | {phase: self._taken.get(phase, 0.0) + time.perf_counter() - start}

    def state(self) -> dict[str, Any]:
        return {"started": self.started, "taken": self.taken}

    def go_on(self, state: dict[str, Any]) -> None:
        """Add what an earlier process of the run took: its `state`."""
        self.started = state["started"]
        for phase, seconds in state["taken"].items():
            self._taken[phase] = self._taken.get(phase, 0.0) + seconds

    def rounded(self) -> dict[str, float]:
        """The phases and their sum, `total`, to the millisecond."""
        seconds = self.taken | {"total": sum(self.taken.values())}
        return {phase: round(taken, 3) for phase, taken in seconds.items()}
