"""Who may write a run's files: one process, on whatever machine of a shared file system.

A requeued job, a workflow that was killed and started again while its jobs went on, a second one by
hand: each can train the run that another still trains. filelock's lease decides between them, also
where the file system has no locks: a file names its holder, who touches it every BEAT seconds. The
lease is free once its holder has died on this machine, or was not heard of for LOST seconds.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import SoftFileLease, Timeout

from acl_bert.errors import TrainingError

BEAT = 20.0  # seconds
LOST = 180.0
POLL = 2.0


class Lease:
    """A lease that was taken. Its holder can lose it, and must not write any more then."""

    def __init__(self, path: Path, lock: SoftFileLease) -> None:
        self._path, self._lock = path, lock
        self._content = path.read_bytes()  # with a token that is this hold's alone
        self._lost = False

    def look(self) -> bool:
        """Whether the file still names this holder now."""
        try:
            self._lost = self._path.read_bytes() != self._content
        except FileNotFoundError:
            self._lost = True
        except OSError:  # the file system is away: the next look, or a beat, tells
            pass
        return not self._lost

    def check(self) -> None:
        """Raise TrainingError where the last look or beat found it lost; costs nothing."""
        if self._lost or self._lock.compromise:
            raise TrainingError(
                f"{self._path}: another process has taken this run over, since this one gave no "
                f"sign of life for {LOST:.0f} s; it stops here, and the other goes on"
            )


@contextmanager
def hold(path: Path, report: Callable[[str], None]) -> Iterator[Lease]:
    """Hold the lease in the file `path`, waiting while another process does.

    `report` gets one line where there is somebody to wait for.
    """
    lock = _lease(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        owner = lock.owner
        holder = f"process {owner.pid} on {owner.hostname}" if owner else "another process"
        report(f"{path}: {holder} trains this run; waiting until it has ended")
        lock.acquire()
    try:
        yield Lease(path, lock)
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a live process of any machine holds the lease in this file now."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent) as now:
            # By the file system's clock: those of the machines may differ.
            age = os.stat(now.fileno()).st_mtime - path.stat().st_mtime
        with _lease(path).acquire(blocking=False):
            return False  # its holder has died on this machine
    except FileNotFoundError:
        return False
    except Timeout:
        return age < LOST


def _lease(path: Path) -> SoftFileLease:
    return SoftFileLease(
        path,
        lease_duration=LOST,
        heartbeat_interval=BEAT,
        poll_interval=POLL,
        thread_local=False,
    )
