"""Being told to stop: noted at once, obeyed where a checkpoint can be written."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from acl_bert.errors import Interrupted

# SLURM sends the first before a time limit or a preemption, a terminal the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """While it is entered, the first SIGTERM or SIGINT is noted; a second one has its usual effect.

    To be entered in the main thread, as Python's signal handlers are.
    """

    def __init__(self) -> None:
        self._noted: int | None = None
        self._usual: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._usual = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise Interrupted where a signal was noted."""
        if self._noted is not None:
            raise Interrupted(self._noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number
        self._restore()

    def _restore(self) -> None:
        for number, usual in self._usual.items():
            signal.signal(number, usual)
