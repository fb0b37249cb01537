"""What make would run, read by the shell that would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pretend_gpus import CUT, TWO, nvidia_smi

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


def limits(*arguments: str, path: Path, **environment: str) -> str:
    """What Snakemake is told to run at a time, by `make reproduce`."""
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"} | environment
    lines = subprocess.run(
        ["make", "-n", "reproduce", f"VENV={sys.prefix}", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    command = next(line for line in lines if "--profile" in line)
    return subprocess.run(
        ["bash", "-c", "echo " + command], env=environment, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_by_default_a_job_a_gpu(tmp_path: Path) -> None:
    tool = nvidia_smi(tmp_path / "bin", CUT)
    assert " --resources gpu=4 " in limits(path=tool)
    assert " --resources gpu=3 " in limits(path=tool, CUDA_VISIBLE_DEVICES="0")
    assert " --resources gpu=1 " in limits(path=tool, CUDA_VISIBLE_DEVICES="")
    assert " --cores 2 --resources gpu=8 " in limits("GPU_SLOTS=8", "JOBS=2", path=tool)
    slurm = limits("PROFILE=slurm", "JOBS=50", path=tool)
    assert " --jobs 50 " in slurm and "gpu=" not in slurm


def test_help_asks_for_no_gpu(tmp_path: Path) -> None:
    tool = nvidia_smi(tmp_path / "bin", TWO)
    environment = os.environ | {"PATH": f"{tool}:{os.environ['PATH']}"}
    subprocess.run(["make", "help"], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert not (tool / "called").exists()


@pytest.mark.parametrize("name", ["JOBS", "GPU_SLOTS"])
@pytest.mark.parametrize("value", ["0", "-1", "abc", "1.5", "2 3"])
def test_a_wrong_number_is_refused(name: str, value: str) -> None:
    done = subprocess.run(
        ["make", "-n", "reproduce", f"{name}={value}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert f"{name}={value}: give a whole number, 1 or more" in done.stderr


def test_the_plan_is_of_what_would_be_run(tmp_path: Path) -> None:
    arguments = ["plan", f"GLUE_DIR={tmp_path}", "PROFILE=slurm", "JOBS=50"]
    lines = subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert f'--glue-dir "{tmp_path}"' in lines and "--jobs 50" in lines
    assert "snakemake" not in lines
    lines = subprocess.run(
        ["make", "-n", "plan", "PROFILE=slurm"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "--jobs 200" in lines, "the profile's"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("CONFIG=no such.yaml", "CONFIG=no such.yaml: no such file"),
        ("PROFILE=lokal", "PROFILE=lokal: give one of these: cluster-generic local slurm"),
    ],
)
@pytest.mark.parametrize("target", ["plan", "reproduce", "resume"])
def test_what_is_not_there_is_named_before_anything_starts(
    target: str, argument: str, said: str
) -> None:
    command = ["make", "--no-print-directory", target, argument]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert said in ended.stderr and "Traceback" not in ended.stderr and not ended.stdout
