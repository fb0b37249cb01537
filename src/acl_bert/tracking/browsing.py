"""What a run is called and tagged in MLflow, and which columns its page opens with."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

# The mirror's own tags: whose files a run shows, and how many of their rows it has.
RUN_HASH = "acl.run_hash"
STEPS = "acl.mirrored_steps"
EPOCH_ROWS = "acl.mirrored_epochs"
DIGEST = "acl.digest"  # of the finished run's manifest
VARIANT = "acl.variant"  # `lambda-<λ>` for a run that tries a λ
TEACHER = "acl.teacher_hash"  # the run hash of the run that came first

DEV_SCORE = "dev/score"
"""The task's selection metric on dev, a fraction: one column for tasks of different metrics."""

IDENTITY = ("task", "encoder", "method", "seed")

# What the page of the runs shows beside their names, as MLflow calls it, and how wide in pixels.
COLUMNS = {
    "attributes.`Run Name`": 230,
    "tags.`task`": 70,
    "tags.`method`": 90,
    "tags.`encoder`": 90,
    "tags.`seed`": 60,
    f"metrics.`{DEV_SCORE}`": 90,
    "tags.`kind`": 80,
}
# A view that MLflow keeps with the experiment, for all who open a link that names it.
_VIEW = "training-runs"


def experiment_tags() -> dict[str, str]:
    """The first makes MLflow open the training runs: it takes any other for a GenAI project."""
    view = {
        "selectedColumns": list(COLUMNS),
        "columnOrder": list(COLUMNS),
        "columnWidths": COLUMNS,
    }
    return {
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{_VIEW}": json.dumps(view),
    }


def runs_page(base: str, experiment_id: str) -> str:
    """The address of an experiment's training runs under COLUMNS; `base`: that of the server."""
    return f"{base}/{_page(experiment_id)}&viewStateShareKey={_VIEW}"


def identity_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The tags that say which run of a study this is, with `acl.variant` where it has one."""
    values = (config["task"], config["encoder"], config["method_id"], str(config["seed"]))
    return dict(zip(IDENTITY, values, strict=True))


def run_name(identity: Mapping[str, str], variant: str | None = None) -> str:
    """Such as `rte · acl · bert · seed 3`, and `rte · acl · bert · λ 0.1 · seed 101`."""
    parts = [identity["task"], identity["method"], identity["encoder"]]
    if variant:
        parts.append(variant.replace("lambda-", "λ "))
    return " · ".join([*parts, f"seed {identity['seed']}"])


def describing_tags(
    config: Mapping[str, Any], variant: str | None, experiment_id: str
) -> dict[str, str]:
    """What groups and explains a run: known when it starts.

    `kind`: `run`; `tuning`, which tries a λ, the tag `lambda`; or `variant`, the method
    `base_method` with a few keys changed for an analysis. A student's tags name its teacher, and
    its description links to it.
    """
    identity, method = identity_of(config), config["method"]
    base, _, changed = identity["method"].partition("@")
    tags = {
        "kind": "tuning" if variant else "variant" if changed else "run",
        "base_method": base,
        "title": method["title"],
    }
    if variant:
        tags["lambda"] = variant.removeprefix("lambda-")
    sentences = [f"{method['title']} on {identity['task']} with {identity['encoder']}."]
    if teacher := config.get("teacher_run"):
        name = run_name(identity | {"method": method["teacher"]})
        tags |= {TEACHER: teacher, "teacher": name}
        page = _found_by(experiment_id, RUN_HASH, teacher)
        sentences.append(f"It learns from [{name}]({page}).")
    if metric := config.get("selection_metric"):
        sentences.append(f"`{DEV_SCORE}` is its {metric}.")
    return tags | {"mlflow.note.content": " ".join(sentences)}


def _found_by(experiment_id: str, tag: str, value: str) -> str:
    """The page of the runs that have the tag: it stays right when a run is mirrored anew."""
    query = quote(f"tags.`{tag}` = '{value}'")
    return f"{_page(experiment_id)}&searchFilter={query}"


def _page(experiment_id: str) -> str:
    return f"#/experiments/{experiment_id}/runs?workflowType=machine_learning"
