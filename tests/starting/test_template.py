"""A job is forked from a process that has imported everything, and nobody notices."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acl_bert.processes import started
from acl_bert.starting import client
from acl_bert.starting.template import what_has_happened

SERVED = Path(__file__).with_name("served.py")
JOB = """
import sys
from acl_bert.processes import started
from acl_bert.starting import client
status = client.run_by_template(sys.argv[1:])
print("here") if status is None else sys.exit(status)
"""


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for a workflow's process."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


class Jobs:
    """Starts jobs of a workflow, whose template's forks run `served.main`."""

    def __init__(self, folder: Path, owner: int) -> None:
        self._environment = os.environ | {client.OWNER: str(owner), "TMPDIR": str(folder)}
        self.folder = folder / f"acl-bert-{os.getuid()}" / "templates"
        self._owner = owner
        self.template: subprocess.Popen[bytes] | None = None

    def serve(self, idle: float = 60.0) -> None:
        place = self._address()
        self.template = subprocess.Popen(
            [sys.executable, str(SERVED), str(place), str(self._owner), str(idle)]
        )
        until(place.exists)

    def _address(self) -> Path:
        code = (
            "from acl_bert.starting import client; import os; "
            "print(client._private_folder() / client._name(int(os.environ[client.OWNER])))"
        )
        named = subprocess.run(
            [sys.executable, "-c", code], env=self._environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return Path(named.stdout.strip() + ".socket")

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        options.setdefault("stdout", subprocess.PIPE)
        environment = self._environment | options.pop("env", {})
        return subprocess.Popen(
            [sys.executable, "-c", JOB, "finetune", *arguments],
            env=environment, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip


@pytest.fixture
def jobs(owner: subprocess.Popen[bytes]) -> Iterator[Jobs]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # as a socket's path has to be
        started = Jobs(Path(short), owner.pid)
        yield started
        if started.template:
            started.template.kill()
            started.template.wait()


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    return started(pid) is not None


def waiting(jobs: Jobs, path: Path) -> tuple["subprocess.Popen[str]", int]:
    """A job that waits, and its fork's process id."""
    job = jobs.start("wait", str(path))
    until(lambda: path.exists() and path.read_text().isdigit())
    return job, int(path.read_text())


def test_a_job_has_its_own_place_and_streams(jobs: Jobs, tmp_path: Path) -> None:
    jobs.serve()
    (tmp_path / "here").mkdir()
    job = jobs.start(
        "say", cwd=tmp_path / "here", env={"ONLY_HERE": "yes"}, stdin=subprocess.PIPE,
        preexec_fn=lambda: os.umask(0o027) and None,
    )  # fmt: skip
    out, err = job.communicate("asked")
    assert out == f"out {tmp_path / 'here'} yes 0o27\n"
    assert err == "err asked\n"
    assert job.returncode == 7


@pytest.mark.parametrize(("what", "said"), [("raise", "RuntimeError: it went wrong"), ("exit", "")])
def test_an_exception_is_a_failure_with_its_traceback(jobs: Jobs, what: str, said: str) -> None:
    jobs.serve()
    job = jobs.start(what)
    _, err = job.communicate()
    assert job.returncode == 1 and said in err


def test_a_signal_reaches_the_fork(jobs: Jobs, tmp_path: Path) -> None:
    jobs.serve()
    job, fork = waiting(jobs, tmp_path / "mark")
    job.terminate()
    assert job.wait() == 3
    assert (tmp_path / "mark").read_text() == "told" and not runs(fork)


def test_a_fork_that_was_killed_is_a_job_that_was(jobs: Jobs, tmp_path: Path) -> None:
    jobs.serve()
    job, fork = waiting(jobs, tmp_path / "mark")
    os.kill(fork, signal.SIGKILL)
    assert job.wait() == 128 + signal.SIGKILL


def test_who_kills_the_job_kills_the_fork(jobs: Jobs, tmp_path: Path) -> None:
    jobs.serve()
    job, fork = waiting(jobs, tmp_path / "mark")
    job.kill()
    until(lambda: not runs(fork))


def test_where_the_template_is_killed_the_job_begins_again_by_itself(
    jobs: Jobs, tmp_path: Path
) -> None:
    jobs.serve()
    job, fork = waiting(jobs, tmp_path / "mark")
    assert jobs.template is not None
    jobs.template.kill()
    out, err = job.communicate()
    assert out == "here\n" and "it was killed" in err and not runs(fork)


def test_it_ends_with_its_workflow_and_tells_its_jobs(
    jobs: Jobs, owner: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    jobs.serve()
    job, fork = waiting(jobs, tmp_path / "mark")
    owner.kill()
    owner.wait()
    assert job.wait() == 3 and not runs(fork)
    assert jobs.template is not None and jobs.template.wait() == 0
    assert not list(jobs.folder.glob("*.socket"))


def test_it_ends_when_there_is_nothing_to_do(jobs: Jobs) -> None:
    jobs.serve(idle=0.0)
    assert jobs.template is not None and jobs.template.wait() == 0


def test_jobs_that_come_at_once_share_one_real_template(jobs: Jobs) -> None:
    """Which imports what a run needs: it refuses a config that is not there, as any process."""
    some = [jobs.start("--config", "none.yaml", "--task", "x", "--method", "y") for _ in range(3)]
    said = [job.communicate() for job in some]
    assert {job.returncode for job in some} == {2}, said
    assert all("none.yaml" in err for _, err in said) and not any(out for out, _ in said)
    assert len(list(jobs.folder.glob("*.socket"))) == 1
    own = jobs.start("--config", "none.yaml", "--task", "x", "--method", "y", env={"HF_X": "1"})
    own.communicate()
    assert len(list(jobs.folder.glob("*.socket"))) == 2, "what is read at import differs"


def test_without_a_workflow_or_for_another_verb_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_connect", lambda owner: pytest.fail("it asked"))
    monkeypatch.delenv(client.OWNER, raising=False)
    assert client.run_by_template(["finetune"]) is None
    monkeypatch.setenv(client.OWNER, str(os.getpid()))
    assert client.run_by_template(["tables"]) is None


def test_a_folder_that_others_may_write_to_is_not_used(jobs: Jobs) -> None:
    jobs.folder.mkdir(parents=True)
    jobs.folder.parent.chmod(0o777)
    out, err = jobs.start("say").communicate()
    assert out == "here\n" and "is not this user's alone" in err


def test_it_does_not_serve_with_a_thread_or_a_gpu_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from acl_bert.starting.template import *; import threading, time; {}print({})"
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); "
    for before, said in (("", "None"), (thread, "it has 2 threads")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(before, "what_has_happened()")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == said
    import torch

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "listdir", lambda path: ["1"])
    assert what_has_happened() == "it has used the GPU"


def test_the_socket_is_this_user_s_alone(jobs: Jobs) -> None:
    jobs.serve()
    (place,) = jobs.folder.glob("*.socket")
    assert place.stat().st_mode & 0o777 == 0o700
    assert jobs.folder.stat().st_mode & 0o777 == 0o700


def test_a_place_too_long_for_a_socket_is_said(jobs: Jobs, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    out, err = jobs.start("say", env={"TMPDIR": str(deep)}).communicate()
    assert out == "here\n" and "set TMPDIR to a shorter folder" in err
