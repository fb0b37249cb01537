"""The audit: the same numbers with a choice made otherwise, on what both were run on."""

from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import HOLDS, SINGLE, synthetic, where

from acl_bert.study.analyses.audit import AUDIT_COLUMNS, audit, audit_rows
from acl_bert.study.claims.claims import load_claims
from acl_bert.study.claims.evidence import Evidence
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
        ("temperature", "lambda", "convex", "not changed by the choice"),
        ("batches", "exits", "exit_3", "not changed by the choice"),
        ("reduction", "exits", "exit_3", "no run of the variant"),
        ("batches", "conflict", "share", "no run of the variant"),
    ):
        row = cell(audited(), choice, claim, part)
        assert row["reason"] == reason
        assert row[["default_effect", "variant_effect", "difference", "low"]].isna().all()
        assert not row["turns"] and not row["sign_turns"]


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
    assert headings[:3] == ["choice", "default", "variant"] and len(headings) == 3 + 19
    assert [row[:3] for row in rows] == [
        ["τ", "0.3", "0.1"],
        ["batches", "by length", "shuffled"],
        ["reduction", "mean", "sum"],
    ]
    words = dict(zip(headings, rows[0], strict=True))
    grad = cell(audited(), "temperature", "ablation", "grad")
    assert words["Grad"] == (
        f"−{-grad['difference']:.2f} (−{-grad['low']:.2f} to −{-grad['high']:.2f}); "
        f"supported → contradicted; {grad['default_effect']:.2f} → −{-grad['variant_effect']:.2f}"
    )
    assert ";" not in words["gain, exit 3"]
    assert words["share > 90°"] == ""
    assert dict(zip(headings, rows[2], strict=True))["gain, exit 3"] == "–"
