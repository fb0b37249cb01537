"""Processes: whether one still runs, and SIGTERM passed on to those below one.

Under SLURM's proctrack/cgroup a warning reaches the first process of a job step alone: Snakemake,
which starts nothing more and waits. What it waits for, the training, is to write a checkpoint.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def started(pid: int) -> str | None:
    """When a process began, in the system's ticks; None where there is none. Numbers come again."""
    try:
        # The second field, the program's name in parentheses, may have spaces in it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def pass_on(applies: Callable[[], bool]) -> None:
    """From now on send on each SIGTERM of this process to all below it, where `applies` is true.

    The handler that this process has, or installs later, keeps its effect. To be called in the main
    thread; takes the place of signal.set_wakeup_fd.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_send_on, args=(reader, applies), daemon=True).start()


def _send_on(numbers: int, applies: Callable[[], bool]) -> None:
    """Read the numbers of this process's signals, a byte each, for as long as it lives."""
    import psutil  # not above: each job's client imports this module

    while True:
        if signal.SIGTERM in os.read(numbers, 64) and applies():
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has ended
                    process.terminate()
