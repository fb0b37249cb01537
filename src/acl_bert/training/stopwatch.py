"""When a run began, and where its time goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any


def now() -> str:
    """ISO 8601, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Stopwatch:
    """Wall-clock seconds by part of a run; a part that comes again adds up."""

    def __init__(self) -> None:
        self.started = now()
        """ISO 8601."""
        self._taken: dict[str, float] = {}
        self._running: tuple[str, float] | None = None

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        self._running = (part, time.perf_counter())
        try:
            yield
        finally:
            self._taken, self._running = self.taken, None

    @property
    def taken(self) -> dict[str, float]:
        """By part, the one that runs included."""
        if self._running is None:
            return dict(self._taken)
        part, start = self._running
        return self._taken | {part: self._taken.get(part, 0.0) + time.perf_counter() - start}

    def state(self) -> dict[str, Any]:
        return {"started": self.started, "taken": self.taken}

    def go_on(self, state: dict[str, Any]) -> None:
        """After what an earlier process of the run took: its `state`."""
        self.started = state["started"]
        for part, seconds in state["taken"].items():
            self._taken[part] = self._taken.get(part, 0.0) + seconds

    def rounded(self) -> dict[str, float]:
        """The parts and their sum, in milliseconds' resolution."""
        parts = self.taken | {"total": sum(self.taken.values())}
        return {part: round(seconds, 3) for part, seconds in parts.items()}
