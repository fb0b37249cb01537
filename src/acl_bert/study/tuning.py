"""λ chosen per task, encoder and method on the selection split (docs/paper.md §2.8)."""

import statistics
from collections.abc import Iterable
from pathlib import Path

from acl_bert.files import write_json
from acl_bert.runs.files import LAMBDA, LAMBDA_SCORES, tuning_name_path
from acl_bert.runs.store import Store


def choose_lambda(
    store: Store, folder: Path, lambdas: Iterable[float], seeds: Iterable[int]
) -> float:
    """The λ with the best mean selection score over the tuning seeds; the smaller of equals.

    `folder` has the names of the tuning runs. Writes lambda.json there, which holds the choice
    alone so that a wider grid with the same winner repeats no run, and scores.json. Raises
    InputError where a run is missing.
    """
    seeds = tuple(seeds)
    scores = {
        weight: statistics.fmean(
            store.named(tuning_name_path(folder, weight, seed)).metrics()["selection"]["value"]
            for seed in seeds
        )
        for weight in sorted(lambdas)
    }
    best = max(scores, key=lambda weight: scores[weight])  # max() takes the first of equals
    write_json(
        folder / LAMBDA_SCORES, {"seeds": seeds, "scores": {str(w): scores[w] for w in scores}}
    )
    write_json(folder / LAMBDA, {"lambda": best})
    return best
