"""What of the store no study needs any more: models, teacher outputs, damaged and old work."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.runs.code import running_code
from acl_bert.runs.files import find_names, lease_path, name_path, tuning_name_path, tuning_path
from acl_bert.runs.lease import is_held
from acl_bert.runs.store import STORE, Store, address_of, key_of, read_name

STUDY_FILE = "config.yaml"


def prunable(results: Path, unnamed_runs: bool = False) -> list[Path]:
    """The folders of the store in `results` that may go, but for what a live process holds.

    These are the heavy parts that no study there keeps or has students to come for, damaged runs,
    and unfinished runs of other code than the present one. `unnamed_runs`: also the finished runs
    that no study there names. Raises InputError where a study's file cannot be read, since nobody
    knows then what it needs.
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
    code = running_code().digest
    heavy, work, damaged = (
        sorted((store.root / name).glob("[!.]*")) for name in ("heavy", "work", "damaged")
    )
    folders = [
        each
        for each in heavy
        if each.name not in needed and not is_held(lease_path(store.teacher_outputs(each.name)))
    ]
    folders += [
        each
        for each in work
        if each.name != address_of(key_of(each.name), code) and not is_held(lease_path(each))
    ]
    folders += damaged
    if unnamed_runs:
        folders += [store.run(each).path for each in store.addresses() if each not in named]
    return folders


def prune_teachers(
    study: Study, folder: Path, task: str, encoder: str, method: str, seed: int
) -> None:
    """After a run of a study that keeps no models: drop those whose last student it was."""
    for teacher in (method, study.method_row(method).teacher):
        if teacher is None or not study.is_teacher(teacher, encoder):
            continue
        run = (task, encoder, teacher, seed)
        if any(not name.is_file() for name in _students(study, folder, *run)):
            continue
        heavy = {
            Store.beside(folder).root / "heavy" / address
            for address in _addresses([name_path(folder, *run)])
        }
        if any(path.exists() for path in heavy):
            for path in heavy.intersection(prunable(folder.parent)):
                shutil.rmtree(path, ignore_errors=True)


def _needed_by(study: Study, folder: Path) -> Iterator[str]:
    """Addresses of the runs whose models the study keeps, or has students to come for."""
    for run in dict.fromkeys((*study.cells(), *study.teachers_of_tuning())):
        _, encoder, method, _ = run
        kept = study.keeps_model(method, encoder)
        if kept or any(not name.is_file() for name in _students(study, folder, *run)):
            yield from _addresses([name_path(folder, *run)])


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


def _addresses(names: Iterable[Path]) -> Iterator[str]:
    return (read_name(name)["run"] for name in names if name.is_file())
