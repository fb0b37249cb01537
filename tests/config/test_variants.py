"""Variants: which runs the analyses ask for, under which names, and what they have in common."""

from typing import Any

import pytest

from acl_bert.config.analyses import choices
from acl_bert.config.method import known_methods
from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError

METHODS: dict[str, dict[str, Any]] = {
    name: {} for name in ("ce", "ce_scl", "acl_embed", "acl", "jt", "two_stage", "acl_cl")
}


def study(analyses: dict[str, Any], **more: Any) -> Study:
    return load_study(
        {
            "name": "s",
            "source": {"kind": "generator"},
            "tasks": {"acceptability": {}, "inference": {"methods": ["ce", "acl"]}},
            "encoders": {"tiny": {"path": "x"}},
            "methods": METHODS,
            "seeds": [1, 2],
            "analyses": analyses,
        }
        | more
    )


def audit(**keys: Any) -> Study:
    return study({"audit": keys})


def world(of: Study, choice: str) -> dict[str, str]:
    (found,) = [world["methods"] for world in of.worlds if world["choice"] == choice]
    return found


def test_a_study_without_analyses_has_no_variants() -> None:
    assert study({}).variants == ()


def test_a_variant_is_named_by_what_differs_and_runs_where_its_method_does() -> None:
    ours = audit(choices=["temperature"])
    assert world(ours, "temperature") == {
        "ce_scl": "ce_scl@temperature=0.1",
        "acl_embed": "acl_embed@temperature=0.1",
        "acl": "acl@temperature=0.1",
        "acl_cl": "acl_cl@teacher=acl@temperature=0.1,temperature=0.1",
    }
    assert ours.method_rows["acl@temperature=0.1"].temperature == 0.1
    on_inference = ours.methods_of("inference", "tiny")
    assert on_inference == ["ce", "acl", "acl@temperature=0.1"]


def test_a_student_learns_from_its_teacher_as_it_is_in_that_world() -> None:
    ours = audit(choices=["anchors"])
    assert world(ours, "anchors")["acl_cl"] == "acl_cl@teacher=acl@anchors=samples"
    row = ours.method_rows["acl_cl@teacher=acl@anchors=samples"]
    assert row.teacher == "acl@anchors=samples"
    assert ours.is_teacher("acl@anchors=samples", "tiny")
    # So it does where the teacher itself is not asked for.
    alone = audit(choices=["anchors"], methods=["acl_cl"])
    assert world(alone, "anchors")["acl"] == "acl@anchors=samples"


def test_analyses_that_need_the_same_runs_share_them() -> None:
    both = study(
        {
            "audit": {"choices": ["temperature"], "methods": ["acl"]},
            "sensitivity": {"methods": ["acl"], "tasks": ["acceptability"]},
        }
    )
    assert len(both.variants) == len(set(both.variants))
    points = both.points
    assert len(points) == 2 * (5 + 4)
    own = [p for p in points if p["combination"] == "additive" and p["key"] == "temperature"]
    assert {p["value"]: p["method"] for p in own} == {
        0.05: "acl@temperature=0.05",
        0.1: "acl@temperature=0.1",
        0.3: "acl",
        0.5: "acl@temperature=0.5",
    }
    # Asked for on inference by the audit, and by the sensitivity only elsewhere.
    assert both.methods_of("inference", "tiny") == ["ce", "acl", "acl@temperature=0.1"]


def test_training_keys_of_a_method_are_its_own() -> None:
    ours = audit(choices=["group_by_length"], methods=["ce"])
    assert world(ours, "group_by_length") == {"ce": "ce@training.group_by_length=false"}
    plain = ours.run_settings("acceptability", "tiny", "ce", 1)
    varied = ours.run_settings("acceptability", "tiny", "ce@training.group_by_length=false", 1)
    assert (plain.training.group_by_length, varied.training.group_by_length) == (True, False)
    assert varied.training == plain.training.model_copy(update={"group_by_length": False})


def test_the_keys_a_method_brings_do_not_change_what_a_run_is() -> None:
    """A run is what it was trained with, wherever that was written."""
    shuffled = {"training": {"group_by_length": False}}
    cell = ("acceptability", "tiny", "ce", 1)
    brought = study({}, methods=METHODS | {"ce": shuffled}).run_settings(*cell)
    given = study({}, **shuffled).run_settings(*cell)
    assert brought.determinants() == given.determinants()


def test_a_tuned_methods_variants_have_its_lambda_but_where_they_are_about_it() -> None:
    ours = study(
        {"sensitivity": {"methods": ["acl"], "lambdas": [0.5], "temperatures": [0.1]}},
        tuning={"enabled": True},
    )
    found = {(p["combination"], p["key"]): p["method"] for p in ours.points}
    assert found["additive", "lambda"] == "acl@lambda=0.5"  # not acl, whose λ is chosen
    assert ours.lambda_of("acl@lambda=0.5") is None
    assert ours.lambda_of("acl@temperature=0.1") == "acl"
    assert ours.lambda_of("acl") == "acl"
    assert not ours.is_tuned("acl@temperature=0.1")


def test_every_choice_can_be_made_for_every_row_that_it_names() -> None:
    rows = known_methods()
    for name, choice in choices().items():
        assert set(choice.methods) <= set(rows), name
    every = study(
        {"audit": {"variants": "all"}},
        tasks={"acceptability": {}},
        methods={name: {} for name in rows},
    )
    worlds = every.worlds
    assert len(worlds) == sum(len(choice.variants) for choice in choices().values())
    for world in worlds:
        for method in choices()[world["choice"]].methods:
            assert world["methods"].get(method, method) != method, (world["choice"], method)


def test_the_pilot_trains_again_only_what_does_not_observe_anyway() -> None:
    asked = {"gradients": {"tasks": ["acceptability"]}}
    ours = study(asked)
    assert ours.observed == {
        "ce_scl": "ce_scl@gate.mode=log_only",
        "acl_embed": "acl_embed@gate.mode=log_only",
    }
    assert "ce_scl@gate.mode=log_only" not in ours.methods_of("inference", "tiny")
    observing = {"ce_scl": {"gate": {"mode": "log_only"}}}
    ours = study(asked, methods=METHODS | observing)
    assert ours.observed["ce_scl"] == "ce_scl"
    # They are shown without being asked for.
    assert study({}, methods=METHODS | observing).observed == {"ce_scl": "ce_scl"}


def test_the_pilots_methods_are_observed_in_every_world() -> None:
    ours = study({"gradients": {"methods": ["ce_scl"]}, "audit": {"choices": ["temperature"]}})
    assert world(ours, "temperature")["ce_scl"] == "ce_scl@gate.mode=log_only,temperature=0.1"
    assert world(ours, "temperature")["acl_embed"] == "acl_embed@temperature=0.1"


def test_a_world_knows_what_it_is_about_varied_or_not() -> None:
    ours = audit(choices=["anchors"], methods=["acl"])
    (found,) = ours.worlds
    assert set(found["methods"]) == {"acl"}
    assert set(found["about"]) == {"acl_embed", "acl", "acl_cl"}


def test_a_study_that_lacks_a_teacher_says_so_with_an_audit_too() -> None:
    with pytest.raises(InputError, match="methods.acl_cl.teacher: acl is not among the methods"):
        study({"audit": {}}, methods={"ce": {}, "acl_cl": {}}, tasks={"acceptability": {}})
    circle = {"a": {"like": "acl_cl", "teacher": "b"}, "b": {"like": "acl_cl", "teacher": "a"}}
    with pytest.raises(InputError, match="taught by a in turn"):
        study({"audit": {}}, methods=circle, tasks={"acceptability": {}})


def test_a_lambda_is_never_tuned_by_the_dev_set() -> None:
    with pytest.raises(InputError, match="training.selection_split: dev, but λ of"):
        study({}, training={"selection_split": "dev"}, tuning={"enabled": True})
    study({"audit": {"choices": ["selection_split"]}}, tuning={"enabled": True})


def test_what_the_study_has_already_is_no_other_way() -> None:
    shuffled = audit(choices=["group_by_length"]).model_copy()
    assert shuffled.worlds
    ours = study({"audit": {"choices": ["group_by_length"]}}, training={"group_by_length": False})
    assert ours.worlds == [] and ours.variants == ()


def test_an_id_stays_short_enough_for_a_file_name() -> None:
    keys = {
        "temperature": 0.123456789,
        "lambda": 0.123456789,
        "combination": "convex",
        "normalize": False,
        "reduction": "sum",
        "representation": "cls",
    }
    own = {"title": "x", "default": "y", "methods": ["acl", "acl_cl"], "variants": {"z": keys}}
    found = world(audit(choices=["x"], methods=["acl"], more={"x": own}), "x")["acl"]
    assert len(found) < 120 and found.startswith("acl@")


def test_defaults_of_an_analysis_are_of_what_the_study_has() -> None:
    ours = study(
        {"sensitivity": {}, "gradients": {}},
        methods={"ce": {}, "acl": {}},
        tasks={"acceptability": {}},
    )
    assert {point["of"] for point in ours.points} == {"acl"}
    assert ours.observed == {}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"like": "ce", "title": "ACL"}, ["acl"]),
        ({"gate": {"mode": "pcgrad"}}, ["acl"]),
        ({"contrastive": "scl"}, ["acl"]),
        ({"temperature": 0.1}, []),
        ({"like": "acl", "title": "A", "temperature": 0.1}, []),
    ],
)
def test_another_method_under_a_known_id_is_told(row: dict[str, Any], expected: list[str]) -> None:
    ours = study({}, methods={"ce": {}, "acl": row}, tasks={"acceptability": {}})
    assert ours.unlike == set(expected)


def test_a_choice_of_the_studys_own() -> None:
    own = {
        "title": "rate",
        "default": "2e-5",
        "methods": ["ce"],
        "variants": {"1e-4": {"training": {"learning_rate": 1e-4}}},
    }
    ours = audit(choices=["rate"], more={"rate": own})
    assert world(ours, "rate")["ce"] == "ce@training.learning_rate=0.0001"


@pytest.mark.parametrize(
    ("analyses", "said"),
    [
        (
            {"audit": {"choices": ["temprature"]}},
            "analyses.audit.choices: 'temprature'.*temperature",
        ),
        ({"audit": {"tasks": ["rte"]}}, "analyses.audit.tasks: 'rte'"),
        ({"audit": {"encoders": ["bert"]}}, "analyses.audit.encoders: 'bert'"),
        ({"audit": {"methods": ["jt_acl"]}}, "analyses.audit.methods: 'jt_acl'"),
        ({"sensitivity": {"methods": ["acl_cl"]}}, "sensitivity.methods: acl_cl has a teacher"),
        ({"sensitivity": {"methods": ["ce"]}}, "sensitivity.methods: ce has .* no contrastive"),
        ({"sensitivity": {"lambdas": [1.5]}}, "lambda: 1.5 is above 1"),
        ({"sensitivity": {"lambdas": [0.5, 0.5]}}, "names one of them twice"),
        ({"audit": {"choices": ["anchors", "anchors"]}}, "names one of them twice"),
        (
            {
                "audit": {
                    "more": {
                        "x": {
                            "title": "x",
                            "default": "y",
                            "methods": ["acl"],
                            "variants": {"v": {"title": "../z"}},
                        }
                    }
                }
            },
            "variants.v.title: unknown key",
        ),
        (
            {
                "audit": {
                    "choices": ["x"],
                    "more": {
                        "x": {
                            "title": "x",
                            "default": "y",
                            "methods": ["acll"],
                            "variants": {"v": {"temperature": 1}},
                        }
                    },
                }
            },
            "'acll'.*acl",
        ),
        ({"clusters": ["acl_cll"]}, "analyses.clusters: 'acl_cll'.*acl_cl"),
        ({"ablation": {"acl": ["cee"]}}, "analyses.ablation.acl: 'cee'"),
        ({"gradients": {"methods": ["acl"]}}, "gradients.methods: the gate of acl acts"),
        ({"gradients": {"methods": ["ce"]}}, "gate.mode: log_only needs an auxiliary loss"),
        ({"sensitivity": {"lambda": [0.5]}}, "did you mean 'lambdas'"),
        ({"audit": {"more": {"x": {"title": "x"}}}}, "analyses.audit.more.x.default: is missing"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(analyses: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(analyses)
