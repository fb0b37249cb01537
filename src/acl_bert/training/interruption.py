"""Signals to stop: noted at once, obeyed where a checkpoint can be written."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from acl_bert.errors import Interrupted

# SLURM sends the first before a time limit or a preemption, a terminal the second.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Note SIGTERM and SIGINT in the block. A second SIGINT has its usual effect.

    A second SIGTERM has no effect: SLURM sends it again at the limit that it warned of, and a
    process may get the same one from SLURM and from Snakemake above it. SIGKILL ends it at once.

    Yields a function that raises Interrupted where a signal was noted. Python sets signal handlers
    in the main thread only.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if number == signal.SIGINT:
            signal.signal(number, usual[signal.Signals(number)])

    def check() -> None:
        if noted:
            raise Interrupted(noted[0])

    usual = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield check
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
