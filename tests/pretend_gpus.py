"""A machine's GPUs as nvidia-smi lists them, on a machine that has none."""

import shlex
from pathlib import Path

TWO = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8f6d5c1e-3b7a-4c52-9d0e-5a1b2c3d4e5f)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-8f0a9b8c-7d6e-4f5a-8b3c-2d1e0f9a8b7c)
"""
FIRST, SECOND = (line.partition("UUID: ")[2].rstrip(")") for line in TWO.splitlines())

# One that is cut in three, and a whole one.
CUT = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
  MIG 1c.3g.20gb  Device  2: (UUID: MIG-1e99852c-e624-5574-947e-3927ed55ab66)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-69ce3eda-76e0-ad6e-b66a-fe61f1a2cf1c)
"""
PARENT, *SLICES, WHOLE = (line.partition("UUID: ")[2].rstrip(")") for line in CUT.splitlines())


def nvidia_smi(folder: Path, listed: str, code: int = 0) -> Path:
    """A folder for PATH, whose nvidia-smi answers so to `-L`, and leaves `called` behind."""
    tool = folder / "nvidia-smi"
    folder.mkdir(exist_ok=True)
    tool.write_text(
        f'#!/bin/sh\n[ "$*" = -L ] || exit 2\n: > {shlex.quote(str(folder / "called"))}\n'
        f"printf %s {shlex.quote(listed)}\nexit {code}\n"
    )
    tool.chmod(0o755)
    return folder
