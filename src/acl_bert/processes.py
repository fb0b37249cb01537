"""Processes: whether one still runs, and passing SIGTERM on to a process's descendants.

Under SLURM's proctrack/cgroup a warning reaches only the first process of a job step: Snakemake,
which starts no more jobs and waits. The training that it waits for has to write a checkpoint.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def started(pid: int) -> str | None:
    """When a process began, in the system's ticks, which tells it from a later process of equal id.

    None where there is no such process.
    """
    try:
        # The second field, the program's name in parentheses, may have spaces in it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def pass_on(applies: Callable[[], bool]) -> None:
    """From now on pass each SIGTERM on to all descendants, where `applies` is true.

    This process's own handler keeps its effect. Call it in the main thread; uses set_wakeup_fd.
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
