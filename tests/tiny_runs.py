"""Settings of runs of the tiny task on the tiny encoder, which conftest.py makes."""

from acl_bert.settings.method import Method, method_rows
from acl_bert.settings.study import RunSettings
from acl_bert.settings.training import Training


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
