"""The runs of a study: its own, and those that λ is chosen from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from acl_bert.config.study import RunSettings, Study
from acl_bert.runs.files import name_path, tuning_name_path, tuning_path


@dataclass(frozen=True)
class Run:
    task: str
    encoder: str
    method: str
    seed: int
    weight: float | None = None
    """The λ that a tuning run tries."""

    @classmethod
    def of_wildcards(cls, wildcards: Mapping[str, str]) -> "Run":
        """The run that a job of the workflow trains."""
        weight = wildcards.get("weight")
        return cls(
            task=wildcards["task"],
            encoder=wildcards["encoder"],
            method=wildcards["method"],
            seed=int(wildcards["seed"]),
            weight=None if weight is None else float(weight),
        )

    @property
    def configuration(self) -> tuple[str, str, str]:
        return self.task, self.encoder, self.method

    def path(self, folder: Path) -> Path:
        """The small file in the study's folder that names the run once it is finished."""
        if self.weight is None:
            return name_path(folder, *self.configuration, self.seed)
        return tuning_name_path(tuning_path(folder, *self.configuration), self.weight, self.seed)

    def settings(self, study: Study) -> RunSettings:
        return study.run_settings(*self.configuration, self.seed, self.weight)

    def of_first_seed(self, study: Study) -> "Run":
        """The run that stands for all that differ from this one in nothing but their seed."""
        seeds = study.tuning.seeds if study.is_tuning_seed(self.seed) else study.seeds
        return Run(*self.configuration, seeds[0], self.weight)


def planned_runs(study: Study) -> Iterator[Run]:
    """Every run of the study, its tuning, and the teachers of its tuning, once."""
    for cell in dict.fromkeys((*study.cells(), *study.teachers_of_tuning())):
        yield Run(*cell)
    for task, encoder, method, weight, seed in study.tuning_cells():
        yield Run(task, encoder, method, seed, weight)
