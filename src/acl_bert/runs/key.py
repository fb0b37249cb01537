"""What determines a run's numbers, and nothing else: runs of one key are one run, in any study."""

from collections.abc import Mapping
from typing import Any

from acl_bert.files import canonical_hash
from acl_bert.settings.study import RunSettings

# Of a method's row: how it is called, and what the run's training has of it already; its teacher
# is told by the teacher's own key.
_NOT_NUMBERS = {"title", "training", "teacher"}


def run_key(
    settings: RunSettings, tokens: Mapping[str, Any], teacher_key: str | None
) -> dict[str, Any]:
    """The key, as JSON; two keys printed side by side explain why a run is trained again.

    `settings`: settled, so that device and precision are those of this machine. `tokens`: the
    content of tokens.json. `teacher_key`: the hash of the key of the run that comes first. Not the
    names that a study gives to its task, encoder and method.
    """
    task = tokens["task"]
    return {
        "data": task["fingerprint"],
        "tokens": tokens["fingerprint"],
        "encoder": tokens["encoder_fingerprint"],
        "metrics": task["metrics"],
        "dev_sets": task["dev_sets"],
        "selection_metric": settings.selection_metric,
        "method": settings.method.model_dump(by_alias=True, exclude=_NOT_NUMBERS)
        | {"has_teacher": settings.method.teacher is not None},
        "training": settings.training.model_dump(),
        "train_rows": settings.train_rows,
        "seed": settings.seed,
        "teacher": teacher_key,
    }


def key_hash(key: Mapping[str, Any]) -> str:
    return canonical_hash(key)
