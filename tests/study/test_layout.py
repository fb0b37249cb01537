"""Which tables and figures a study has."""

import subprocess
import sys
from typing import Any

import pytest

from acl_bert.study.layout import layout_of

ALL = ["ce", "jt", "acl_cl", "short"]


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
def test_outputs_are_those_of_the_methods_that_run(
    methods: list[str], tables: list[str], figures: list[str]
) -> None:
    cells = [("rte", "base", method) for method in methods]
    teachers = {"acl_cl": "ce", "short": "ce"}
    layout = layout_of(
        *("study", {}, {}, {}, [1], cells, ["jt", "acl_cl"], teachers),
        variants=["acl@temperature=0.1"],
    )
    assert layout.outputs == ([*tables, "claims"], figures)


def test_each_analysis_has_its_table_where_it_has_runs() -> None:
    cells = [("rte", "base", method) for method in ("ce", "ce_scl", "acl", "jt_scl")]
    points = [
        {"of": "acl", "combination": "convex", "key": "lambda", "value": v, "method": "acl"}
        for v in (0.1, 0.9)
    ]
    world = {"choice": "c", "title": "c", "default": "x", "variant": "y", "methods": {"acl": "ce"}}
    every: dict[str, Any] = {
        "gradients": {"observed": {"ce_scl": "ce_scl"}},
        "sensitivity": {"sensitivity": points},
        "ablation": {"ablation": {"acl": ["ce"]}},
        "clusters": {"clusters": ["jt_scl", "acl_cl"]},
        "audit": {"audit": [world]},
    }
    common = ("study", {}, {}, {}, [1], cells, ["jt_scl"], {})
    without = layout_of(*common).outputs
    for name, analysis in every.items():
        tables, figures = layout_of(*common, **analysis).outputs
        assert set(tables) - set(without[0]) == {name}
        assert set(figures) - set(without[1]) == ({name} - {"audit"})


def test_the_workflow_can_ask_without_waiting_for_pandas() -> None:
    code = (
        "import sys, acl_bert.study.layout\n"
        "print({'pandas', 'matplotlib', 'seaborn', 'torch'} & set(sys.modules))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "set()"
