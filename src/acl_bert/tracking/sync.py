"""All of a study's files in MLflow, whatever was missed while they were written."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from acl_bert.errors import InputError, first_line
from acl_bert.runs.files import (
    CONFIG,
    RunFolder,
    find_runs,
    lease_path,
    tuning_path,
    tuning_run_path,
    variant_of,
    work_path,
)
from acl_bert.runs.lease import is_held
from acl_bert.spares import SPARE
from acl_bert.tracking.browsing import IDENTITY, RUN_HASH, VARIANT, identity_of
from acl_bert.tracking.mirror import is_mirrored, mirror
from acl_bert.tracking.store import Experiment, StoreError, initialise

# Task, encoder, method, seed, and which λ is tried, if one is.
Key = tuple[str | None, ...]


@dataclass
class Synced:
    """How many runs MLflow was given, had already, shows as FAILED, and whose training goes on.

    `faults` name what cannot be read.
    """

    mirrored: int = 0
    unchanged: int = 0
    failed: int = 0
    in_training: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.mirrored} runs mirrored", f"{self.unchanged} were there already"]
        if self.failed:
            parts.append(f"{self.failed} ended without a result")
        if self.in_training:
            parts.append(f"{self.in_training} in training left to their followers")
        return ", ".join(parts)


def sync(study_folder: Path, uri: str, tuning_seeds: Collection[int] = ()) -> Synced:
    """Mirror every finished run, and every work folder whose training ended without a result.

    The latter are marked FAILED, unless the study has a finished run in their place; so is what
    MLflow has as RUNNING though nobody here trains it (should another machine do so, the follower
    there sets it right). A spare stands for a run that was removed and not begun again. Runs in
    training are left to their followers. A work folder that MLflow does not know is of a tuning run
    if its seed is among `tuning_seeds`. Done twice, it changes nothing, and the second time asks
    MLflow once.
    Raises StoreError when the store cannot be used.
    """
    try:
        return _sync(study_folder, initialise(uri, study_folder), tuning_seeds)
    except MlflowException as error:
        raise StoreError(first_line(error)) from error


def _sync(study_folder: Path, experiment: Experiment, tuning_seeds: Collection[int]) -> Synced:
    # Before MLflow is asked: what ends from here on is left to its follower.
    work = [(files, is_held(lease_path(files.path))) for files in _work_folders(study_folder)]
    live: dict[Key, list[Run]] = defaultdict(list)
    variants = {}
    for run in experiment.runs():
        tags = run.data.tags
        if RUN_HASH in tags:
            live[_key(tags, tags.get(VARIANT))].append(run)
            variants[tags[RUN_HASH]] = tags.get(VARIANT)

    def key_of(files: RunFolder) -> Key:
        config, run_hash = files.config(), files.path.name
        if run_hash in variants:
            return _key(identity_of(config), variants[run_hash])
        target = None
        if config["seed"] in tuning_seeds:
            tuning = tuning_path(
                study_folder, *(config[k] for k in ("task", "encoder", "method_id"))
            )
            target = variant_of(tuning_run_path(tuning, config["method"]["lambda"], config["seed"]))
        return _key(identity_of(config), target)

    done = Synced()
    settled: set[Key] = set()  # what MLflow need not be asked about any more
    runs: dict[Key, RunFolder] = {}  # of each key what the study has; a later one is better

    def add_finished(study: Path) -> None:
        for files in (*find_runs(study), *find_runs(study, tuning=True)):
            try:
                runs[_key(identity_of(files.config()), variant_of(files.path))] = files
            except InputError as error:
                done.faults.append(str(error))

    add_finished(study_folder / SPARE)
    begun: dict[Key, float] = {}
    for files, in_training in work:
        if not files.config_path.is_file():  # published meanwhile
            continue
        try:
            key, moment = key_of(files), files.config_path.stat().st_mtime
        except (InputError, OSError) as error:
            done.faults.append(str(error))
            continue
        if in_training:
            done.in_training += 1
            settled.add(key)
        elif moment > begun.get(key, 0):
            runs[key], begun[key] = files, moment
    add_finished(study_folder)

    for key, files in runs.items():
        if key in settled:
            continue
        settled.add(key)
        try:
            finished = files.finished
            if finished and len(live[key]) == 1 and is_mirrored(live[key][0], files):
                done.unchanged += 1
                continue
            mirror(files.path, experiment, key[-1], training=False)
            done.mirrored += finished
            done.failed += not finished
        except (InputError, OSError) as error:
            done.faults.append(str(error))
    for key, known in live.items():
        for run in known if key not in settled else ():
            work_folder = work_path(study_folder, run.data.tags[RUN_HASH])
            if run.info.status == "RUNNING" and not is_held(lease_path(work_folder)):
                experiment.client.set_terminated(run.info.run_id, "FAILED")
                done.failed += 1
    return done


def _key(tags: Mapping[str, str], variant: str | None) -> Key:
    return (*(tags.get(name) for name in IDENTITY), variant)


def _work_folders(study_folder: Path) -> Iterator[RunFolder]:
    for config in sorted(work_path(study_folder, "*").parent.glob(f"*/{CONFIG}")):
        yield RunFolder(config.parent)
