"""λ chosen per task, encoder and method on the selection split (paper.md, [?] table)."""

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from acl_bert.run_files import RunFolder


def choose_lambda(folder: Path, lambdas: Iterable[float], seeds: Iterable[int]) -> dict[str, Any]:
    """The λ with the best mean selection score over the tuning seeds, the smaller of equals.

    `folder` holds the tuning runs, lambda-<λ>/seed-<n>. Raises InputError where one is missing.
    """
    seeds = tuple(seeds)
    scores = {
        weight: statistics.fmean(
            RunFolder(folder / f"lambda-{weight}" / f"seed-{seed}").metrics()["selection"]["value"]
            for seed in seeds
        )
        for weight in sorted(lambdas)
    }
    best = max(scores, key=lambda weight: scores[weight])  # max() takes the first of equals
    return {"lambda": best, "seeds": seeds, "scores": {str(w): s for w, s in scores.items()}}
