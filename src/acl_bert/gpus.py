"""Which GPUs a process may use on this machine, and which one a job takes. Knows no torch.

`python -m acl_bert.gpus` prints how many jobs with a GPU of their own may run at a time here.
"""

import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"

# Lines of `nvidia-smi -L`: a GPU, and below it the slices (MIG) that it is cut into.
_GPU = re.compile(r"GPU (\d+): (.+) \(UUID: (\S+)\)$")
_SLICE = re.compile(r"\s+(MIG \S+)\s+Device\s+\d+: \(UUID: (\S+)\)$")
_DEVICE = re.compile(r"\d+|(GPU|MIG)-.+")


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a slice of one."""

    name: str
    """As CUDA_VISIBLE_DEVICES takes it: its UUID, wherever nvidia-smi tells it."""
    title: str
    """Its model, such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"; empty where nobody tells it."""


def visible_gpus() -> list[Gpu]:
    """The GPUs that a process here may use; of a GPU that is cut, its slices.

    CUDA_VISIBLE_DEVICES is read as CUDA reads it: UUIDs may be abbreviated, and the first entry
    that is no GPU, such as -1, ends the list. Numbers are nvidia-smi's: where models are mixed,
    CUDA has another order unless CUDA_DEVICE_ORDER=PCI_BUS_ID. Where nvidia-smi cannot be run, the
    entries are taken for GPUs.
    """
    given = os.environ.get(VISIBLE)
    entries = [] if given is None else [entry.strip() for entry in given.split(",")]
    known = _by_entry()
    if known is None:
        return [Gpu(entry, "") for entry in takewhile(_DEVICE.fullmatch, dict.fromkeys(entries))]
    visible: Iterable[list[Gpu]] = known.values()
    if given is not None:
        visible = takewhile(bool, (_meant(entry, known) for entry in entries))
    return list(dict.fromkeys(gpu for gpus in visible for gpu in gpus))


def claim_gpu() -> str | None:
    """Take, until this process ends, the visible GPU that the fewest jobs have taken.

    From then on it is the only visible one: to be called before torch is imported. Returns its name
    as CUDA_VISIBLE_DEVICES has it; None where there is no choice: without a GPU, or where a
    scheduler has given this job one already. How many jobs run at a time is not decided here: the
    workflow's resource `gpu` counts them.
    """
    gpus = visible_gpus()
    if len(gpus) < 2:
        return None
    folder = Path(tempfile.gettempdir(), f"acl-bert-{os.getuid()}", "gpus")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for jobs in count():  # a GPU with fewer jobs comes first
        for gpu in gpus:
            # Left open: its lock is this process's until it ends.
            path = folder / f"{gpu.name.replace('/', '_')}.{jobs}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.environ[VISIBLE] = gpu.name
            return gpu.name
    raise AssertionError("count() does not end")


def _by_entry() -> dict[str, list[Gpu]] | None:
    """The GPUs of each possible entry of CUDA_VISIBLE_DEVICES; None where nvidia-smi fails."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    known: dict[str, list[Gpu]] = {}
    for line in listing.stdout.splitlines():
        if gpu := _GPU.match(line):
            number, title, whole = gpu.groups()
            known[number] = known[whole] = [Gpu(whole, title)]
        elif cut := _SLICE.match(line):
            profile, uuid = cut.groups()
            known[uuid] = [Gpu(uuid, f"{title} {profile}")]
            # A GPU that is cut is no device itself any more.
            slices = [each for each in known[whole] if each.name != whole]
            known[number] = known[whole] = slices + known[uuid]
    return known


def _meant(entry: str, known: Mapping[str, list[Gpu]]) -> list[Gpu]:
    """The GPUs of an entry, which may be a UUID's beginning; none where that is ambiguous."""
    if entry in known or not _DEVICE.fullmatch(entry) or entry.isdigit():
        return known.get(entry, [])
    matching = [gpus for name, gpus in known.items() if name.startswith(entry)]
    return matching[0] if len(matching) == 1 else []


if __name__ == "__main__":
    print(len(visible_gpus()) or 1)
