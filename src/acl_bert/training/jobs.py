"""The jobs of a study: each of its runs with its settings, its tokens, and the run before it."""

from pathlib import Path

from acl_bert.config.study import Study
from acl_bert.data.tokens import TokenStore
from acl_bert.runs.files import chosen_lambda, name_path, tokens_path, tuning_name_path, tuning_path
from acl_bert.training.hardware import settle
from acl_bert.training.run import Job


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
    cell = (task, encoder, method)
    name: Path | None = name_path(folder, *cell, seed)
    if weight is not None:
        tried = tuning_name_path(tuning_path(folder, *cell), weight, seed)
        name = tried if tuning else None
    elif tuned := study.lambda_of(method):
        weight = chosen_lambda(tuning_path(folder, task, encoder, tuned))
    settings = settle(study.run_settings(*cell, seed, weight))
    teacher = settings.method.teacher
    return Job(
        settings,
        study.encoder(encoder),
        TokenStore(tokens_path(folder, task, encoder)),
        teacher=study_job(study, folder, task, encoder, teacher, seed) if teacher else None,
        saves_model=not tuning and study.saves_model(method, encoder),
        name=name if tuning or study.has_run(*cell, seed) else None,
        score_dev=not tuning,
    )
