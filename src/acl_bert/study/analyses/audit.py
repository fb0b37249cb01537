"""The audit: each claim's numbers where an open choice is made otherwise (docs/paper.md §2.8).

A variant's runs may be fewer than the study's, so both sides of a comparison are read on the tasks
and seeds that have both.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    digits,
    estimate,
    holm,
    number,
    parts_of,
    verdict_on,
)
from acl_bert.study.claims.pairing import Paired, encoder_choices, pair, pair_with
from acl_bert.study.claims.statistics import RESAMPLES, Interval, interval
from acl_bert.study.grids import MISSING
from acl_bert.study.layout import Layout, World

# One row a choice, variant and part of a claim. Effects are in `unit`, on the same tasks, encoder
# and seeds; `difference` is the variant's less the default's, with its interval. Verdicts are as if
# the runs were the paper's. `turns`: the verdict changes; `sign_turns`: the effect, as it is
# printed, comes to lie on the other side of the margin, which tells something with few seeds too.
# Where nothing that a part compares is changed, not all that the choice is about is varied, or
# nothing was run, there are no numbers and `reason` says so.
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

AUDIT_NOTES = [
    "A cell: the effect with the choice made otherwise less that with the default, on the same "
    "tasks and seeds, with its interval; then the verdict, where it turns, and both effects, where "
    "they lie on different sides of the margin as they are printed. Verdicts are those of a part, "
    "not of its claim, on the tasks of the audit alone, as if the runs were the paper's.",
    "Empty: the choice is about none of the runs. –: no run, or not all methods that the part "
    "compares and that the choice is about are varied. A variant has the λ of its method, also "
    "where the form that λ is of changes.",
    "Seeds × tasks: of each part that has a number, seeds of the task with the fewest; one entry "
    "where all parts have the same.",
]


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
        as_default = _adjusted_in_world(usual, {k: made.default for k, made in compared.items()})
        as_variant = _adjusted_in_world(usual, {k: made.variant for k, made in compared.items()})
        for key, part in parts.items():
            place = (world.choice, world.title, world.default, world.variant, *key)
            known = (*place, part.short, part.unit)
            if key not in compared:
                reason = _not_compared(part, world, evidence.layout) or NO_RUNS
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
                    _side(part, made.default) * _side(part, made.variant) < 0,
                    reason,
                )
            )
    return pd.DataFrame(rows, columns=pd.Index(AUDIT_COLUMNS))


def _adjusted_in_world(
    usual: Mapping[Key, Estimate], found: Mapping[Key, Estimate]
) -> dict[Key, Adjusted]:
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


def _not_compared(part: Part, world: World, layout: Layout) -> str:
    """Why the part has no number in the world, whatever was run; empty where it has one."""
    if part.combination is not None:
        return "a spread over λ is not varied"
    compared = (part.method, *part.baselines)
    if as_before := [
        layout.methods.get(method, method)
        for method in compared
        if method in world.about and method not in world.methods
    ]:
        return f"{', '.join(as_before)} not varied"
    return UNCHANGED if world.methods.keys().isdisjoint(compared) else ""


def _compare(
    part: Part, evidence: Evidence, world: World, estimates: _Estimates
) -> _Compared | None:
    """None where the choice changes nothing, or not all, or there is no pair of runs."""
    if _not_compared(part, world, evidence.layout):
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


def _side(part: Part, found: Estimate) -> float:
    """On which side of the margin the printed effect lies: −1, 0 (on it) or 1; NaN without one."""
    effect, margin = (round(value, digits(part.unit)) for value in (found.effect, part.margin))
    return float(np.sign(effect - margin))


def audit_rows(
    table: pd.DataFrame, claims: Mapping[str, Claim]
) -> tuple[list[str], list[list[str]]]:
    """Headings, and a row a choice and variant with a column a part, in words.

    A cell has the difference and its interval, what turns, and nothing where nothing is changed.
    Parts without a number in any row have no column: audit_notes names them.
    """
    shown = _with_numbers(table)
    shorts = [part.short for part in parts_of(claims).values() if part.short in shown]
    rows = []
    for (_, variant), cells in table.groupby(["choice", "variant"], sort=False):
        by_short = {row["short"]: row for row in cells.to_dict("records")}
        first = cells.iloc[0]
        rows.append(
            [
                first["title"],
                first["default"],
                str(variant),
                _seeds_and_tasks(cells),
                *(_cell(by_short[short]) for short in shorts),
            ]
        )
    return ["choice", "default", "variant", "seeds × tasks", *shorts], rows


def audit_notes(table: pd.DataFrame) -> list[str]:
    """AUDIT_NOTES, and which parts audit_rows leaves out."""
    shown = _with_numbers(table)
    without = [short for short in dict.fromkeys(table["short"]) if short not in shown]
    left_out = [f"Left out, having no number for any choice: {'; '.join(without)}."]
    return AUDIT_NOTES + (left_out if without else [])


def _with_numbers(table: pd.DataFrame) -> list[str]:
    """The short names of the parts that have a number for some choice."""
    return list(dict.fromkeys(table.loc[table["difference"].notna(), "short"]))


def _seeds_and_tasks(cells: pd.DataFrame) -> str:
    pairs = cells.loc[cells["difference"].notna(), ["seeds", "tasks"]].drop_duplicates()
    return ", ".join(f"{row.seeds} × {row.tasks}" for row in pairs.itertuples()) or MISSING


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
