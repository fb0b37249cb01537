"""The rows and tokens of a study's tasks, as its runs need them."""

from pathlib import Path

from acl_bert.config.study import Study
from acl_bert.data.prepare import is_prepared, prepare
from acl_bert.data.tokens import is_tokenised, tokenise
from acl_bert.encoders import encoder_fingerprint, resolve_path
from acl_bert.runs.files import data_path, tokens_path


def prepare_task(study: Study, folder: Path, task: str) -> None:
    """Read, check, limit and split the rows of a task into the study's folder."""
    spec = study.task_spec(task)
    prepare(spec, study.source, study.selection, data_path(folder, task))


def tokenise_task(study: Study, folder: Path, task: str, encoder: str) -> None:
    """Tokenise the prepared rows of a task."""
    settings = study.encoder(encoder)
    tokenise(
        data_path(folder, task),
        resolve_path(settings.path),
        settings.revision,
        study.training_of(task).max_length,
        tokens_path(folder, task, encoder),
        encoder=encoder,
        encoder_fingerprint=encoder_fingerprint(settings.path, settings.revision),
    )


def bring_up_to_date(study: Study, folder: Path, task: str, encoder: str) -> None:
    """Prepare and tokenise where something is missing or changed; all rows and weights are read."""
    settings = study.encoder(encoder)
    data, tokens = data_path(folder, task), tokens_path(folder, task, encoder)
    if not is_prepared(study.task_spec(task), study.source, study.selection, data):
        prepare_task(study, folder, task)
    fingerprint = encoder_fingerprint(settings.path, settings.revision)
    if not is_tokenised(data, study.training_of(task).max_length, tokens, fingerprint):
        tokenise_task(study, folder, task, encoder)
