"""The audit: the same numbers with a choice made otherwise, on what both were run on."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import HOLDS, SINGLE, evidence_of, synthetic, where

from acl_bert.study.analyses.audit import (
    AUDIT_COLUMNS,
    AUDIT_NOTES,
    audit,
    audit_notes,
    audit_rows,
)
from acl_bert.study.claims.claims import load_claims
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.pairing import pair, pair_with
from acl_bert.study.layout import World

RESAMPLES = 499
CLAIMS = load_claims(Path(__file__).parents[3] / "config" / "claims.yaml")

WORSE = World("temperature", "τ", "0.3", "0.1", {"acl": "acl@0.1", "acl_cl": "acl_cl@0.1"})
ALIKE = World("batches", "batches", "by length", "shuffled", {m: f"{m}@s" for m in SINGLE})
NO_RUNS = World("reduction", "reduction", "mean", "sum", {"jt": "jt@sum"})
# ACL loses by 3 points under τ = 0.1, ACL-CL half of what it gains at exit 3.
TRUTH = {
    **HOLDS,
    ("acl@0.1", 12): -3.0,
    ("acl_cl@0.1", 3): 2.0,
    ("acl_cl@0.1", 6): 2.0,
    **{(f"{method}@s", 12): HOLDS.get((method, 12), 0.0) for method in SINGLE},
}


@cache
def whole() -> Evidence:
    evidence = synthetic(TRUTH, worlds=(WORSE, ALIKE, NO_RUNS), random_state=1)
    return where(evidence, lambda frame: frame["method"] != "jt@sum")


@cache
def audited() -> pd.DataFrame:
    return audit(CLAIMS, whole(), RESAMPLES)


def cell(table: pd.DataFrame, choice: str, claim: str, part: str) -> pd.Series:
    (row,) = table[
        (table["choice"] == choice) & (table["claim"] == claim) & (table["part"] == part)
    ].iloc
    return row


def test_a_row_a_choice_and_part() -> None:
    table = audited()
    assert list(table.columns) == AUDIT_COLUMNS
    assert len(table) == 3 * 19
    assert table["choice"].unique().tolist() == ["temperature", "batches", "reduction"]
    assert table[["title", "default", "variant"]].iloc[0].tolist() == ["τ", "0.3", "0.1"]


def test_what_turns_is_told_with_the_difference_and_its_interval() -> None:
    grad = cell(audited(), "temperature", "ablation", "grad")
    assert grad["default_effect"] == pytest.approx(3, abs=0.3)
    assert grad["variant_effect"] == pytest.approx(-4, abs=0.3)
    assert grad["difference"] == grad["variant_effect"] - grad["default_effect"]
    assert grad["low"] < grad["difference"] < grad["high"] < 0
    assert (grad["default_verdict"], grad["variant_verdict"]) == ("supported", "contradicted")
    assert grad["turns"] and grad["sign_turns"]


def test_an_effect_that_shrinks_without_turning() -> None:
    exit_3 = cell(audited(), "temperature", "exits", "exit_3")
    assert exit_3["difference"] == pytest.approx(-2, abs=0.3)
    assert exit_3["default_verdict"] == exit_3["variant_verdict"] == "supported"
    assert not exit_3["turns"] and not exit_3["sign_turns"]


def test_both_sides_of_a_pair_are_changed_where_the_choice_is_about_both() -> None:
    embed = cell(audited(), "batches", "ablation", "embed")
    assert embed["difference"] == pytest.approx(0, abs=0.3)
    assert embed["low"] < 0 < embed["high"] and not embed["turns"]


def test_what_a_choice_does_not_change_and_what_was_not_run_have_no_numbers() -> None:
    for choice, claim, part, reason in (
        ("temperature", "conflict", "share", "not changed by the choice"),
        ("temperature", "lambda", "convex", "a spread over λ is not varied"),
        ("batches", "exits", "exit_3", "not changed by the choice"),
        ("reduction", "exits", "exit_3", "no run of the variant"),
    ):
        row = cell(audited(), choice, claim, part)
        assert row["reason"] == reason
        assert row[["default_effect", "variant_effect", "difference", "low"]].isna().all()
        assert not row["turns"] and not row["sign_turns"]


def test_no_number_compares_what_is_varied_with_what_is_not_though_the_choice_is_about_it() -> None:
    """ACL's gate has a τ too; JT, which has none, stays what it is."""
    about = ("acl", "acl_embed", "acl_cl", "acl_cl_no_gate", "acl_cl@0.1")
    world = replace(WORSE, about=about)
    table = audit(CLAIMS, where(whole(), lambda f: f["seed"] > 0, audit=(world,)), RESAMPLES)
    for claim, part, reason in (
        ("ablation", "gate", "acl_cl_no_gate not varied"),
        ("ablation", "grad", "acl_embed not varied"),
        ("ablation", "embed", "acl_embed not varied"),
    ):
        row = cell(table, "temperature", claim, part)
        assert row["reason"] == reason and pd.isna(row["difference"])
    assert cell(table, "temperature", "exits", "exit_3")["difference"] < -1
    assert cell(table, "temperature", "ablation", "labels")["difference"] == pytest.approx(0, abs=1)


def test_the_pilots_angles_are_read_from_the_method_that_stands_for_it() -> None:
    """CE+SCL is observed by a variant of its own, the world's stand-in under its own id."""
    evidence = whole()
    gradients = evidence.results.gradients
    pilot = gradients.assign(
        method=gradients["method"].replace("ce_scl", "ce_scl@pilot"),
        angle=gradients["angle"] + 10 * (gradients["method"] == "ce_scl@s"),
    )
    evidence = evidence_of(
        replace(evidence.results, gradients=pilot),
        replace(evidence.layout, observed={"ce_scl": "ce_scl@pilot"}),
    )
    for name, quantity, change in (
        ("above_75", "median_angle", 10),
        ("share", "share_above_90", 80),
    ):
        part = CLAIMS["conflict"].parts[name]
        assert part.quantity == quantity
        encoders = {part.encoder: "bert"}
        (default,) = pair(part, evidence).tasks
        (variant,) = pair_with(part, evidence, encoders, ALIKE.methods).tasks
        assert variant.seeds == default.seeds == 5
        difference = (variant.ours - default.ours).mean()
        assert difference == pytest.approx(change, abs=5)
        row = cell(
            audit({"conflict": CLAIMS["conflict"]}, evidence, 99), "batches", "conflict", name
        )
        assert row["difference"] == pytest.approx(difference)


@pytest.mark.parametrize(
    ("default", "variant", "turns"),
    [(0.004, -0.004, False), (0.004, -0.006, False), (0.006, -0.006, True), (0.3, 0.1, False)],
)
def test_a_sign_turns_in_the_digits_that_are_printed(
    default: float, variant: float, turns: bool
) -> None:
    """The effect of ACL less that of ACL-Embed, in points."""
    evidence = synthetic(seeds=[1], tasks=["rte"], worlds=(WORSE,))
    exits = evidence.results.exits
    levels = {"acl": 70 + default, "acl@0.1": 70 + variant, "acl_embed": 70.0}
    known = exits["method"].isin(levels)
    exits.loc[known, "value"] = exits.loc[known, "method"].map(levels) / 100
    row = cell(audit(CLAIMS, evidence, RESAMPLES), "temperature", "ablation", "grad")
    assert row["default_effect"] == pytest.approx(default)
    assert row["sign_turns"] == turns


def test_the_default_is_read_on_the_variants_tasks_and_seeds() -> None:
    """The variant has 3 seeds of CoLA, where the default's ACL is 10 points better."""
    evidence = where(
        whole(),
        lambda f: ~f["method"].str.contains("@0.1") | ((f["task"] == "cola") & (f["seed"] < 4)),
    )
    exits = evidence.results.exits
    better = (exits["task"] == "cola") & (exits["method"] == "acl")
    exits.loc[better, "value"] += 0.1
    table = audit(CLAIMS, evidence, RESAMPLES)
    grad = cell(table, "temperature", "ablation", "grad")
    assert (grad["encoder"], grad["tasks"], grad["seeds"]) == ("bert", 1, 3)
    assert grad["default_effect"] == pytest.approx(13, abs=0.5)
    # Three seeds turn no verdict, but the sign does.
    assert grad["default_verdict"] == grad["variant_verdict"] == "inconclusive"
    assert not grad["turns"] and grad["sign_turns"]
    assert grad["low"] < grad["difference"] < grad["high"]


def test_one_seed_has_differences_without_intervals() -> None:
    table = audit(CLAIMS, synthetic(TRUTH, seeds=[1], worlds=(WORSE,)), RESAMPLES)
    grad = cell(table, "temperature", "ablation", "grad")
    assert grad["difference"] == pytest.approx(-7, abs=2)
    assert pd.isna(grad["low"]) and grad["sign_turns"]
    sd = cell(table, "temperature", "full_model", "sd")
    assert pd.isna(sd["variant_effect"]) and not sd["sign_turns"]


def test_another_encoder_stands_in() -> None:
    evidence = synthetic(TRUTH, encoders={"mini": "package:mini"}, worlds=(WORSE,))
    table = audit(CLAIMS, evidence, RESAMPLES)
    grad = cell(table, "temperature", "ablation", "grad")
    assert grad["encoder"] == "mini" and grad["turns"]


def test_a_study_without_an_audit_has_an_empty_table() -> None:
    table = audit(CLAIMS, synthetic(), RESAMPLES)
    assert table.empty and list(table.columns) == AUDIT_COLUMNS
    assert audit_rows(table, CLAIMS)[1] == []


def test_the_audit_in_words() -> None:
    headings, rows = audit_rows(audited(), CLAIMS)
    assert headings[:4] == ["choice", "default", "variant", "seeds × tasks"]
    assert [row[:4] for row in rows] == [
        ["τ", "0.3", "0.1", "5 × 7"],
        ["batches", "by length", "shuffled", "5 × 1, 5 × 7"],
        ["reduction", "mean", "sum", "–"],
    ]
    words = dict(zip(headings, rows[0], strict=True))
    grad = cell(audited(), "temperature", "ablation", "grad")
    assert words["Grad"] == (
        f"−{-grad['difference']:.2f} (−{-grad['low']:.2f} to −{-grad['high']:.2f}); "
        f"supported → contradicted; {grad['default_effect']:.2f} → −{-grad['variant_effect']:.2f}"
    )
    assert ";" not in words["gain, exit 3"]
    assert words["share > 90°"] == ""
    # What has no number for any choice has no column, and a note says so.
    assert len(headings) == 4 + 19 - 3
    assert audit_notes(audited()) == [
        *AUDIT_NOTES,
        "Left out, having no number for any choice: half depth; λ, convex; λ, additive.",
    ]
    assert dict(zip(headings, rows[2], strict=True))["gain, exit 3"] == "–"
