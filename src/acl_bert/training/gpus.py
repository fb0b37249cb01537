"""Which GPU a job takes on a machine with several; to be settled before torch is imported."""

import fcntl
import getpass
import os
import subprocess
import tempfile
from itertools import count
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"


def claim_gpu() -> str | None:
    """Take, until this process ends, the visible GPU that the fewest jobs have taken.

    From then on it is the only visible one. Returns its name as CUDA_VISIBLE_DEVICES has it; None
    where there is no choice: without a GPU, or where a scheduler has given this job one already.
    How many jobs run at a time is not decided here: the workflow's resource `gpu` counts them.
    """
    gpus = _visible()
    if len(gpus) < 2:
        return None
    folder = Path(tempfile.gettempdir(), f"acl-bert-{getpass.getuser()}", "gpus")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for place in count():  # all first places before a second one
        for gpu in gpus:
            # Left open: its lock, and so the place, is this process's until it ends.
            descriptor = os.open(folder / f"{gpu}.{place}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.environ[VISIBLE] = gpu
            return gpu
    raise AssertionError("there is always a further place")


def _visible() -> list[str]:
    """By their names for CUDA_VISIBLE_DEVICES."""
    if (given := os.environ.get(VISIBLE)) is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()
