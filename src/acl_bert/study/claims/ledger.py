"""The claims ledger: a row of numbers for each part of each claim, and each claim's verdict.

A part has one of five verdicts:

- *not run*: the study lacks a run, task or encoder that the part compares;
- *stand-in*: a task's rows, a method or the encoder are not the paper's, so that the numbers stand
  in the ledger and say nothing on the paper;
- *contradicted*: the interval lies on the wrong side of the margin, and p < ALPHA that way;
- *supported*: the interval lies on the right side of the margin, and p < ALPHA after Holm;
- *inconclusive*: all else, and always with fewer than ENOUGH_SEEDS seeds on a task.

A claim has the first of these verdicts, in this order but *inconclusive* before *supported*, that
one of its parts has. So all parts of a supported claim are supported.

Each number comes from one procedure. Interval: BCa bootstrap over seeds. p: permutation test.
Correction for the number of claims: Holm. Smallest detectable effect: the power of a t test.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import pandas as pd
from statsmodels.stats.multitest import multipletests

from acl_bert.study.claims.claims import LOG_RATIO, Claim, Part
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.pairing import Paired, pair
from acl_bert.study.claims.statistics import (
    CONFIDENCE,
    POWER,
    RESAMPLES,
    Interval,
    Side,
    TasksReached,
    interval,
)
from acl_bert.study.grids import MISSING

ALPHA = 0.05
ENOUGH_SEEDS = 5

# A claim has the first of these that one of its parts has.
Verdict = Literal["not run", "stand-in", "contradicted", "inconclusive", "supported"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

# One row a part. `effect`, `low`, `high`, `margin` and `detectable` are in `unit`, missing where
# they do not exist. `p` is the part's own; `p_adjusted` that after Holm, were its claim to rest on
# it alone. `seeds`: the fewest of a task. `verdict` is the claim's, `part_verdict` the part's.
LEDGER_COLUMNS = [
    "claim",
    "part",
    "short",
    "effect",
    "low",
    "high",
    "unit",
    "margin",
    "side",
    "p",
    "p_adjusted",
    "detectable",
    "seeds",
    "tasks",
    "part_verdict",
    "verdict",
    "reason",
]

# The id of a claim and of its part.
Key = tuple[str, str]


@dataclass(frozen=True)
class Estimate:
    """A part's number, as far as its pairs give one, else NaN.

    `p`, `p_against` and `smallest_p` are those of Statistic; `p_against` is there where the
    interval is on the other side of the margin. `seeds` are each task's; `reached` is on how many
    tasks the margin is, where they are counted.
    """

    effect: float = math.nan
    bounds: Interval = Interval()
    p: float = math.nan
    p_against: float = math.nan
    smallest_p: float = math.nan
    seeds: tuple[int, ...] = ()
    reached: int | None = None

    @property
    def fewest(self) -> int:
        return min(self.seeds, default=0)


def estimate(part: Part, paired: Paired, resamples: int = RESAMPLES) -> Estimate:
    tasks, seeds = paired.tasks, tuple(paired.seeds)
    statistic = part.make_statistic()
    if not tasks or min(seeds) < statistic.seeds_needed:
        return Estimate(seeds=seeds)
    bounds = interval(lambda places: statistic.at(tasks, places), seeds, resamples)
    asked = (tasks, part.margin, part.side, resamples)
    return Estimate(
        float(statistic.of(tasks)),
        bounds,
        statistic.p_value(*asked),
        statistic.p_against(*asked) if _lies(part, bounds) == "short" else math.nan,
        statistic.smallest_p(tasks, resamples),
        seeds,
        statistic.reached(tasks, part.margin) if isinstance(statistic, TasksReached) else None,
    )


def _lies(part: Part, bounds: Interval) -> Literal["beyond", "across", "short"]:
    """Where the interval is, as seen from the margin."""
    above, below = bounds.low > part.margin, bounds.high < part.margin
    if not (above or below):
        return "across"
    return "beyond" if above == (part.side == "above") else "short"


@dataclass(frozen=True)
class Adjusted:
    """p and p_against of an Estimate, after Holm."""

    p: float
    p_against: float


def holm(found: Mapping[Key, Estimate], of: Iterable[Key]) -> dict[Key, Adjusted]:
    """Adjusted p of some parts, by Holm over all that were tested; NaN for what was not.

    A claim's p is the largest of its parts' (intersection-union), and Holm is over the claims. A
    part's adjusted p is the one that its claim would have if it rested on that part alone; so the
    largest is the claim's. One part alone contradicts a claim: there, Holm is over the parts.
    """
    claims: dict[str, float] = {}
    for (claim, _), made in found.items():
        if not math.isnan(made.p):
            claims[claim] = max(made.p, claims.get(claim, 0.0))
    adjusted = {}
    for key in of:
        others = [p for claim, p in claims.items() if claim != key[0]]
        against = [
            1.0 if math.isnan(made.p_against) else made.p_against
            for other, made in found.items()
            if other != key and not math.isnan(made.p)
        ]
        adjusted[key] = Adjusted(
            _holm_p(found[key].p, tuple(sorted(others))),
            _holm_p(found[key].p_against, tuple(sorted(against))),
        )
    return adjusted


@cache  # every call of the library's function collects all garbage, which takes its time
def _holm_p(p: float, others: tuple[float, ...]) -> float:
    return p if math.isnan(p) else float(multipletests([p, *others], method="holm")[1][0])


def verdict_on(part: Part, found: Estimate, adjusted: Adjusted) -> tuple[Verdict, str]:
    """What the numbers say, whatever they were measured on; and why."""
    margin = number(part.margin, part.unit)
    if found.fewest < ENOUGH_SEEDS:
        return "inconclusive", f"{found.fewest} of the {ENOUGH_SEEDS} seeds that a verdict needs"
    if math.isinf(found.effect):
        return "inconclusive", "one side does not vary: no ratio"
    if math.isnan(found.bounds.low):
        return "inconclusive", "no spread between the seeds: the BCa interval is undefined"
    match _lies(part, found.bounds):
        case "across":
            return "inconclusive", f"the interval includes {margin}"
        case "beyond" if adjusted.p < ALPHA:
            return "supported", f"the interval excludes {margin}, p < {ALPHA:g}"
        case "beyond":
            return "inconclusive", f"the interval excludes {margin}, but p ≥ {ALPHA:g} after Holm"
        case "short" if adjusted.p_against < ALPHA:
            return (
                "contradicted",
                f"the interval is on the other side of {margin}, p < {ALPHA:g} that way",
            )
    return (
        "inconclusive",
        f"the interval is on the other side of {margin}, but p ≥ {ALPHA:g} that way",
    )


def ledger(
    claims: Mapping[str, Claim], evidence: Evidence, resamples: int = RESAMPLES
) -> pd.DataFrame:
    """One row of LEDGER_COLUMNS a part, in the order of `claims`."""
    parts = parts_of(claims)
    pairs = {key: pair(part, evidence) for key, part in parts.items()}
    found = {key: estimate(part, pairs[key], resamples) for key, part in parts.items()}
    adjusted = holm(found, found)
    level = ALPHA / max(
        1, len({claim for (claim, _), made in found.items() if not math.isnan(made.p)})
    )
    judged = {key: _judge(parts[key], pairs[key], found[key], adjusted[key]) for key in parts}
    rows = []
    for key, part in parts.items():
        made, (verdict, reason) = found[key], judged[key]
        smallest, unreachable = _smallest_effect(part, made, level)
        rows.append(
            (
                *key,
                part.short,
                made.effect,
                made.bounds.low,
                made.bounds.high,
                part.unit,
                part.margin,
                part.side,
                made.p,
                adjusted[key].p,
                smallest,
                made.fewest,
                len(made.seeds),
                verdict,
                min((judged[k][0] for k in parts if k[0] == key[0]), key=VERDICTS.index),
                "; ".join(filter(None, [_reached(part, made), *reason, unreachable])),
            )
        )
    return pd.DataFrame(rows, columns=pd.Index(LEDGER_COLUMNS))


def parts_of(claims: Mapping[str, Claim]) -> dict[Key, Part]:
    return {
        (name, key): part for name, claim in claims.items() for key, part in claim.parts.items()
    }


def _judge(
    part: Part, paired: Paired, found: Estimate, adjusted: Adjusted
) -> tuple[Verdict, list[str]]:
    if not paired.scores:
        return "not run", list(paired.missing)
    verdict, reason = verdict_on(part, found, adjusted)
    if paired.stand_ins:
        return "stand-in", [*paired.stand_ins, *paired.missing, *paired.fewer]
    if paired.missing:
        return "not run", [*paired.missing, *paired.fewer]
    return verdict, [reason, *paired.fewer]


def _smallest_effect(part: Part, found: Estimate, level: float) -> tuple[float, str]:
    """The smallest effect that `level` would have found with POWER; or why there is none."""
    if found.smallest_p > level:
        return math.nan, f"with so few runs p is never below {found.smallest_p:.2g}"
    beyond = part.make_statistic().detectable(found.bounds.error, found.seeds, level)
    return part.margin + (beyond if part.side == "above" else -beyond), ""


def _reached(part: Part, found: Estimate) -> str:
    if found.reached is None:
        return ""
    margin = number(part.margin, part.unit)
    return f"not below {margin} on {found.reached} of {len(found.seeds)} tasks"


LEDGER_NOTES = [
    "Effect: ours less theirs, paired by task and seed; interval: BCa bootstrap over seeds, "
    "stratified over tasks; p: one-sided, by swapping the two sides of pairs; Holm over the claims "
    "that have a p.",
    f"Supported: p < {ALPHA:g} after Holm, and the interval excludes the margin; contradicted: the "
    f"interval is on the other side, and p < {ALPHA:g} that way; inconclusive: neither, or fewer "
    f"than {ENOUGH_SEEDS} seeds; not run: runs are missing; stand-in: rows or an encoder that are "
    "not the paper's, so that there is no verdict.",
    f"Detectable: the effect that a t test on all pairs would find in {POWER:.0%} of studies, at "
    "the strictest level of Holm; a count of tasks has none.",
]
HEADINGS = [
    "claim",
    "statistic",
    "effect",
    f"{CONFIDENCE:.0%} interval",
    "holds",
    "p",
    "p, Holm",
    f"detectable at {POWER:.0%}",
    "seeds × tasks",
    "part",
    "verdict",
    "why",
]


def ledger_rows(table: pd.DataFrame, claims: Mapping[str, Claim]) -> list[list[str]]:
    """The ledger in words, a row a part under HEADINGS; a claim's first row names it."""
    rows = []
    for row in table.to_dict("records"):
        claim = claims[row["claim"]]
        first = row["part"] == next(iter(claim.parts))
        unit: str = row["unit"]
        rows.append(
            [
                f"{claim.title} ({claim.section})" if first else "",
                f"{row['short']} ({unit})",
                number(row["effect"], unit),
                bounds(row["low"], row["high"], unit),
                f"{_sign(row['side'])} {number(row['margin'], unit)}",
                _p(row["p"]),
                _p(row["p_adjusted"]),
                number(row["detectable"], unit),
                f"{row['seeds']} × {row['tasks']}",
                row["part_verdict"],
                row["verdict"] if first else "",
                row["reason"],
            ]
        )
    return rows


def _sign(side: Side) -> str:
    return ">" if side == "above" else "<"


def number(value: float, unit: str) -> str:
    """With the digits that the unit's differences between seeds are worth."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits(unit)}f}".replace("-", "−")


def digits(unit: str) -> int:
    """After the point, as many as are printed."""
    return {"degrees": 1, "percent": 1, "silhouette": 3, LOG_RATIO: 2}.get(unit, 2)


def bounds(low: float, high: float, unit: str) -> str:
    if math.isnan(low):
        return MISSING
    return f"{number(low, unit)} to {number(high, unit)}"


def _p(value: Any) -> str:
    if math.isnan(value):
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
