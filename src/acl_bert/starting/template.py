"""The template process: it imports what a run needs, and forks itself for each job.

`python -m acl_bert.starting.template SOCKET OWNER` is started by the first job of a workflow (or
of a group of jobs on a node); OWNER is the workflow's process id. It ends with the owner, or when
it has had nothing to do for a while, and then passes SIGTERM on to its forks. If it is killed, the
system kills its forks, and their clients begin again in their own processes.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acl_bert.processes import started

IDLE = 600.0  # seconds without a job
LOOK = 1.0  # seconds between two looks at the owner
# What the fork of a run would import.
MODULES = (
    "acl_bert.cli",
    "acl_bert.gpus",
    "acl_bert.runs.prune",
    "acl_bert.training.obtain",
    "safetensors.numpy",
    "transformers.models.bert.modeling_bert",
    "transformers.tokenization_utils_tokenizers",
)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

Main = Callable[[list[str]], int]


class Template:
    """Serves forks that call `main` with a job's arguments."""

    def __init__(self, address: Path, owner: int, main: Main, idle: float = IDLE) -> None:
        self._address, self._main, self._idle = address, main, idle
        self._owner, self._owner_started = owner, started(owner)
        self._jobs: dict[int, socket.socket] = {}  # by the fork's process id
        self._ending = False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())

    def serve(self) -> None:
        """Until the owner has ended, SIGTERM came, or nobody asked for so long."""
        os.umask(0o077)
        self._listener.bind(str(self._address))
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._wake)
        last = time.monotonic()
        try:
            while self._jobs or not self._ending:
                for key, _ in self._selector.select(LOOK):
                    key.data(key.fileobj)
                self._reap()
                if self._jobs:
                    last = time.monotonic()
                gone = started(self._owner) != self._owner_started or self._owner_started is None
                if gone or time.monotonic() - last > self._idle:
                    self._end()
        finally:
            self._address.unlink(missing_ok=True)

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._address.unlink(missing_ok=True)
            for pid in self._jobs:
                os.kill(pid, signal.SIGTERM)

    def _wake(self, woken: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)

    def _reap(self) -> None:
        for pid in list(self._jobs):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                self._answer(self._jobs.pop(pid), f"status {code if code >= 0 else 128 - code}")

    def _answer(self, connection: socket.socket, text: str) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection)
        with contextlib.suppress(OSError), connection:
            connection.sendall(text.encode())

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        if struct.unpack("3i", credentials)[1] != os.getuid():
            connection.close()
            return
        connection.settimeout(10)
        descriptors: list[int] = []
        try:
            header, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
            request = json.loads(_exactly(connection, struct.unpack("!I", header)[0]))
        except (OSError, ValueError, struct.error):
            connection.close()
        else:
            self._start(connection, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _start(
        self, connection: socket.socket, request: dict[str, Any], descriptors: list[int]
    ) -> None:
        if reason := "it is about to end" if self._ending else what_has_happened():
            self._answer(connection, reason)
            return
        template = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(request, descriptors, template)
        self._jobs[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, lambda c: self._told(pid, c))

    def _told(self, pid: int, connection: socket.socket) -> None:
        """Numbers of signals; at the end of the connection the client was killed."""
        try:
            numbers = connection.recv(64)
        except OSError:
            numbers = b""
        for number in numbers or bytes([signal.SIGKILL]):
            os.kill(pid, number)
        if not numbers:
            self._selector.unregister(connection)

    def _become(self, request: dict[str, Any], descriptors: list[int], template: int) -> None:
        """Be the job. Does not return."""
        status = 1
        try:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != template:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for default in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(default, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            sockets = (self._listener, self._woken, self._waker, *self._jobs.values())
            for inherited in (*descriptors, *(each.fileno() for each in sockets)):
                os.close(inherited)
            os.chdir(request["folder"])
            os.umask(request["umask"])
            os.environ.clear()
            os.environ.update(request["environment"])
            sys.argv = ["acl_bert", *request["arguments"]]
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stdout, sys.stderr = _writer(1), _writer(2)
            status = self._main(request["arguments"])
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(status)


def what_has_happened() -> str | None:
    """What a fork would inherit in a state that it cannot use: threads, a GPU's context."""
    give_up = time.monotonic() + 5
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < give_up:
        time.sleep(0.05)  # an import may leave one that is about to end
    if threads > 1 or threading.active_count() > 1:
        return f"it has {threads} threads"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "it has used the GPU"
    return None


def _writer(descriptor: int) -> io.TextIOWrapper:
    """As Python opens its own: lines are written at once to a terminal, and to standard error."""
    at_once = descriptor == 2 or os.isatty(descriptor)
    binary = open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary, encoding="utf-8", errors="backslashreplace", line_buffering=at_once
    )


def _exactly(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        received = connection.recv(size - len(content))
        if not received:
            raise OSError("the client ended")
        content += received
    return content


def main() -> None:
    address, owner = Path(sys.argv[1]), int(sys.argv[2])
    # NumPy's library would start its threads when it is imported; a run's matrices are torch's.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in MODULES:
        importlib.import_module(name)
    from acl_bert.cli import main as run_verb

    gc.collect()
    gc.freeze()
    Template(address, owner, run_verb).serve()


if __name__ == "__main__":
    main()
