"""Where a run's time goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Wall-clock seconds by part of a run; a part that comes again adds up."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.taken[part] = self.taken.get(part, 0.0) + time.perf_counter() - start

    def rounded(self) -> dict[str, float]:
        """The parts and their sum, in milliseconds' resolution."""
        parts = self.taken | {"total": sum(self.taken.values())}
        return {part: round(seconds, 3) for part, seconds in parts.items()}
