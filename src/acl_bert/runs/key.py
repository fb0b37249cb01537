"""What determines a run's numbers: runs of equal keys are one run, in any study."""

from collections.abc import Mapping
from typing import Any

from acl_bert.config.study import RunSettings
from acl_bert.files import canonical_hash


def run_key(
    settings: RunSettings, tokens: Mapping[str, Any], teacher_key: str | None, score_dev: bool
) -> dict[str, Any]:
    """The key, as JSON; two keys printed side by side explain why a run is trained again.

    `settings`: resolved, so that device and precision are those of this machine. `tokens`: the
    content of tokens.json. `teacher_key`: the hash of the key of the run that comes first.
    `score_dev`: a run that tries a λ lacks what a teacher with the same settings has.
    """
    task = tokens["task"]
    return {
        "data": task["fingerprint"],
        "tokens": tokens["fingerprint"],
        "encoder": tokens["encoder_fingerprint"],
        "metrics": task["metrics"],
        "dev_sets": task["dev_sets"],
        "score_dev": score_dev,
        "teacher": teacher_key,
        **settings.determinants(),
    }


def key_hash(key: Mapping[str, Any]) -> str:
    return canonical_hash(key)
