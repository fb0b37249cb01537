"""Finished runs a second time, as hard links, until the workflow that made them has succeeded.

Snakemake removes the results of all jobs of a group where one of them failed, a group that SLURM
puts back into its queue runs whole again, and what a job publishes whose workflow is gone is
removed by the next one. A run's spare is put in its place then, and the run is not trained again.
A file system without hard links has no spares.
"""

import os
import shutil
from pathlib import Path

from acl_bert.files import atomic_folder
from acl_bert.runs.files import METRICS

SPARE = "spare"


def spare_path(study: Path, run_folder: Path) -> Path:
    """Where the spare of a run lies, whose own place is `run_folder` in the study's folder."""
    return study / SPARE / run_folder.relative_to(study)


def keep_spare(study: Path, run_folder: Path) -> None:
    """Of a finished run."""
    try:
        _link(run_folder, spare_path(study, run_folder))
    except OSError:  # no hard links
        shutil.rmtree(spare_path(study, run_folder), ignore_errors=True)


def put_back(study: Path, run_folder: Path) -> None:
    """Make a run again from its spare."""
    _link(spare_path(study, run_folder), run_folder)


def put_all_back(study: Path) -> int:
    """Make those runs again that are not there; how many."""
    spares = study / SPARE
    places = [
        study / metrics.parent.relative_to(spares) for metrics in spares.glob(f"**/{METRICS}")
    ]
    lost = [place for place in places if not (place / METRICS).exists()]
    for place in lost:
        put_back(study, place)
    return len(lost)


def forget_spares(study: Path) -> None:
    shutil.rmtree(study / SPARE, ignore_errors=True)


def _link(folder: Path, target: Path) -> None:
    with atomic_folder(target) as aside:
        shutil.copytree(folder, aside, copy_function=os.link, dirs_exist_ok=True)
