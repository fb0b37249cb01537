"""How long training steps take on the hardware of a study, as measured: `calibration.json`."""

from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

from acl_bert.errors import InputError
from acl_bert.runs.files import read_checked

CALIBRATION = "calibration.json"  # in the study's folder


class Calibration(TypedDict):
    """`calibration.json`, an entry an encoder: how long CE steps of two lengths took."""

    device: str
    gpu: bool
    precision: str
    threads: int
    batch_size: int
    steps: list[tuple[int, float]]
    """Tokens of a row, all rows of a batch being as long, and seconds of an update."""


def calibration(study: Path, encoders: Collection[str]) -> dict[str, Calibration] | None:
    """Of each of these; None where nothing was calibrated.

    Raises InputError where the file is torn, or lacks one of them.
    """
    path, remedy = study / CALIBRATION, "calibrate again"
    if not path.is_file():
        return None
    found = read_checked(path, frozenset(encoders), remedy)
    for name in encoders:
        if not isinstance(found[name], dict) or Calibration.__required_keys__ - found[name].keys():
            raise InputError(f"{path}: {name} is not whole; {remedy}")
    return found
