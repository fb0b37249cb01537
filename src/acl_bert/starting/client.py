"""The process that Snakemake starts for a job: it asks the template process for a fork.

It imports nothing heavy, passes signals on to the fork and ends with its exit code. Without a
workflow, or if the template refuses, the job runs in this process.
"""

import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import acl_bert
from acl_bert.processes import started

OWNER = "ACL_BERT_OWNER"
"""The environment variable with the workflow's process id; the template ends with that process."""
VERBS = ("finetune",)
PATIENCE = 120.0  # seconds that the template's imports may take
LONGEST = 108  # bytes of a socket's path on Linux, its end included
# Libraries read these when they are imported: jobs with other values get another template.
READ_AT_IMPORT = (
    *("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TORCH", "PYTORCH", "CUDA_", "NVIDIA_"),
    *("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "DNNL_", "ONEDNN_", "PYTHON", "LD_", "XDG_"),
)
PER_JOB = ("CUDA_VISIBLE_DEVICES",)  # read when the GPU is first used, in the fork
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


def run_by_template(arguments: list[str]) -> int | None:
    """The exit code of the verb, run in a fork; None where it is to run in this process."""
    owner = os.environ.get(OWNER, "")
    if not owner.isdigit() or arguments[:1] not in [[verb] for verb in VERBS]:
        return None
    try:
        connection = _connect(int(owner))
    except OSError as error:
        print(f"no template process: {error}; this job starts by itself", file=sys.stderr)
        return None
    with connection:
        return _served(connection, arguments)


def _served(connection: socket.socket, arguments: list[str]) -> int | None:
    umask = os.umask(0)
    os.umask(umask)
    request = json.dumps(
        {
            "arguments": arguments,
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "umask": umask,
        }
    ).encode()

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):  # it has just ended
            connection.send(bytes([number]))

    usual = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        socket.send_fds(connection, [struct.pack("!I", len(request))], [0, 1, 2])
        connection.sendall(request)
        with connection.makefile("rb") as answers:
            answer = answers.read()
    except OSError:
        answer = b""
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    if answer.startswith(b"status "):
        return int(answer.split()[1])
    reason = answer.decode(errors="replace") or "it was killed"
    print(f"template process: {reason}; this job starts by itself", file=sys.stderr)
    return None


def _connect(owner: int) -> socket.socket:
    """Connect to the owner's template; start it where there is none. Raises OSError."""
    folder = _private_folder()
    address = folder / f"{_name(owner)}.socket"
    if len(os.fsencode(address)) >= LONGEST:
        raise OSError(f"{address} is too long for a socket; set TMPDIR to a shorter folder")
    with suppress(OSError):
        return _connected(address)
    with _alone(address.with_suffix(".lock")):
        with suppress(OSError):  # another job has started it meanwhile
            return _connected(address)
        address.unlink(missing_ok=True)  # of one that was killed
        with address.with_suffix(".log").open("wb") as log:
            template = subprocess.Popen(
                [sys.executable, "-m", "acl_bert.starting.template", str(address), str(owner)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        give_up = time.monotonic() + PATIENCE
        while template.poll() is None and time.monotonic() < give_up:
            with suppress(OSError):
                return _connected(address)
            time.sleep(0.02)
        template.kill()
    raise OSError(f"it did not start; see {address.with_suffix('.log')}")


def _connected(address: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _private_folder() -> Path:
    """The folder of the sockets. Raises OSError where another user owns it or may write to it."""
    folder = Path(tempfile.gettempdir(), f"acl-bert-{os.getuid()}", "templates")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (folder.parent, folder):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(f"{path} is not this user's alone")
    folder.chmod(0o700)
    return folder


def _name(owner: int) -> str:
    """Equal for jobs that one template can serve: same owner, code, Python and environment."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(READ_AT_IMPORT) and name not in PER_JOB
    }
    package = Path(acl_bert.__file__).parent
    code = [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for ending in ("py", "yaml")
        for path in sorted(package.rglob(f"*.{ending}"))
    ]
    common = [owner, started(owner), sys.executable, sorted(environment.items()), code]
    return hashlib.sha256(json.dumps(common).encode()).hexdigest()[:24]
