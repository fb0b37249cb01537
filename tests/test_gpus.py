"""Which GPUs there are for a process, and which one a job takes: pretend ones, and jobs that only
look at what they were given.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pretend_gpus import CUT, FIRST, PARENT, SECOND, SLICES, TWO, WHOLE, nvidia_smi

from acl_bert.gpus import visible_gpus

JOB = (
    "import os; from acl_bert.gpus import claim_gpu\n"
    "print(claim_gpu(), os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); input()"
)


class Jobs:
    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.running: list[subprocess.Popen[str]] = []

    def start(self, visible: str | None, nvidia_smi: Path | None = None) -> tuple[str, str]:
        """What a new job claimed, and what it then sees."""
        environment = {"PATH": str(nvidia_smi or ""), "TMPDIR": str(self._scratch)}
        environment |= {"PYTHONPATH": ":".join(sys.path)}
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


def test_jobs_told_by_number_and_by_uuid_see_each_other(jobs: Jobs, tmp_path: Path) -> None:
    tool = nvidia_smi(tmp_path / "bin", TWO)
    told = ("0,1", f"{SECOND},{FIRST}", None, "1,0")
    assert Counter(jobs.start(each, tool)[0] for each in told) == {FIRST: 2, SECOND: 2}


def test_each_job_takes_a_slice_of_a_cut_gpu(jobs: Jobs, tmp_path: Path) -> None:
    tool = nvidia_smi(tmp_path / "bin", CUT)
    assert {jobs.start("0", tool)[0] for _ in SLICES} == set(SLICES)


@pytest.mark.parametrize(
    ("listed", "visible", "expected"),
    [
        (TWO, None, [FIRST, SECOND]),
        (TWO, "1", [SECOND]),
        (TWO, " 1 , 0 ", [SECOND, FIRST]),
        (TWO, "", []),
        (TWO, "-1", []),
        (TWO, "NoDevFiles", []),
        (TWO, "0,-1,1", [FIRST]),  # as CUDA has it
        (TWO, "1,2,0", [SECOND]),
        (TWO, "0,0", [FIRST]),
        (TWO, SECOND, [SECOND]),
        (TWO, "GPU-8f0,0", [SECOND, FIRST]),
        (TWO, "GPU-8f", []),  # either
        (CUT, None, [*SLICES, WHOLE]),
        (CUT, "0", SLICES),
        (CUT, "1", [WHOLE]),
        (CUT, "1,0", [WHOLE, *SLICES]),
        (CUT, PARENT, SLICES),
        (CUT, "GPU-5d5b", SLICES),
        (CUT, f"{SLICES[1]},MIG-1e9", SLICES[1:]),
        ("No devices found.\n", None, []),
        ("", "0", []),
    ],
)
def test_what_is_visible(
    listed: str,
    visible: str | None,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path, listed)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.name for gpu in visible_gpus()] == expected


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, []), ("0,1", ["0", "1"]), ("", []), ("1,-1", ["1"])]
)
@pytest.mark.parametrize("there", [True, False])
def test_without_an_answer_the_variable_says(
    visible: str | None,
    expected: list[str],
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path, failing, 9) if there else tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.name for gpu in visible_gpus()] == expected


def test_what_a_gpu_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path, CUT)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    titles = [gpu.title for gpu in visible_gpus()]
    assert titles[1] == "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert titles[3] == "NVIDIA A100-SXM4-40GB"
