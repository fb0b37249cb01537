"""Who may write a run's files: one process, on whatever machine of a shared file system.

A requeued job, a workflow that was killed and started again while its jobs went on, a second one by
hand: each can train the run that another still trains. A lease is a file that its holder locks
(flock). That settles it on one machine, where a lock ends with its process, and between machines
whose file system passes locks on. Where it does not, the file tells: its holder touches it every
BEAT seconds, and to others it counts until it has not been touched for LOST seconds. A holder that
slept that long finds another's name in it, and must not write any more.
"""

import fcntl
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from acl_bert.errors import TrainingError

BEAT = 20.0  # seconds
LOST = 180.0
POLL = 2.0
WIDTH = 1024  # bytes, always: written over the holder before, a reader never finds the file empty


class Lease:
    """A lease that was taken. It is looked at every BEAT seconds, and can be lost."""

    def __init__(self, path: Path, token: str) -> None:
        self._path, self._token = path, token
        self._lost = False

    def look(self) -> bool:
        """Whether it is still this one's; gives a sign of life where it is."""
        try:
            self._lost = _read(self._path.read_bytes()).get("token") != self._token
            if not self._lost:
                os.utime(self._path)
        except FileNotFoundError:
            self._lost = True
        except OSError:  # of a file system that is away: it is asked again
            pass
        return not self._lost

    def check(self) -> None:
        """Raise TrainingError where it was lost when it was last looked at; costs nothing."""
        if self._lost:
            raise TrainingError(
                f"{self._path}: another process has taken this run over, since this one gave no "
                f"sign of life for {LOST:.0f} s or both came at once; it stops here, and the other "
                "goes on"
            )


@contextmanager
def hold(path: Path, report: Callable[[str], None], machine: str | None = None) -> Iterator[Lease]:
    """Hold the lease in the file `path`, waiting while another process does.

    `report` gets one line where there is somebody to wait for. `machine`: this one's name, where it
    is not to be found out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    token = uuid4().hex
    me = {
        "token": token,
        "machine": machine or _machine(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job": os.environ.get("SLURM_JOB_ID"),
    }
    with _acquired(path, me, report):
        lease = Lease(path, token)
        done = threading.Event()
        beat = threading.Thread(target=_beat, args=(lease, done), daemon=True)
        beat.start()
        try:
            yield lease
        finally:
            done.set()
            beat.join()
            if lease.look():
                path.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Whether a process of any machine holds the lease in this file now; takes nothing."""
    try:
        stream = path.open("r+b", buffering=0)
    except FileNotFoundError:
        return False
    with stream:
        return _is_anothers(path, stream, _lock(stream), _machine())


def _acquired(path: Path, me: dict[str, Any], report: Callable[[str], None]) -> BinaryIO:
    """The file, with this process in it.

    Where two that see no lock of each other come at once, both get it, and whose name is not the
    one that stays in it learns that at its first beat.
    """
    waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        stream = os.fdopen(descriptor, "r+b", buffering=0)
        locked = _lock(stream)
        if locked is not False and not _is_the_file(stream, path):
            stream.close()  # its holder removed it between the two lines above
            continue
        if not _is_anothers(path, stream, locked, me["machine"]):
            stream.seek(0)
            stream.write(json.dumps(me).encode().ljust(WIDTH))
            os.fsync(descriptor)
            return stream
        if not waited:
            waited = True
            report(f"{path}: {_holder(stream)} trains this run; waiting until it has ended")
        stream.close()
        time.sleep(POLL)


def _lock(stream: BinaryIO) -> bool | None:
    """Whether the file could be locked; None where the file system has no locks."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_the_file(stream: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _read(content: bytes) -> dict[str, Any]:
    try:
        holder = json.loads(content)
    except ValueError:  # empty: just made, or its holder died before it wrote
        return {}
    return holder if isinstance(holder, dict) else {}


def _content(stream: BinaryIO) -> dict[str, Any]:
    stream.seek(0)
    return _read(stream.read())


def _is_anothers(path: Path, stream: BinaryIO, locked: bool | None, machine: str) -> bool:
    """Whether another process holds it: by its lock, else by its sign of life.

    A lock tells all about the processes of this machine. Both moments are the file system's: the
    machines' clocks may differ.
    """
    if locked is False:
        return True
    holder = _content(stream)
    if not holder or (locked and holder.get("machine") == machine):
        return False
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as now:
        age = os.fstat(now.fileno()).st_mtime - os.fstat(stream.fileno()).st_mtime
    return age < LOST


def _holder(stream: BinaryIO) -> str:
    holder = _content(stream)
    if not holder:
        return "another process"
    job = f", SLURM job {holder['job']}" if holder.get("job") else ""
    return f"process {holder.get('pid')} on {holder.get('host')}{job}"


def _beat(lease: Lease, done: threading.Event) -> None:
    wait = POLL  # soon after both came at once, if they did
    while not done.wait(wait):
        lease.look()
        wait = BEAT


def _machine() -> str:
    """What tells this machine, from one start to the next, from all others.

    Containers of one machine have it in common, as they have its locks.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()
