"""Who may write a run's files: one process, on whatever machine of a shared file system.

A requeued job, a workflow that was killed and started again while its jobs went on, a second one by
hand: each can train the run that another still trains. A lease is a file that its holder locks
(flock). That settles it on one machine, where a lock ends with its process, and between machines
whose file system passes locks on. Where it does not, the file tells: its holder touches it every
BEAT seconds, and on another machine it counts until it has not been touched for LOST seconds. A
holder that slept that long finds another's name in it, and must not write any more.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from acl_bert.errors import TrainingError

BEAT = 20.0  # seconds
LOST = 180.0
POLL = 2.0


class Lease:
    """A lease that is held."""

    def __init__(self, path: Path, token: str, waited: bool) -> None:
        self._path, self._token = path, token
        self.waited = waited
        """Whether another process held it before."""

    @property
    def is_held(self) -> bool:
        """Whether it is still this one's."""
        try:
            return bool(json.loads(self._path.read_text(encoding="utf-8"))["token"] == self._token)
        except (OSError, ValueError, KeyError):
            return False

    def check(self) -> None:
        """Raise TrainingError where another process took it, this one being taken for dead."""
        if not self.is_held:
            raise TrainingError(
                f"{self._path}: another process has taken this run over, since this one gave no "
                f"sign of life for {LOST:.0f} s; it stops here, and the other goes on"
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
    stream, waited = _acquire(path, me, report)
    lease = Lease(path, token, waited)
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(lease, path, done), daemon=True)
    beat.start()
    try:
        yield lease
    finally:
        done.set()
        beat.join()
        if lease.is_held:
            path.unlink()
        stream.close()


def is_held(path: Path) -> bool:
    """Whether a process of any machine holds the lease in this file now; takes nothing."""
    try:
        stream = path.open("r+", encoding="utf-8")
    except FileNotFoundError:
        return False
    with stream:
        return not _lock(stream) or _is_anothers(path, stream, _machine())


def _acquire(path: Path, me: dict[str, Any], report: Callable[[str], None]) -> tuple[IO[str], bool]:
    waited = False
    while True:
        stream = path.open("a+", encoding="utf-8")
        locked = _lock(stream)
        if locked and not _is_the_file(stream, path):
            stream.close()  # its holder removed it between the two lines above
            continue
        if locked and not _is_anothers(path, stream, me["machine"]):
            stream.truncate(0)
            stream.write(json.dumps(me))
            stream.flush()
            os.fsync(stream.fileno())
            return stream, waited
        if not waited:
            waited = True
            report(f"{path}: {_holder(stream)} trains this run; waiting until it has ended")
        stream.close()
        time.sleep(POLL)


def _lock(stream: IO[str]) -> bool:
    """Whether the file could be locked; a file system without locks leaves it to the beat."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_the_file(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _read(stream: IO[str]) -> dict[str, Any]:
    stream.seek(0)
    try:
        holder = json.loads(stream.read())
    except ValueError:  # empty: just made, or its holder died before it wrote
        return {}
    return holder if isinstance(holder, dict) else {}


def _is_anothers(path: Path, stream: IO[str], machine: str) -> bool:
    """Whether a process of another machine, which its lock does not show, gave a sign of life.

    Both moments are the file system's: the machines' clocks may differ.
    """
    holder = _read(stream)
    if not holder or holder.get("machine") == machine:
        return False
    now = path.with_name(f".{path.name}.{os.getpid()}.now")
    now.touch()
    try:
        return now.stat().st_mtime - os.fstat(stream.fileno()).st_mtime < LOST
    finally:
        now.unlink()


def _holder(stream: IO[str]) -> str:
    holder = _read(stream)
    if not holder:
        return "another process"
    job = f", SLURM job {holder['job']}" if holder.get("job") else ""
    return f"process {holder.get('pid')} on {holder.get('host')}{job}"


def _beat(lease: Lease, path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        if lease.is_held:
            os.utime(path)


def _machine() -> str:
    """What tells this machine, from one start to the next, from all others.

    Containers of one machine have it in common, as they have its locks.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()
