"""The jobs of a study: each of its runs with its settings, its tokens, and the run before it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from acl_bert.config.study import Encoder, RunSettings, Study
from acl_bert.data.tokens import TokenStore
from acl_bert.runs.files import chosen_lambda, name_path, tokens_path, tuning_name_path, tuning_path
from acl_bert.runs.key import key_hash, run_key
from acl_bert.training.hardware import resolve_settings


@dataclass(frozen=True)
class Job:
    """A run that is wanted, and the run that comes first."""

    settings: RunSettings
    """Resolved: device and precision are those of this machine."""
    encoder: Encoder
    tokens: TokenStore
    teacher: "Job | None" = None
    """There where the method has a teacher."""
    saves_model: bool = False
    """Whether training leaves the model in the store, for students or for whoever asked for it."""
    name: Path | None = None
    """The study's small file that is to name the run."""
    score_dev: bool = True
    """False for a run that tries a λ, which must not use dev."""

    @cached_property
    def key(self) -> dict[str, Any]:
        teacher = self.teacher.key_hash if self.teacher else None
        return run_key(self.settings, self.tokens.description, teacher, self.score_dev)

    @cached_property
    def key_hash(self) -> str:
        return key_hash(self.key)


def study_job(
    study: Study,
    folder: Path,
    task: str,
    encoder: str,
    method: str,
    seed: int,
    weight: float | None = None,
    tuning: bool = False,
) -> Job:
    """A run of the study in `folder`, whose tokens are there.

    `weight`: a λ in place of the study's; a run that has one is named only where it is a `tuning`
    run, which tries that λ. Raises InputError where a λ is still to be chosen.
    """
    configuration = (task, encoder, method)
    name: Path | None = name_path(folder, *configuration, seed)
    if weight is not None:
        tried = tuning_name_path(tuning_path(folder, *configuration), weight, seed)
        name = tried if tuning else None
    elif tuned := study.lambda_of(method):
        weight = chosen_lambda(tuning_path(folder, task, encoder, tuned))
    settings = resolve_settings(study.run_settings(*configuration, seed, weight))
    teacher = settings.method.teacher
    return Job(
        settings,
        study.encoder(encoder),
        TokenStore(tokens_path(folder, task, encoder)),
        teacher=study_job(study, folder, task, encoder, teacher, seed) if teacher else None,
        saves_model=not tuning and study.saves_model(method, encoder),
        name=name if tuning or study.has_run(*configuration, seed) else None,
        score_dev=not tuning,
    )
