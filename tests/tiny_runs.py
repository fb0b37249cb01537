"""Runs of the tiny task on the tiny encoder, which conftest.py makes."""

from collections.abc import Callable
from pathlib import Path

from acl_bert.runs.files import RunFolder
from acl_bert.settings.method import Method, method_rows
from acl_bert.settings.study import Encoder, RunSettings
from acl_bert.settings.training import Training
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training.hardware import settle
from acl_bert.training.run import finetune, open_run


def tiny_settings(method: str | Method, training: Training, seed: int = 1) -> RunSettings:
    """`method`: the id of a row of methods.yaml, or a row of its own, named by its title."""
    method_id, row = (
        (method, method_rows()[method]) if isinstance(method, str) else (method.title, method)
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


def train_run(
    settings: RunSettings,
    encoder: Path,
    tokens: Path,
    target: Path,
    teacher_run: Path | None = None,
    teacher_outputs: Path | None = None,
    study: Path | None = None,
    keep_model: bool = False,
    minutes: float = 10.0,
    report: Callable[[str], None] = quiet,
) -> RunFolder:
    """Train a run in the folder `study`, by default that of its target, as the command does."""
    settings, store, described = settle(settings), TokenStore(tokens), Encoder(path=str(encoder))
    with open_run(
        settings, described, store, study or target.parent, target, teacher_run, keep_model,
        minutes, report,
    ) as run:  # fmt: skip
        if run is not None:
            finetune(settings, described, store, run, teacher_run, teacher_outputs, report=report)
    return RunFolder(target)
