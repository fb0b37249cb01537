"""One writer a run, on one machine and on several."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
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
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists() and not is_held(path)


def test_who_comes_second_waits_and_says_for_whom(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    process = holder_in_another_process(path)
    said: list[str] = []
    timer = threading.Timer(0.5, process.kill)
    timer.start()
    with hold(path, said.append):
        assert process.wait() == -signal.SIGKILL  # held only once the other was dead
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


def of_another_machine(path: Path, seconds_ago: float) -> None:
    """As another machine's holder leaves it where the file system passes no locks on."""
    path.write_text(json.dumps({"token": "theirs", "machine": "b", "host": "b", "pid": 7}))
    moment = time.time() - seconds_ago
    os.utime(path, (moment, moment))


def test_another_machines_counts_while_it_is_touched(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    of_another_machine(path, seconds_ago=lease.LOST - 60)
    assert is_held(path)
    said: list[str] = []
    timer = threading.Timer(0.3, of_another_machine, (path, lease.LOST + 1))
    timer.start()
    with hold(path, said.append):
        pass
    assert "process 7 on b" in said[0]
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_not_touched_for_long_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    of_another_machine(path, seconds_ago=lease.LOST + 1)
    assert not is_held(path)
    with hold(path, pytest.fail) as mine:
        assert mine.look()


def test_who_lost_it_must_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    with hold(path, nothing) as mine:
        of_another_machine(path, seconds_ago=0)
        mine.check()  # it has not looked yet
        assert not mine.look()
        with pytest.raises(TrainingError, match="another process has taken this run over"):
            mine.check()
    assert json.loads(path.read_text())["token"] == "theirs"  # nor remove the other's


def test_it_is_touched_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.01)  # after the first, at POLL
    path = tmp_path / ".run.lease"
    with hold(path, nothing):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that has none."""

    def flock(stream: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_sign_of_life_counts_on_one_machine_too(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with hold(path, said.append):
            entered.set()

    thread = threading.Thread(target=second)
    with hold(path, nothing):
        assert is_held(path)
        thread.start()
        assert not entered.wait(0.5) and len(said) == 1
    assert entered.wait(30)
    thread.join()


@pytest.mark.usefixtures("without_locks")
def test_of_two_that_come_at_once_one_learns_it_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".run.lease"
    with hold(path, nothing) as first:
        # Both had seen an empty file.
        monkeypatch.setattr(lease, "_is_anothers", lambda *of: False)
        with hold(path, nothing) as second:
            assert second.look()
            deadline = time.monotonic() + 30
            with pytest.raises(TrainingError, match="both came at once"):
                while time.monotonic() < deadline:
                    first.check()


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


def test_a_reader_never_finds_it_empty_between_two_holders(tmp_path: Path) -> None:
    path = tmp_path / ".run.lease"
    of_another_machine(path, seconds_ago=lease.LOST + 1)
    with hold(path, nothing):
        assert path.stat().st_size == lease.WIDTH
        assert json.loads(path.read_text())["pid"] == os.getpid()
