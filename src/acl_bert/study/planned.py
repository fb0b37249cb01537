"""The runs of a study, where they lie, and what is known of one from the others.

They are the study's own, and those that a λ is chosen from.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from acl_bert.config.study import Study
from acl_bert.runs.files import name_path, tuning_name_path, tuning_path


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
        """The small file that names it once it is finished."""
        if self.weight is None:
            return name_path(folder, *self.cell, self.seed)
        return tuning_name_path(tuning_path(folder, *self.cell), self.weight, self.seed)


def planned_runs(study: Study) -> Iterator[Run]:
    """Every run of the study, its tuning, and the teachers of its tuning, once."""
    for cell in dict.fromkeys((*study.cells(), *study.teachers_of_tuning())):
        yield Run(*cell)
    for task, encoder, method, weight, seed in study.tuning_cells():
        yield Run(task, encoder, method, seed, weight)


def runs_of(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> list[Run]:
    """The runs that some of the workflow's jobs train; a job is its rule and its wildcards."""
    return [
        Run(
            task=given["task"],
            encoder=given["encoder"],
            method=given["method"],
            seed=int(given["seed"]),
            weight=float(given["weight"]) if rule == "tuning_run" else None,
        )
        for rule, given in jobs
        if rule in ("finetune", "tuning_run")
    ]


class Nearest:
    """What is to be expected of a run by the finished ones that are nearest to it.

    Those of its own task, encoder and method, else of its task and encoder, else of its encoder,
    else all; `summary` makes one value of theirs.
    """

    def __init__(
        self, known: Iterable[tuple[Run, float]], summary: Callable[[list[float]], float]
    ) -> None:
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for run, value in known:
            for key in self._keys(run):
                found[key].append(value)
        self._values = {key: summary(values) for key, values in found.items()}

    @staticmethod
    def _keys(run: Run) -> tuple[tuple[str, ...], ...]:
        return run.cell, run.cell[:2], run.cell[1:2], ()

    def __call__(self, run: Run, unknown: float) -> float:
        """`unknown` where no run is finished."""
        return next((self._values[key] for key in self._keys(run) if key in self._values), unknown)
