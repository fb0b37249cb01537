"""Which tables and figures a study has."""

import subprocess
import sys

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
    assert layout.outputs == (tables, figures)


def test_the_workflow_can_ask_without_waiting_for_pandas() -> None:
    code = (
        "import sys, acl_bert.study.layout\n"
        "print({'pandas', 'matplotlib', 'seaborn', 'torch'} & set(sys.modules))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "set()"
