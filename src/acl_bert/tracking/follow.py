"""The process beside a training that mirrors it while it goes on."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from acl_bert.errors import InputError, first_line
from acl_bert.runs.files import CONFIG, RunFolder, variant_of
from acl_bert.tracking.mirror import mirror
from acl_bert.tracking.store import (
    Experiment,
    StoreError,
    initialise,
    not_mirrored,
    open_experiment,
    shown,
)

logger = logging.getLogger(__name__)


def follow(
    work_folder: Path,
    run_folder: Path,
    uri: str,
    study_folder: Path,
    parent_pid: int,
    interval: float = 5.0,
    patience: float = 50.0,
) -> None:
    """Mirror a run while it trains: until it is published, or the process that trains has ended.

    The run grows in `work_folder`, named by the run's hash, and moves to `run_folder`, where an
    older run may lie until then: start this when `work_folder` is there. A run that ended without
    a result is marked FAILED; resumed, it goes on. What goes wrong here is one warning and is tried
    again every `interval` seconds: while the training lasts, and after it for `patience` seconds,
    when a last warning says how the run is mirrored later. It never raises.
    """
    parent_is_alive = _watch(parent_pid)
    experiment: Experiment | None = None
    warned = False
    give_up: float | None = None
    while True:
        # Asked before the files are looked at: the last thing the training wrote is then seen.
        training = parent_is_alive()
        published = not work_folder.exists() and _is_result_of(run_folder, work_folder.name)
        folder = run_folder if published else work_folder
        over = published or not training
        if over and give_up is None:
            give_up = time.monotonic() + patience
        fault: Exception | None = None
        try:
            if (folder / CONFIG).is_file():
                experiment = experiment or _open(uri, study_folder)
                mirror(folder, experiment, variant_of(run_folder), training)
        except Exception as error:  # whatever it is, it must not reach the training
            fault = error
        if fault is None:
            if over:
                return
        elif give_up is not None and time.monotonic() >= give_up:
            logger.warning("%s: %s", run_folder, not_mirrored(uri, fault))
            return
        elif not warned and folder.exists():  # else it has just been published
            warned = True
            told = (shown(uri), run_folder, first_line(fault), interval)
            logger.warning("MLflow at %s does not take %s: %s; tried again every %g s", *told)
        time.sleep(interval)


def _open(uri: str, study_folder: Path) -> Experiment:
    try:
        return open_experiment(uri, study_folder)
    except StoreError:  # a run started by hand, or a server that was away when the study began
        return initialise(uri, study_folder)


def _watch(pid: int) -> Callable[[], bool]:
    """Whether a process still runs."""
    if os.getppid() == pid:
        # A child whose parent ends is given another: sure even where the number is used again.
        return lambda: os.getppid() == pid

    def exists() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    return exists


def _is_result_of(folder: Path, run_hash: str) -> bool:
    try:
        return RunFolder(folder).metrics()["run_hash"] == run_hash
    except InputError:  # none yet, or just being replaced
        return False
