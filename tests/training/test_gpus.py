"""Which GPU a job takes: two pretend ones, and jobs that only look at what they were given."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

JOB = (
    "import os; from acl_bert.training.gpus import claim_gpu\n"
    "print(claim_gpu(), os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); input()"
)


class Jobs:
    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.running: list[subprocess.Popen[str]] = []

    def start(self, visible: str | None, nvidia_smi: Path | None = None) -> tuple[str, str]:
        """What a new job claimed, and what it then sees."""
        environment = {"PATH": str(nvidia_smi or ""), "TMPDIR": str(self._scratch)}
        environment |= {"PYTHONPATH": ":".join(sys.path), "USER": "somebody"}
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        process = subprocess.Popen(
            [sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip
        self.running.append(process)
        assert process.stdout is not None
        claimed, seen = process.stdout.readline().split()
        return claimed, seen

    def end(self, place: int) -> None:
        self.running[place].kill()
        self.running[place].wait()


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    running = Jobs(tmp_path)
    yield running
    for place in range(len(running.running)):
        running.end(place)


def test_four_jobs_share_two_gpus_evenly(jobs: Jobs) -> None:
    taken = [jobs.start("0,1") for _ in range(4)]
    assert all(claimed == seen for claimed, seen in taken)
    assert {claimed for claimed, _ in taken[:2]} == {"0", "1"}
    assert Counter(claimed for claimed, _ in taken) == {"0": 2, "1": 2}


def test_a_killed_jobs_gpu_is_free_at_once(jobs: Jobs) -> None:
    first, second = jobs.start("0,1")[0], jobs.start("0,1")[0]
    assert first != second
    jobs.end(0)
    assert jobs.start("0,1")[0] == first


def test_what_a_scheduler_gave_stays(jobs: Jobs) -> None:
    assert jobs.start("1") == ("None", "1")
    assert jobs.start("0,1")[0] == "0"  # the other was no choice, and is not counted


def test_only_visible_ones_are_taken(jobs: Jobs) -> None:
    assert {jobs.start("2,5")[0], jobs.start("2,5")[0]} == {"2", "5"}


def test_without_a_gpu_there_is_nothing_to_take(jobs: Jobs) -> None:
    assert jobs.start(None) == ("None", "None")


def test_all_of_a_machine_are_found(jobs: Jobs, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho GPU-aa\necho GPU-bb\n")
    tool.chmod(0o755)
    assert {jobs.start(None, tool.parent)[0] for _ in range(2)} == {"GPU-aa", "GPU-bb"}
