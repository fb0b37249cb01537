"""The file of claims: what it says, and that each fault is named where it stands."""

from pathlib import Path

import pytest
import yaml

from acl_bert.config.method import known_methods
from acl_bert.errors import InputError
from acl_bert.study.claims.claims import load_claims

FILE = Path(__file__).parents[3] / "config" / "claims.yaml"

GOOD = """
claims:
  better:
    title: ACL beats CE
    section: docs/paper.md §1.2
    parts:
      gain:
        short: gain
        statistic: mean
        method: acl
        baselines: [ce]
        margin: 0
        side: above
"""


def test_the_claims_of_the_paper() -> None:
    claims = load_claims(FILE)
    sections = [f"docs/paper.md §1.{n}" for n in range(1, 9)]
    assert [claim.section for claim in claims.values()] == sections
    parts = [part for claim in claims.values() for part in claim.parts.values()]
    assert len(parts) == 19
    named = {method for part in parts for method in (part.method, *part.baselines)}
    assert named <= set(known_methods())
    paper = yaml.safe_load((FILE.parent / "paper.yaml").read_text())
    assert named <= set(paper["methods"])
    assert {task for part in parts for task in part.tasks} == set(paper["tasks"])
    hub_ids = {encoder["path"] for encoder in paper["encoders"].values()}
    assert {encoder for part in parts for encoder in part.encoders} <= hub_ids


def test_a_claim_is_read_with_its_defaults(tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(GOOD)
    part = load_claims(path)["better"].parts["gain"]
    assert (part.quantity, part.quarter, len(part.tasks)) == ("score", 4, 7)
    assert part.encoders == ("google-bert/bert-base-uncased",)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("margin: 0", "margins: 0"), r"gain\.margins: unknown key; did you mean 'margin'"),
        (("        margin: 0\n", ""), r"gain\.margin: is missing"),
        (("margin: 0", "margin: true"), r"gain\.margin: should be a number"),
        (("statistic: mean", "statistic: means"), r"statistic: 'means' is not .* 'mean'"),
        (("margin: 0", "margin: 0\n        quantity: scores"), r"'scores' is not .* 'score'"),
        (("side: above", "side: over"), r"gain\.side: .*'above' or 'below'"),
        (("margin: 0", "margin: 0\n        quarter: 5"), r"gain\.quarter: .*4 \(got 5\)"),
        (("margin: 0", "margin: 0\n        tasks: []"), r"gain\.tasks: "),
        (
            ("mean\n", "sd_ratio\n", "[ce]", "[ce, ce_scl]"),
            r"baselines: sd_ratio takes one, not 2",
        ),
        (
            ("mean\n", "spread_ratio\n"),
            r"combination: is missing for statistic spread_ratio",
        ),
        (
            ("margin: 0", "margin: 0\n        combination: convex"),
            r"combination: is only for statistic spread_ratio",
        ),
        (
            (
                *("mean\n", "spread_ratio\n"),
                *("margin: 0", "margin: 0\n        combination: convexe"),
            ),
            r"combination: 'convexe' is not known; did you mean 'convex'",
        ),
        (("mean\n", "tasks_reached\n"), r"at_least: is missing for statistic tasks_reached"),
        (
            ("mean\n", "tasks_reached\n", "margin: 0", "margin: 0\n        at_least: 8"),
            r"at_least: 8 is more than the 7 tasks",
        ),
        (
            ("mean\n", "tasks_reached\n        at_least: 5\n", "above", "below"),
            r"side: tasks_reached counts tasks above",
        ),
        (("mean\n", "tasks_reached\n", "[ce]", "[]"), r"baselines: tasks_reached needs one"),
        (
            ("[ce]", "[]", "margin: 0", "margin: 0\n        minus_quarter: 4"),
            r"minus_quarter: is only for statistic mean with baselines",
        ),
        (
            ("[ce]", "[]", "margin: 0", "margin: 0\n        baseline_encoders: [x/y]"),
            r"baseline_encoders: need baselines",
        ),
        (("title: ACL beats CE", "name: ACL"), r"better\.title: is missing"),
        (("short: gain", 'short: ""'), r"gain\.short: "),
        (("claims:", "claim:"), r"claim: unknown key; did you mean 'claims'"),
        (("    parts:", "    parts: {}\n    more:"), r"better\.parts: "),
        ((GOOD, "claims: {}"), r"claims: "),
        ((GOOD, "- better"), r"should be a mapping of keys"),
        (("section:", "title: Twice\n    section:"), r"'title' stands here for the second time"),
        (
            ("      gain:", "      gain: &gain", "side: above", "side: above\n      again: *gain"),
            r"\['gain'\] names two parts",
        ),
        (("claims:", "claims: ["), r"is not YAML"),
    ],
)
def test_a_fault_is_named_with_its_place(
    tmp_path: Path, change: tuple[str, ...], fault: str
) -> None:
    text = GOOD
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=fault) as error:
        load_claims(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="claims.yaml: No such file"):
        load_claims(tmp_path / "claims.yaml")
