"""Which tables and figures a study has, and where they are listed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acl_bert.study.exhibits import EXHIBITS, figures_of, outputs_table, tables_of
from acl_bert.study.layout import Layout, Point, World

README = Path(__file__).parents[2] / "README.md"
ALL = ["ce", "jt", "acl_cl", "short"]


def layout_of(methods: list[str]) -> Layout:
    return Layout(
        *("study", {}, {}, {}, (1,), frozenset(("rte", "base", method) for method in methods)),
        multi_exit=frozenset({"jt", "acl_cl", "jt_scl"}),
        teachers={"acl_cl": "ce", "short": "ce"},
        variants=frozenset({"acl@temperature=0.1"}),
    )


def names(layout: Layout) -> tuple[list[str], list[str]]:
    tables, figures = tables_of(layout), figures_of(layout)
    return [each.name for each, _ in tables], [each.name for each, _ in figures]


@pytest.mark.parametrize(
    ("methods", "tables", "figures"),
    [
        (["ce"], ["finetuning"], ["finetuning"]),
        (["jt"], ["multi_exit", "quality_speed"], ["layer_scores", "quality_speed"]),
        (["acl_cl"], ["multi_exit", "quality_speed"], ["layer_scores", "quality_speed"]),
        (["short"], ["multi_exit"], ["layer_scores"]),
        (
            ALL,
            ["finetuning", "multi_exit", "quality_speed"],
            ["finetuning", "layer_scores", "quality_speed"],
        ),
        (["acl@temperature=0.1"], [], []),
        ([], [], []),
    ],
)
def test_exhibits_are_those_of_the_methods_that_run(
    methods: list[str], tables: list[str], figures: list[str]
) -> None:
    assert names(layout_of(methods)) == ([*tables, "claims"], figures)


def test_each_analysis_has_its_table_where_it_has_runs() -> None:
    every: dict[str, Any] = {
        "gradients": {"observed": {"ce_scl": "ce_scl"}},
        "sensitivity": {"sensitivity": (Point("acl", "convex", "lambda", 0.1, "acl"),)},
        "ablation": {"ablation": {"acl": ("ce",)}},
        "clusters": {"clusters": ("jt_scl", "acl_cl")},
        "audit": {"audit": (World("c", "c", "x", "y", {"acl": "ce"}),)},
    }
    without = layout_of(["ce", "ce_scl", "acl", "jt_scl"])
    for name, analysis in every.items():
        for found, others in zip(names(replace(without, **analysis)), names(without), strict=True):
            assert set(found) - set(others) <= {name}
        assert name in names(replace(without, **analysis))[0]


def test_readme_lists_the_exhibits() -> None:
    """Where it does not: paste `outputs_table()` between the two marks."""
    _, listed, _ = README.read_text("utf-8").split("<!-- exhibits -->\n")
    assert listed == outputs_table() + "\n"


def test_names_are_taken_once() -> None:
    assert len({each.name for each in EXHIBITS}) == len(EXHIBITS)


def test_the_workflow_can_ask_without_waiting_for_pandas() -> None:
    code = (
        "import sys, acl_bert.study.exhibits\n"
        "print({'pandas', 'matplotlib', 'seaborn', 'torch'} & set(sys.modules))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "set()"
