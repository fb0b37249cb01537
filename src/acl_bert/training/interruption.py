"""Being told to stop: noted at once, obeyed where a checkpoint can be written."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from acl_bert.errors import Interrupted

# SLURM sends the first before a time limit or a preemption, a terminal the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Note the first SIGTERM or SIGINT in the block; a second one has its usual effect.

    Yields a function that raises Interrupted where one was noted. To be entered in the main thread,
    as Python's signal handlers are.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        restore()

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def check() -> None:
        if noted:
            raise Interrupted(noted[0])

    usual = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield check
    finally:
        restore()
