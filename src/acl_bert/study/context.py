"""A study with its folder, its finished runs and its results, each read once, when first needed."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from acl_bert.config.run_settings import RunSettings
from acl_bert.config.study import load_study
from acl_bert.errors import InputError
from acl_bert.runs.files import RunFolder, RunKey, name_path
from acl_bert.runs.store import Store, key_of, read_name
from acl_bert.study.layout import Layout, study_layout

if TYPE_CHECKING:
    from acl_bert.study.results import Results


class StudyContext:
    """The study of a config file, and what lies in its folder in `results`."""

    def __init__(self, config: Path, results: Path) -> None:
        self.study = load_study(config)
        self.folder = results / self.study.name
        self.store = Store.beside(self.folder)

    @cached_property
    def layout(self) -> Layout:
        """Raises InputError where a task is not prepared yet."""
        return study_layout(self.study, self.folder)

    @cached_property
    def results(self) -> Results:
        """What was collected from the runs; raises InputError as `read_results` does."""
        from acl_bert.study.results import read_results

        return read_results(self.folder, self.layout)

    @cached_property
    def finished(self) -> dict[RunKey, RunFolder]:
        """The finished runs whose files are whole and whose settings are those of the study."""
        return {
            run: self.store.named(name)
            for run, name in self._names.items()
            if name.is_file() and run not in self.left_out
        }

    @cached_property
    def left_out(self) -> dict[RunKey, str]:
        """The other finished runs, and why each is left out of tables and figures."""
        return {
            run: fault
            for run, name in self._names.items()
            if name.is_file() and (fault := self._fault(name, run))
        }

    def runs(
        self, methods: Container[str] | None = None, complete: bool = False
    ) -> list[RunFolder]:
        """The finished runs of some methods, or of all.

        `complete`: all runs of the study, with the digests of their files checked. Raises
        InputError where one is missing or damaged.
        """
        names = {
            run: name for run, name in self._names.items() if methods is None or run[2] in methods
        }
        if complete:
            return [self.store.named(name, contents=True) for name in names.values()]
        return [self.finished[run] for run in names if run in self.finished]

    @cached_property
    def _names(self) -> dict[RunKey, Path]:
        return {run: name_path(self.folder, *run) for run in self.study.cells()}

    def _fault(self, name: Path, run: RunKey) -> str | None:
        """What is wrong with a finished run, as far as tables and figures read its files."""
        method = run[2]
        try:
            files = self.store.named(name)
            files.metrics()
            files.timings()
            if changed := self._changed_settings(files, name, run):
                return f"{name}: trained with another {' and '.join(changed)}"
            if method in self.layout.multi_exit:
                files.dev_logits()
            if method in self.layout.observing and not files.history():
                return f"{files.history_path}: has no steps"
            if method in self.layout.clustered:
                files.representations()
        except InputError as error:
            return str(error)
        return None

    def _changed_settings(self, files: RunFolder, name: Path, run: RunKey) -> list[str]:
        """The settings of a finished run that differ from those of the study now."""
        config = files.config()
        try:
            # A key that is newer than the run has its default.
            given = RunSettings.model_validate({n: config.get(n) for n in RunSettings.model_fields})
        except ValidationError:
            return ["version of this project"]
        weight = given.method.weight if self.study.lambda_of(run[2]) else None
        wanted = self.study.run_settings(*run, weight)
        # What `auto` stands for depends on the machine.
        resolved = {key: getattr(given.training, key) for key in ("device", "precision")}
        training = wanted.training.model_copy(update=resolved)
        before = given.determinants()
        after = wanted.model_copy(update={"training": training}).determinants()
        changed = [key for key in after if after[key] != before[key]]
        teacher, trained_by = wanted.method.teacher, files.metrics().get("teacher")
        if teacher and trained_by:
            now = name_path(self.folder, *run[:2], teacher, run[3])
            if now.is_file() and key_of(read_name(now)["run"]) != key_of(trained_by):
                changed.append("teacher")
        return changed
