"""Verdicts: what a known truth gives, and what is said of a study that is not whole."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests
from synthetic_study import ENCODERS, HOLDS, synthetic, task_layout, where

from acl_bert.study.claims.claims import GLUE, Claim, Part, load_claims
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.ledger import (
    ALPHA,
    HEADINGS,
    LEDGER_COLUMNS,
    Estimate,
    holm,
    ledger,
    ledger_rows,
    parts_of,
)
from acl_bert.study.claims.pairing import pair
from acl_bert.study.claims.statistics import Pairs

RESAMPLES = 499
FILE = Path(__file__).parents[3] / "config" / "claims.yaml"


@cache
def claims() -> Mapping[str, Claim]:
    return load_claims(FILE)


def judged(evidence: Evidence, *names: str) -> pd.DataFrame:
    """The ledger of some claims, or of all, by claim and part."""
    some = {name: claims()[name] for name in names} if names else claims()
    return ledger(some, evidence, RESAMPLES).set_index(["claim", "part"])


def verdicts(evidence: Evidence, *names: str) -> dict[str, str]:
    return judged(evidence, *names).groupby("claim")["verdict"].first().to_dict()


@cache
def whole() -> Evidence:
    """A study in which every claim of the paper is true."""
    return synthetic()


def test_where_the_paper_is_right_every_claim_is_supported() -> None:
    table = judged(whole())
    assert set(table["verdict"]) == {"supported"} == set(table["part_verdict"])
    assert (table["p_adjusted"] < ALPHA).all()
    assert (table["low"] <= table["effect"]).all() and (table["effect"] <= table["high"]).all()
    gain = table.loc["exits", "exit_3"]
    assert gain["effect"] == pytest.approx(4, abs=0.4)
    assert (gain["seeds"], gain["tasks"]) == (5, 7)
    assert table.loc["exits", "shallow"]["effect"] == pytest.approx(3.5, abs=0.5)
    assert table.loc["full_model", "sd"]["effect"] == pytest.approx(math.log(0.3 / 1.5), abs=0.5)
    assert table.loc["conflict", "above_75"]["effect"] == pytest.approx(88, abs=1)
    assert table.loc["full_model", "tasks"]["reason"].startswith("not below −0.50 on 7 of 7 tasks")


# Each claim with a truth against it, and with one that is too small to tell.
FALSE: dict[str, dict[str, Any]] = {
    "conflict": {"gradients": (60.0, 0.2), "seeds": range(8)},
    "full_model": {"truth": {("acl", 12): -3.0}},
    "exits": {"truth": {("acl_cl", 3): -2.0, ("acl_cl", 6): -2.0, ("acl_cl", 12): 2.0}},
    "half_depth": {"truth": {("acl_cl", 6): -3.0}},
    "ablation": {"truth": {("acl_embed", 12): -2.0, ("acl", 12): -4.0, ("acl_cl", 6): -2.0}},
    "lambda": {"truth": {("acl@0.9", 12): -6.0}},
    "clusters": {"clusters": -0.2},
    "speed": {"truth": {("acl_cl", 3): -3.0, ("acl_cl", 6): -3.0, ("acl_cl", 12): -3.0}},
}
UNCLEAR: dict[str, dict[str, Any]] = {
    "conflict": {"gradients": (88.0, 0.05)},
    "full_model": {"truth": HOLDS, "sds": {}},
    "exits": {"truth": {}},
    "half_depth": {"truth": {("acl_cl", 6): -0.4}, "sds": {"acl_cl": 2.0}},
    "ablation": {"truth": {**HOLDS, ("acl", 12): 1.0}},
    "lambda": {"truth": {}, "sds": {}},
    "clusters": {"clusters": 0.0},
    "speed": {"truth": {}},
}


@pytest.mark.parametrize(
    ("name", "expected", "truth"),
    [
        *((name, "contradicted", truth) for name, truth in FALSE.items()),
        *((name, "inconclusive", truth) for name, truth in UNCLEAR.items()),
    ],
)
def test_a_known_truth_brings_out_its_verdict(
    name: str, expected: str, truth: dict[str, Any]
) -> None:
    table = judged(synthetic(**truth, random_state=1), name)
    assert set(table["verdict"]) == {expected}
    deciding = table[table["part_verdict"] == expected].iloc[0]
    said = "on the other side of" if expected == "contradicted" else "interval"
    assert said in deciding["reason"]


def test_more_variance_than_scl_contradicts_the_second_part_alone() -> None:
    table = judged(synthetic(sds={"acl": 1.5, "ce_scl": 0.2}), "full_model")
    assert table["part_verdict"].tolist() == ["supported", "contradicted"]
    assert set(table["verdict"]) == {"contradicted"}


def test_a_p_that_holm_leaves_too_large_supports_nothing() -> None:
    """Five seeds on one task have p = 1/32 at best: enough alone, not before seven others."""
    assert verdicts(whole(), "conflict") == {"conflict": "supported"}
    unclear = where(synthetic(truth={}, sds={}, clusters=0.0), lambda frame: frame["seed"] > 0)
    table = judged(unclear)
    assert set(table.loc["conflict"]["verdict"]) == {"inconclusive"}
    assert "but p ≥ 0.05 after Holm" in table.loc["conflict", "above_75"]["reason"]
    assert "p is never below 0.031" in table.loc["conflict", "above_75"]["reason"]
    assert math.isnan(table.loc["conflict", "above_75"]["detectable"])


def test_holm_is_over_the_claims_by_their_largest_p_and_against_them_over_the_parts() -> None:
    found = {
        ("a", "x"): Estimate(p=0.02),
        ("a", "y"): Estimate(p=0.001),
        ("b", "x"): Estimate(p=0.01, p_against=0.02),
        ("c", "x"): Estimate(),
    }
    adjusted = holm(found, found)
    expected = multipletests([0.02, 0.01], method="holm")[1]
    assert (adjusted["a", "x"].p, adjusted["b", "x"].p) == pytest.approx(tuple(expected))
    assert adjusted["a", "y"].p == pytest.approx(0.002)
    assert adjusted["b", "x"].p_against == pytest.approx(0.06)  # of three that were tested
    assert math.isnan(adjusted["c", "x"].p) and math.isnan(adjusted["a", "x"].p_against)
    assert holm(found, [("b", "x")]) == {("b", "x"): adjusted["b", "x"]}


def test_what_could_be_detected_is_beyond_the_margin_and_smaller_than_what_was_found() -> None:
    table = judged(whole(), "half_depth", "lambda")
    half = table.loc["half_depth", "exit_6"]
    assert half["margin"] < half["detectable"] < half["effect"]
    spread = table.loc["lambda", "convex"]
    assert spread["margin"] > spread["detectable"] > spread["effect"]


def test_a_count_of_tasks_has_no_detectable_effect() -> None:
    table = judged(whole(), "full_model")
    assert math.isnan(table.loc["full_model", "tasks"]["detectable"])
    words = ledger_rows(table.reset_index()[LEDGER_COLUMNS], claims())
    assert [row[HEADINGS.index("detectable at 80%")] == "–" for row in words] == [True, False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stand_in": "generated stand-in data"}, "COLA: generated stand-in data"),
        ({"subset": "subset, 10 of 90 training rows"}, "COLA: subset, 10 of 90 training rows"),
        ({"own": True}, "COLA: rows of the study's own files"),
    ],
)
def test_rows_that_are_not_the_papers_give_no_verdict(change: dict[str, Any], said: str) -> None:
    tasks = {**whole().layout.tasks, "cola": task_layout("cola", **change)}
    evidence = where(whole(), lambda frame: frame["seed"] > 0, tasks=tasks)
    table = judged(evidence, "exits", "conflict")
    assert set(table.loc["exits"]["verdict"]) == {"stand-in"}
    assert said in table.loc["exits", "exit_3"]["reason"]
    assert table.loc["exits", "exit_3"]["effect"] == pytest.approx(4, abs=0.4)
    assert set(table.loc["conflict"]["verdict"]) == {"supported"}  # it is of RTE


def test_another_method_under_a_claims_id_gives_no_verdict() -> None:
    evidence = where(whole(), lambda frame: frame["seed"] > 0, unlike=frozenset({"alternating"}))
    table = judged(evidence, "exits", "conflict")
    assert set(table.loc["exits"]["verdict"]) == {"stand-in"}
    assert "alternating is another method" in table.loc["exits", "exit_3"]["reason"]
    assert set(table.loc["conflict"]["verdict"]) == {"supported"}


def test_another_encoder_stands_in_where_the_papers_is_not_in_the_study() -> None:
    evidence = synthetic(encoders={"mini": "package:mini"})
    table = judged(evidence, "exits", "half_depth")
    assert set(table.loc["exits"]["verdict"]) == {"stand-in"}
    assert (
        "mini (package:mini) in place of google-bert/bert-base-uncased"
        in table.loc["exits", "exit_6"]["reason"]
    )
    assert table.loc["exits", "exit_6"]["effect"] == pytest.approx(2, abs=0.4)
    # A comparison of encoders has none.
    half = table.loc["half_depth", "exit_6"]
    assert half["verdict"] == "not run" and math.isnan(half["effect"])
    assert half["reason"].startswith("no encoder FacebookAI/roberta-base, huawei-noah/TinyBERT")


def test_no_other_encoder_stands_in_while_the_papers_has_not_finished() -> None:
    evidence = synthetic(encoders={"mini": "package:mini", "bert": ENCODERS["bert"]})
    assert verdicts(evidence, "exits") == {"exits": "not run"}


def test_the_old_id_of_an_encoder_is_the_papers() -> None:
    evidence = synthetic(encoders={**ENCODERS, "bert": "bert-base-uncased"})
    assert verdicts(evidence, "exits") == {"exits": "supported"}


def test_tasks_of_the_users_own_are_not_the_papers() -> None:
    table = judged(synthetic(tasks=["reviews"]), "speed", "lambda")
    assert set(table["verdict"]) == {"stand-in"}
    area = table.loc["speed", "area"]
    assert "REVIEWS: not a task of the claim" in area["reason"]
    assert area["effect"] == pytest.approx(2.1, abs=0.4)


def test_missing_runs_are_named_and_the_rest_is_shown() -> None:
    evidence = where(
        whole(),
        lambda f: (
            ~((f["method"] == "jt") & f["task"].isin(["cola", "rte"]))
            & (f["method"] != "acl_cl_no_gate")
        ),
    )
    table = judged(evidence, "exits", "ablation")
    exit_3 = table.loc["exits", "exit_3"]
    assert exit_3["verdict"] == "not run" and exit_3["tasks"] == 5
    assert exit_3["reason"] == "no jt with bert on COLA, RTE"
    assert exit_3["effect"] == pytest.approx(4, abs=0.4)
    gate = table.loc["ablation", "gate"]
    assert gate["part_verdict"] == "not run" and math.isnan(gate["effect"])
    assert "no acl_cl_no_gate with bert on COLA, SST2" in gate["reason"]
    assert table.loc["ablation", "labels"]["part_verdict"] == "supported"
    assert set(table["verdict"]) == {"not run"}


def test_a_task_that_the_study_has_not_is_missing() -> None:
    table = judged(synthetic(tasks=GLUE[:3]), "exits", "full_model", "lambda")
    assert set(table.loc["exits"]["verdict"]) == {"not run"}
    assert table.loc["exits", "exit_3"]["reason"] == "no task qqp, mnli, qnli, rte"
    assert table.loc["full_model", "tasks"]["tasks"] == 3


def test_without_values_of_lambda_there_is_no_spread() -> None:
    evidence = where(whole(), lambda frame: frame["seed"] > 0, sensitivity=())
    table = judged(evidence, "lambda")
    assert set(table["verdict"]) == {"not run"}
    assert "no two λ that both sides were run with, convex" in table["reason"].iloc[0]


def test_pairs_are_complete_and_those_that_lack_are_counted() -> None:
    """Seeds of JT are missing on RTE, and one of ACL-CL's on CoLA: pairs of the others."""
    evidence = where(
        whole(),
        lambda f: (
            ~(
                ((f["method"] == "jt") & (f["task"] == "rte") & (f["seed"] > 3))
                | ((f["method"] == "acl_cl") & (f["task"] == "cola") & (f["seed"] == 2))
            )
        ),
    )
    paired = pair(claims()["exits"].parts["exit_3"], evidence)
    assert list(paired.scores["rte"]) == [1, 2, 3]
    assert list(paired.scores["cola"]) == [1, 3, 4, 5]
    row = judged(evidence, "exits").loc["exits", "exit_3"]
    assert (row["seeds"], row["tasks"], row["verdict"]) == (3, 7, "inconclusive")
    assert row["reason"] == (
        "3 of the 5 seeds that a verdict needs; COLA: 4 of 5 seeds; RTE: 3 of 5 seeds"
    )


def test_seeds_that_two_methods_do_not_share_make_no_pair() -> None:
    evidence = where(
        whole(),
        lambda f: f["seed"].between(1, 2) | ((f["method"] == "ce_scl") & (f["seed"] > 2)),
    )
    gone = where(evidence, lambda f: ~((f["method"] == "ce_scl") & (f["seed"] <= 2)))
    row = judged(gone, "full_model").loc["full_model", "sd"]
    assert row["verdict"] == "not run"
    assert row["reason"].startswith("no one seed of all methods on COLA")


def test_one_seed_has_numbers_and_no_verdict() -> None:
    table = judged(synthetic(seeds=[1]))
    numbers = table.drop([("full_model", "sd")])
    assert numbers["effect"].notna().all() and table["low"].isna().all()
    assert set(table["verdict"]) == {"inconclusive"}
    assert table["reason"].str.contains("1 of the 5 seeds").all()
    assert math.isnan(table.loc["full_model", "sd"]["effect"])


def test_scores_that_are_all_alike_are_told_and_not_judged() -> None:
    results = whole().results
    exits = results.exits.assign(value=0.0, degenerate=True)
    curves = results.curves.assign(value=0.0)
    evidence = replace(whole(), results=replace(results, exits=exits, curves=curves))
    table = ledger(claims(), evidence, RESAMPLES)
    of_scores = table[~table["claim"].isin(["conflict", "clusters", "half_depth"])]
    assert set(of_scores["verdict"]) == {"inconclusive"}
    assert of_scores["reason"].str.contains("no spread between the seeds").all()
    assert (of_scores["effect"] == 0).all()
    assert of_scores["low"].isna().all()


def test_a_ratio_to_what_does_not_vary_is_told() -> None:
    exits = whole().results.exits
    flat = exits.assign(value=exits["value"].where(exits["method"] != "acl", 0.5))
    evidence = replace(whole(), results=replace(whole().results, exits=flat))
    sd = judged(evidence, "full_model").loc["full_model", "sd"]
    assert sd["effect"] == -np.inf
    assert math.isnan(sd["p"])
    assert "one side does not vary: no ratio" in sd["reason"]


def test_a_study_without_runs_has_a_ledger() -> None:
    table = judged(where(whole(), lambda frame: frame["seed"] < 0))
    assert set(table["verdict"]) == {"not run"} and table["effect"].isna().all()
    rows = ledger_rows(table.reset_index()[LEDGER_COLUMNS], claims())
    assert rows[0][2:4] == ["–", "–"]


def test_mnli_is_read_on_its_matched_set_and_tasks_by_their_main_metric() -> None:
    exits = whole().results.exits
    other = exits.assign(metric="accuracy_mm", value=exits["value"] - 0.3)
    tasks = dict(whole().layout.tasks)
    tasks["mnli"] = replace(
        tasks["mnli"], dev_sets={"dev": "", "dev_mm": "_mm"}, metrics=("accuracy", "accuracy_mm")
    )
    both = replace(whole().results, exits=pd.concat([exits, other]))
    evidence = replace(whole(), results=both, layout=replace(whole().layout, tasks=tasks))
    key = ("score", "mnli", "bert", "acl", 4)
    assert evidence.values(*key) == whole().values(*key)


def test_a_six_layer_encoder_is_read_at_its_own_quarters() -> None:
    exits = whole().results.exits
    shallow = exits.assign(exit=(exits["exit"] + 1) // 2, depth=6)
    evidence = replace(whole(), results=replace(whole().results, exits=shallow))
    for quarter in (1, 2, 4):
        key = ("score", "rte", "bert", "acl_cl", quarter)
        assert evidence.values(*key) == whole().values(*key)


def test_the_ledger_in_words() -> None:
    table = ledger({"exits": claims()["exits"]}, whole(), RESAMPLES)
    rows = [dict(zip(HEADINGS, row, strict=True)) for row in ledger_rows(table, claims())]
    assert [row["verdict"] for row in rows] == ["supported", "", ""]
    assert rows[0]["claim"].endswith("(docs/paper.md §1.3)") and rows[1]["claim"] == ""
    assert rows[0]["statistic"] == "gain, exit 3 (points)"
    assert rows[0]["seeds × tasks"] == "5 × 7" and rows[0]["holds"] == "> 0.00"
    effect, low = table["effect"].iloc[0], table["low"].iloc[0]
    assert rows[0]["effect"] == f"{effect:.2f}"
    assert rows[0]["95% interval"].startswith(f"{low:.2f} to ")


def test_the_same_study_has_the_same_ledger() -> None:
    pd.testing.assert_frame_equal(judged(synthetic(), "exits"), judged(whole(), "exits"))


STUDIES = 200


def at_the_margin(part: Part, draw: np.random.Generator) -> list[Pairs]:
    """Tasks × 5 seeds in which ours are as the margin has it, and no baseline is the best."""
    tasks = []
    ratio = part.is_ratio
    points = 5 if part.combination else 2 if part.minus_quarter else 1
    baselines = len(part.baselines) * max(1, len(part.baseline_encoders))
    for _ in part.tasks:
        sd = math.exp(draw.normal(0, 0.5))
        luck = draw.normal(0, sd / 2, (5, 1, 1))
        scores = draw.normal(0, sd, (5, 1 + max(1, baselines), points)) + luck
        ours, theirs = scores[:, 0], scores[:, 1:] if baselines else np.zeros((5, 1, points))
        if not ratio:
            ours = ours + part.margin * np.eye(1, points)
        tasks.append(Pairs(ours, theirs))
    return tasks


@pytest.mark.slow
def test_without_an_effect_at_most_one_study_in_twenty_has_a_supported_claim() -> None:
    """One part of each claim is at its margin and, at best for the claim, all others hold.

    A claim's p is then that part's, since the others' are as small as can be; no claim is supported
    unless one p is below 0.05 after Holm, which is when the smallest is below 0.05 / 8. The parts
    take turns.
    """
    draw = np.random.default_rng(5)
    false = 0
    for study in range(STUDIES):
        ps = []
        for claim in claims().values():
            part = list(claim.parts.values())[study % len(claim.parts)]
            tasks = at_the_margin(part, draw)
            ps.append(part.make_statistic().p_value(tasks, part.margin, part.side, 499))
        false += min(ps) < ALPHA / len(ps)
    assert false <= 0.05 * STUDIES


def test_parts_are_in_the_order_of_the_file() -> None:
    assert [key for key, _ in zip(parts_of(claims()), range(2), strict=False)] == [
        ("conflict", "above_75"),
        ("conflict", "below_105"),
    ]
