"""Runs of the tiny task on the tiny encoder, which conftest.py makes."""

from collections.abc import Callable
from pathlib import Path

from acl_bert.config.method import Method, known_methods
from acl_bert.config.study import Encoder, RunSettings
from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.runs.code import Code, running_code
from acl_bert.runs.files import RunFolder
from acl_bert.runs.store import Store
from acl_bert.training.hardware import resolve_settings
from acl_bert.training.jobs import Job
from acl_bert.training.obtain import Trainer


def tiny_settings(method: str | Method, training: Training, seed: int = 1) -> RunSettings:
    """`method`: the id of a row of methods.yaml, or a row of its own, named by its title."""
    method_id, row = (
        (method, known_methods()[method]) if isinstance(method, str) else (method.title, method)
    )
    return RunSettings(
        task="tiny",
        encoder="tiny",
        method_id=method_id,
        seed=seed,
        selection_metric="accuracy",
        method=row,
        training=training,
    )


def quiet(line: str) -> None:
    pass


def tiny_job(
    settings: RunSettings,
    encoder: Path,
    tokens: Path,
    teacher: Job | None = None,
    keep_model: bool = False,
) -> Job:
    return Job(
        resolve_settings(settings),
        Encoder(path=str(encoder)),
        TokenStore(tokens),
        teacher,
        keep_model,
    )


def train_run(
    settings: RunSettings,
    encoder: Path,
    tokens: Path,
    store: Path,
    teacher: Job | None = None,
    keep_model: bool = False,
    minutes: float = 10.0,
    report: Callable[[str], None] = quiet,
    code: Code | None = None,
) -> RunFolder:
    """Train a run into the store in a folder, as the command does, where it is not there yet."""
    job = tiny_job(settings, encoder, tokens, teacher, keep_model)
    trainer = Trainer(Store(store), minutes=minutes, report=report, code=code or running_code())
    return trainer.store.run(trainer.obtain(job, with_model=keep_model))


def model_of(run: RunFolder) -> Path:
    """Where the model of a run in the store is."""
    return Store(run.path.parent).model(run.path.name)
