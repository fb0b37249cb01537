"""The audit of what the paper leaves open: each claim's numbers where a choice is made otherwise.

A variant's runs may be fewer than the study's, so both sides of a comparison are read on the tasks
and seeds that have both.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from acl_bert.study.claims.claims import Claim, Part
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.ledger import (
    ALPHA,
    ENOUGH_SEEDS,
    Adjusted,
    Estimate,
    Key,
    bounds,
    estimate,
    holm,
    number,
    parts_of,
    verdict_on,
)
from acl_bert.study.claims.pairing import Paired, encoder_choices, pair, pair_with
from acl_bert.study.claims.statistics import RESAMPLES, Interval, interval
from acl_bert.study.grids import MISSING
from acl_bert.study.layout import World

# One row a choice, variant and part of a claim. Effects are in `unit`, on the same tasks, encoder
# and seeds; `difference` is the variant's less the default's, with its interval. Verdicts are as if
# the runs were the paper's. `turns`: the verdict changes; `sign_turns`: the effect comes to lie on
# the other side of the margin, which tells something with few seeds too. Where nothing that a part
# compares is changed, or was run, there are no numbers and `reason` says so.
AUDIT_COLUMNS = [
    "choice",
    "title",
    "default",
    "variant",
    "claim",
    "part",
    "short",
    "unit",
    "encoder",
    "tasks",
    "seeds",
    "default_effect",
    "variant_effect",
    "difference",
    "low",
    "high",
    "default_verdict",
    "variant_verdict",
    "turns",
    "sign_turns",
    "reason",
]

UNCHANGED = "not changed by the choice"
NO_RUNS = "no run of the variant"


@dataclass(frozen=True)
class _Compared:
    default: Estimate
    variant: Estimate
    difference: Interval
    encoder: str


def audit(
    claims: Mapping[str, Claim], evidence: Evidence, resamples: int = RESAMPLES
) -> pd.DataFrame:
    """One row of AUDIT_COLUMNS a world of the layout and part, in their order.

    p are adjusted as in the ledger, with the other claims' as the study has them.
    """
    parts = parts_of(claims)
    estimates = _Estimates(resamples)
    usual = {key: estimates.of(part, pair(part, evidence)) for key, part in parts.items()}
    rows = []
    for world in evidence.layout.audit:
        compared = {
            key: made
            for key, part in parts.items()
            if (made := _compare(part, evidence, world, estimates)) is not None
        }
        as_default = _adjusted(usual, {key: made.default for key, made in compared.items()})
        as_variant = _adjusted(usual, {key: made.variant for key, made in compared.items()})
        for key, part in parts.items():
            place = (world.choice, world.title, world.default, world.variant, *key)
            known = (*place, part.short, part.unit)
            if key not in compared:
                reason = NO_RUNS if _changes(part, world) else UNCHANGED
                numbers = [math.nan] * 5
                rows.append((*known, "", 0, 0, *numbers, "", "", False, False, reason))
                continue
            made = compared[key]
            before, _ = verdict_on(part, made.default, as_default[key])
            after, reason = verdict_on(part, made.variant, as_variant[key])
            rows.append(
                (
                    *known,
                    made.encoder,
                    len(made.variant.seeds),
                    made.variant.fewest,
                    made.default.effect,
                    made.variant.effect,
                    made.variant.effect - made.default.effect,
                    made.difference.low,
                    made.difference.high,
                    before,
                    after,
                    before != after,
                    _holds(part, made.default) != _holds(part, made.variant),
                    reason,
                )
            )
    return pd.DataFrame(rows, columns=pd.Index(AUDIT_COLUMNS))


def _adjusted(usual: Mapping[Key, Estimate], found: Mapping[Key, Estimate]) -> dict[Key, Adjusted]:
    """p of the parts found, after Holm; 1 where that would be too large, or is not asked for."""
    asked = [
        key
        for key, made in found.items()
        if made.fewest >= ENOUGH_SEEDS and (made.p < ALPHA or made.p_against < ALPHA)
    ]
    return dict.fromkeys(found, Adjusted(1.0, 1.0)) | holm({**usual, **found}, asked)


class _Estimates:
    """Estimates by what they are of: the default's is often the same in one world after another."""

    def __init__(self, resamples: int) -> None:
        self.resamples = resamples
        self._made: dict[tuple[Part, str], Estimate] = {}

    def of(self, part: Part, paired: Paired) -> Estimate:
        key = (part, repr([(t.ours.tolist(), t.theirs.tolist()) for t in paired.tasks]))
        if key not in self._made:
            self._made[key] = estimate(part, paired, self.resamples)
        return self._made[key]


def _changes(part: Part, world: World) -> bool:
    """Whether the part compares a method that the world changes; a spread over λ is of its own."""
    return part.combination is None and not world.methods.keys().isdisjoint(
        (part.method, *part.baselines)
    )


def _compare(
    part: Part, evidence: Evidence, world: World, estimates: _Estimates
) -> _Compared | None:
    """None where the choice changes nothing, or there is no pair of runs."""
    if not _changes(part, world):
        return None
    for encoders in encoder_choices(part, evidence.layout):
        default = pair_with(part, evidence, encoders, {})
        variant = pair_with(part, evidence, encoders, world.methods)
        default, variant = default.shared_with(variant), variant.shared_with(default)
        if variant.scores:
            return _Compared(
                estimates.of(part, default),
                estimates.of(part, variant),
                _difference(part, default, variant, estimates.resamples),
                ", ".join(encoders.values()),
            )
    return None


def _difference(part: Part, default: Paired, variant: Paired, resamples: int) -> Interval:
    """Of the variant's effect less the default's, both resampled by the same seeds."""
    statistic = part.make_statistic()
    before, after = default.tasks, variant.tasks
    if min(variant.seeds) < statistic.seeds_needed:
        return Interval()
    return interval(
        lambda places: statistic.at(after, places) - statistic.at(before, places),
        variant.seeds,
        resamples,
    )


def _holds(part: Part, found: Estimate) -> bool | None:
    """Whether the effect itself lies on the claim's side of the margin; None without one."""
    if math.isnan(found.effect):
        return None
    return found.effect > part.margin if part.side == "above" else found.effect < part.margin


def audit_rows(
    table: pd.DataFrame, claims: Mapping[str, Claim]
) -> tuple[list[str], list[list[str]]]:
    """Headings, and a row a choice and variant with a column a part, in words.

    A cell has the difference and its interval, what turns, and nothing where nothing is changed.
    """
    shorts = [part.short for part in parts_of(claims).values()]
    rows = []
    for (_, variant), cells in table.groupby(["choice", "variant"], sort=False):
        by_short = {row["short"]: row for row in cells.to_dict("records")}
        first = cells.iloc[0]
        rows.append(
            [first["title"], first["default"], str(variant), *(_cell(by_short[s]) for s in shorts)]
        )
    return ["choice", "default", "variant", *shorts], rows


def _cell(row: Mapping[Any, Any]) -> str:
    if row["reason"] == UNCHANGED:
        return ""
    if math.isnan(row["difference"]):
        return MISSING
    unit = row["unit"]
    parts = [f"{number(row['difference'], unit)} ({bounds(row['low'], row['high'], unit)})"]
    if row["turns"]:
        parts.append(f"{row['default_verdict']} → {row['variant_verdict']}")
    if row["sign_turns"]:
        parts.append(
            f"{number(row['default_effect'], unit)} → {number(row['variant_effect'], unit)}"
        )
    return "; ".join(parts)
