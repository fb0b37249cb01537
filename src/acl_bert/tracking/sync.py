"""The study's tracker: MLflow brought up to date with the study's files, once or again and again.

It is the only one that writes the study's experiment. What it has told MLflow stands in MLflow, as
tags: a tracker that was killed, or a store that was removed, costs nothing but time.
"""

import fcntl
import logging
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from acl_bert.config.study import Study
from acl_bert.errors import InputError, first_line
from acl_bert.files import read_json
from acl_bert.processes import started
from acl_bert.runs.files import (
    RunFolder,
    called_by,
    find_names,
    in_progress_path,
    lease_path,
    variant_of,
)
from acl_bert.runs.lease import is_held
from acl_bert.runs.store import Store, read_name
from acl_bert.tracking.browsing import IDENTITY, RUN_HASH, VARIANT
from acl_bert.tracking.mirror import mirror
from acl_bert.tracking.store import Experiment, StoreError, complaint, open_experiment

logger = logging.getLogger(__name__)

LOCK = ".tracking.lock"


Key = tuple[str | None, ...]
"""Task, encoder, method, seed and λ, as MLflow's tags have them."""


@dataclass(frozen=True)
class Item:
    """A run of the study about which there is something new for MLflow."""

    name: Path
    """The small file that names it, or is to name it."""
    files: RunFolder
    stamp: tuple[int, ...]
    """Another one whenever there is something new."""
    digest: str | None = None
    """Of the finished run's manifest; None while it is in progress."""

    @property
    def key(self) -> Key:
        return (*map(str, called_by(self.name)), variant_of(self.name))


@dataclass
class Synced:
    """How many runs MLflow was given, had already, shows as FAILED; `faults` name what is torn."""

    mirrored: int = 0
    unchanged: int = 0
    failed: int = 0
    in_progress: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.mirrored} runs mirrored", f"{self.unchanged} were there already"]
        if self.in_progress:
            parts.append(f"{self.in_progress} in progress")
        if self.failed:
            parts.append(f"{self.failed} ended without a result")
        return ", ".join(parts)


class Tracker:
    """Passes over a study's files; each tells MLflow what the one before has not."""

    def __init__(self, study_folder: Path, uri: str, study: Study | None = None) -> None:
        """`study`: names the methods' titles and teachers, else those of the runs' files."""
        self._folder, self.uri = study_folder, uri
        self._methods = study.method_rows if study else {}
        self._store = Store.beside(study_folder)
        self._experiment: Experiment | None = None
        self._told: dict[Path, tuple[int, ...]] = {}  # stamps of what MLflow has, by small file

    def _forget(self) -> None:
        """Look at everything again: the store may be another one than before."""
        self._experiment, self._told = None, {}

    def sync(self, last: bool = True) -> Synced:
        """One pass. The `last` one also ends what MLflow has as running and nobody trains.

        Raises StoreError where the store cannot be used.
        """
        if last:
            self._forget()
        done = Synced()
        new = list(self._new_items(done))
        if not (new or last):
            return done
        try:
            if self._experiment is None:
                self._experiment = open_experiment(self.uri, self._folder, create=True)
            known = self._known(self._experiment, new)
            for item in new:
                self._tell(self._experiment, item, known[item.key], done)
            if last:
                done.failed = self._end_what_nobody_trains(self._experiment)
        except (MlflowException, StoreError) as error:
            self._forget()
            raise StoreError(first_line(error)) from error
        return done

    def _tell(self, experiment: Experiment, item: Item, known: list[Run], done: Synced) -> None:
        try:
            told = mirror(item.files, experiment, known, variant_of(item.name), item.digest)
        except (InputError, OSError) as error:  # torn, or published meanwhile
            if isinstance(error, OSError) and error.filename is None:  # of a server, not of a file
                raise StoreError(first_line(error)) from error
            if item.files.path.is_dir():
                done.faults.append(str(error))
            return
        self._told[item.name] = item.stamp
        if item.digest is None:
            done.in_progress += 1
        else:
            done.mirrored += told
            done.unchanged += not told

    def _new_items(self, done: Synced) -> Iterator[Item]:
        """Of the finished runs that the study names, and of those in progress that have begun."""
        for tuning in (False, True):
            for name in find_names(self._folder, tuning):
                try:
                    stamp = (name.stat().st_mtime_ns,)
                    if self._told.get(name) == stamp:
                        done.unchanged += 1
                    else:
                        run = self._own(self._store.named(name))
                        yield Item(name, run, stamp, read_name(name)["digest"])
                except FileNotFoundError:  # about to be made again
                    continue
                except InputError as error:
                    done.faults.append(str(error))
        for note in sorted(in_progress_path(self._folder, "x").parent.glob("*.json")):
            try:
                name = self._folder / read_json(note)["name"]
            except FileNotFoundError:  # named meanwhile
                continue
            run = self._own(RunFolder(self._store.work(note.stem), called_by(name)))
            grown = [path for path in (run.history_path, run.epochs_path) if path.is_file()]
            sizes = (len(grown), *(path.stat().st_size for path in grown))
            if run.config_path.is_file() and not name.is_file() and self._told.get(name) != sizes:
                yield Item(name, run, sizes)

    def _known(self, experiment: Experiment, new: list[Item]) -> dict[Key, list[Run]]:
        """What MLflow has of these: asked by one query where they are many."""
        known: dict[Key, list[Run]] = defaultdict(list)
        queries = [""]
        if len(new) < 10:
            keys = {item.key[: len(IDENTITY)] for item in new}
            queries = [
                " and ".join(f"tags.`{n}` = '{v}'" for n, v in zip(IDENTITY, key, strict=True))
                for key in keys
            ]
        for query in queries:
            for run in experiment.runs(query):
                tags = run.data.tags
                if RUN_HASH in tags:
                    key = (*(tags.get(name) for name in IDENTITY), tags.get(VARIANT))
                    known[key].append(run)
        return known

    def _end_what_nobody_trains(self, experiment: Experiment) -> int:
        """Also what is neither in progress nor named any more; returns how many runs these are."""
        failed = 0
        for run in list(experiment.runs("attributes.status = 'RUNNING'")):
            address = run.data.tags.get(RUN_HASH)
            if address and not is_held(lease_path(self._store.work(address))):
                experiment.client.set_terminated(run.info.run_id, "FAILED")
                failed += 1
        return failed

    def _own(self, run: RunFolder) -> RunFolder:
        """The run with the title and the teacher that the study gives its method."""
        assert run.called is not None
        row = self._methods.get(run.called[2])
        names = {"title": row.title, "teacher": row.teacher} if row else {}
        return replace(run, method=names)


@contextmanager
def only_tracker(study_folder: Path, wait: bool = False) -> Iterator[bool]:
    """Whether this process is the study's only tracker now; on a file system without locks: yes.

    `wait`: until the one before it has ended, as that of a workflow that was killed does.
    """
    with (study_folder / LOCK).open("w") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except (BlockingIOError, PermissionError):
            yield False
            return
        except OSError:
            pass
        yield True


def watch(tracker: Tracker, owner: int, interval: float = 5.0, patience: float = 50.0) -> bool:
    """Track a study until the process `owner` has ended, or SIGTERM came; then once more.

    SIGTERM is to be blocked (`signal.pthread_sigmask`), so that none is lost or cuts a pass short.
    What goes wrong is one warning, and is tried again. Returns whether MLflow has everything in the
    end, which is waited for at most `patience` seconds.
    """
    began = started(owner)
    told = warned = False
    give_up: float | None = None
    while True:
        last = told or began is None or started(owner) != began
        if last and give_up is None:
            give_up = time.monotonic() + patience
        try:
            done = tracker.sync(last)
            if last:
                logger.warning("%s", done)
                return not done.faults
        except Exception as error:  # whatever it is, the study goes on
            if give_up is not None and time.monotonic() > give_up:
                later = "make sync-tracking does it later"
                logger.warning("%s; %s", complaint(tracker.uri, error), later)
                return False
            if not warned:
                warned = True
                logger.warning("%s; tried again", complaint(tracker.uri, error))
        if last:
            time.sleep(min(interval, 1.0))
        elif signal.sigtimedwait({signal.SIGTERM}, interval):
            told = True
