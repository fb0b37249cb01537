"""What of the store's heavy parts nobody needs any more: models, and what students read of them."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.runs.files import find_names, lease_path, name_path, tuning_name_path, tuning_path
from acl_bert.runs.lease import is_held
from acl_bert.runs.store import STORE, Store, read_name

STUDY_FILE = "config.yaml"


@dataclass(frozen=True)
class Prunable:
    """Folders that may go, and their bytes."""

    folders: list[Path]
    bytes: int

    def remove(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def prunable(results: Path, unnamed_runs: bool = False) -> Prunable:
    """The heavy parts that no study in the folder `results` keeps, nor has students to come for.

    `unnamed_runs`: also the finished runs that no study there names. Raises InputError where a
    study's file cannot be read, since nobody knows then what it needs.
    """
    store = Store(results / STORE)
    needed: set[str] = set()
    named: set[str] = set()
    for folder in sorted(results.glob("*/")):
        own = {each for tuning in (False, True) for each in _addresses(find_names(folder, tuning))}
        named |= own
        if not (file := folder / STUDY_FILE).is_file():
            needed |= own  # of a study whose runs were started by hand
            continue
        try:
            needed |= set(_needed_by(load_study(file), folder))
        except InputError as error:
            raise InputError(
                f"{error}\nWhat this study needs cannot be told: mend or remove its folder first"
            ) from error
    folders = [
        store.root / "heavy" / address
        for address in store.heavy_addresses()
        if address not in needed and not is_held(lease_path(store.teacher_outputs(address)))
    ]
    if unnamed_runs:
        folders += [store.run(each).path for each in store.addresses() if each not in named]
    sizes = (path.stat().st_size for each in folders for path in each.rglob("*") if path.is_file())
    return Prunable(folders, sum(sizes))


def prune_teachers(
    study: Study, folder: Path, task: str, encoder: str, method: str, seed: int
) -> None:
    """After a run of a study that keeps no models: drop those whose last student it was."""
    for teacher in (method, study.method_row(method).teacher):
        if teacher is None or not study.is_teacher(teacher, encoder):
            continue
        cell = (task, encoder, teacher, seed)
        if any(not name.is_file() for name in _students(study, folder, *cell)):
            continue
        heavy = {
            Store.beside(folder).root / "heavy" / address
            for address in _addresses([name_path(folder, *cell)])
        }
        if any(path.exists() for path in heavy):
            found = prunable(folder.parent)
            Prunable([path for path in found.folders if path in heavy], 0).remove()


def _needed_by(study: Study, folder: Path) -> Iterator[str]:
    """Addresses of the runs whose models the study keeps, or has students to come for."""
    runs = dict.fromkeys((*study.cells(), *study.teachers_of_tuning()))
    for task, encoder, method, seed in runs:
        cell = (task, encoder, method, seed)
        kept = study.keep_models == "all" or (
            study.keep_models == "teachers" and study.is_teacher(method, encoder)
        )
        if kept or any(not name.is_file() for name in _students(study, folder, *cell)):
            yield from _addresses([name_path(folder, *cell)])


def _students(
    study: Study, folder: Path, task: str, encoder: str, teacher: str, seed: int
) -> Iterator[Path]:
    """The small files of the runs that start or learn from a run, there or to come."""
    for method in study.methods_of(task, encoder):
        if study.method_row(method).teacher != teacher:
            continue
        if seed in study.seeds:
            yield name_path(folder, task, encoder, method, seed)
        elif study.is_tuned(method):
            tuning = tuning_path(folder, task, encoder, method)
            yield from (tuning_name_path(tuning, each, seed) for each in study.tuning.lambdas)


def _addresses(names: Iterator[Path] | list[Path]) -> Iterator[str]:
    for name in names:
        if name.is_file():
            yield read_name(name)["run"]
