"""The runs of a study, and where they lie: the study's own, and those that a λ is chosen from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acl_bert.run_files import run_path, tuning_path, tuning_run_path
from acl_bert.settings.study import Study


@dataclass(frozen=True)
class Run:
    task: str
    encoder: str
    method: str
    seed: int
    weight: float | None = None
    """The λ that a tuning run tries."""

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.task, self.encoder, self.method

    def path(self, folder: Path) -> Path:
        """Its folder in the study's."""
        if self.weight is None:
            return run_path(folder, *self.cell, self.seed)
        return tuning_run_path(tuning_path(folder, *self.cell), self.weight, self.seed)


def planned_runs(study: Study) -> Iterator[Run]:
    """Every run of the study, its tuning, and the teachers of its tuning, once."""
    for cell in dict.fromkeys((*study.cells(), *study.teachers_of_tuning())):
        yield Run(*cell)
    for task, encoder, method, weight, seed in study.tuning_cells():
        yield Run(task, encoder, method, seed, weight)
