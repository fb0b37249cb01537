"""Which tables and figures a study has."""

import subprocess
import sys

import pytest

from acl_bert.study.layout import outputs

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
        ([], [], []),
    ],
)
def test_outputs_are_those_of_the_methods_that_run(
    methods: list[str], tables: list[str], figures: list[str]
) -> None:
    cells = [("rte", "base", method) for method in methods]
    teachers = {"acl_cl": "ce", "short": "ce"}
    assert outputs(cells, ["jt", "acl_cl"], teachers) == (tables, figures)


def test_the_workflow_can_ask_without_waiting_for_pandas() -> None:
    code = (
        "import sys, acl_bert.study.layout\n"
        "print({'pandas', 'matplotlib', 'seaborn', 'torch'} & set(sys.modules))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "set()"
