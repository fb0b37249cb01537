"""One writer a run, on one machine and on several."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acl_bert.errors import TrainingError
from acl_bert.runs import lease
from acl_bert.runs.lease import hold, is_held


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL", 0.01)


def nothing(line: str) -> None:
    pass


def holder_in_another_process(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lease until it is killed."""
    code = (
        "import sys, time; from pathlib import Path; from acl_bert.runs.lease import hold\n"
        "with hold(Path(sys.argv[1]), print):\n  print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_is_there_while_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "new" / ".run.lease"
    assert not is_held(path)
    with hold(path, nothing) as mine:
        assert mine.look() and is_held(path)
        mine.check()
        assert f"pid={os.getpid()}\n" in path.read_text()
    assert not path.exists() and not is_held(path)


def test_who_comes_second_waits_and_says_for_whom(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    process = holder_in_another_process(path)
    said: list[str] = []

    def kill() -> None:
        process.kill()
        process.wait()  # a zombie would count as alive

    threading.Timer(0.5, kill).start()
    with hold(path, said.append):
        assert process.returncode == -signal.SIGKILL  # held only once the other was dead
    assert len(said) == 1
    assert f"process {process.pid} on" in said[0]


def _add_one(arguments: tuple[Path, Path]) -> None:
    path, total = arguments
    for _ in range(20):
        with hold(path, nothing):
            number = int(total.read_text())
            time.sleep(0.001)
            total.write_text(str(number + 1))


def test_many_that_come_and_go_are_never_two_at_once(tmp_path: Path) -> None:
    """Removing a lease while another waits for it is where two could get in."""
    total = tmp_path / "total"
    total.write_text("0")
    with multiprocessing.get_context("fork").Pool(6) as pool:
        pool.map(_add_one, [(tmp_path / ".run.lease", total)] * 6)
    assert total.read_text() == "120"


def of_another_machine(path: Path, seconds_ago: float = 0.0) -> str:
    """As another machine's holder leaves it, who touched it so long ago; its content."""
    with hold(path, nothing):
        content = path.read_text()
    fields = (line if not line.startswith("host=") else "host=b" for line in content.splitlines())
    path.write_text("\n".join(fields).replace(f"pid={os.getpid()}", "pid=7") + "\n")
    moment = time.time() - seconds_ago
    os.utime(path, (moment, moment))
    return path.read_text()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def test_another_machines_counts_while_it_is_touched(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    of_another_machine(path, seconds_ago=lease.LOST - 60)
    assert is_held(path)
    said: list[str] = []
    threading.Timer(0.3, path.unlink).start()
    with hold(path, said.append):
        pass
    assert "process 7 on b" in said[0]
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_not_touched_for_long_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".run.lease"
    of_another_machine(path, seconds_ago=lease.LOST + 1)
    assert not is_held(path)
    path.unlink()
    monkeypatch.setattr(lease, "LOST", 0.5)
    monkeypatch.setattr(lease, "BEAT", 0.1)
    of_another_machine(path)
    assert is_held(path)
    with hold(path, nothing) as mine:  # after half a second in which nobody touches it
        assert mine.look()


def test_who_lost_it_must_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    with hold(path, nothing) as mine:
        path.unlink()
        theirs = of_another_machine(path)
        mine.check()  # it has not looked yet
        assert not mine.look()
        with pytest.raises(TrainingError, match="another process has taken this run over"):
            mine.check()
    assert path.read_text() == theirs  # nor remove the other's


def test_a_beat_touches_it_and_finds_out_that_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.01)
    path = tmp_path / ".run.lease"
    with hold(path, nothing) as mine:
        os.utime(path, (0, 0))
        until(lambda: path.stat().st_mtime > 0)
        mine.check()
        path.unlink()
        deadline = time.monotonic() + 30
        with pytest.raises(TrainingError, match="it stops here"):
            while time.monotonic() < deadline:
                mine.check()


def test_a_file_system_that_is_away_for_a_while_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(path: Path) -> bytes:
        raise OSError(errno.ESTALE, "Stale file handle")

    with hold(tmp_path / ".run.lease", nothing) as mine:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", away)
            assert mine.look()
        mine.check()
        assert mine.look()
