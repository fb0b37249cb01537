"""What make would run, read by the shell that would run it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo"],
        ["test"],
        ["ui", "CONFIG=my study.yaml"],
        ["reproduce"],
        ["plan", "CONFIG=my study.yaml", "HARDWARE=A100"],
        ["reproduce", "CONFIG=my study.yaml", "GLUE_DIR=/my glue", "JOBS=2"],
    ],
)
def test_every_line_is_one_that_a_shell_can_read(arguments: list[str]) -> None:
    lines = subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    subprocess.run(["bash", "-n"], input=lines, text=True, check=True)


def test_a_folder_of_glue_reaches_the_workflow_as_one_word(tmp_path: Path) -> None:
    folder = tmp_path / "my glue"
    folder.mkdir()
    lines = subprocess.run(
        ["make", "-n", "reproduce", f"GLUE_DIR={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    command = next(line for line in lines if "--profile" in line)
    printed = subprocess.run(
        ["bash", "-c", 'printf "%s\\n" ' + command], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert f"source={{kind: glue, folder: '{folder}'}}" in printed
