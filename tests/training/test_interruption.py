"""A run that is cut short goes on where it was, and ends with the same numbers."""

import errno
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny_settings

from acl_bert.errors import Interrupted
from acl_bert.run_files import EPOCHS, HISTORY, METRICS, PREDICTIONS, RunFolder, work_path
from acl_bert.settings.study import Encoder, RunSettings
from acl_bert.settings.training import Training
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training import checkpoints, loop
from acl_bert.training import run as run_module
from acl_bert.training.hardware import settle
from acl_bert.training.run import finetune, open_run

TRAINING = Training(
    epochs=3, batch_size=16, accumulation=2, learning_rate=1e-3, device="cpu", batches="shuffled"
)
SAME = (METRICS, HISTORY, EPOCHS, PREDICTIONS)


class Runs:
    """Runs of one study folder each; `seed` and the method tell them apart."""

    def __init__(self, encoder: Path, tokens: Path) -> None:
        self._encoder, self._store = Encoder(path=str(encoder)), TokenStore(tokens)

    def settings(self, method: str, **training: object) -> RunSettings:
        return settle(tiny_settings(method, TRAINING.model_copy(update=training)))

    def __call__(
        self, study: Path, method: str, minutes: float = 10.0, **training: object
    ) -> tuple[RunFolder, list[str]]:
        """The finished run, and the lines it reported."""
        settings, said = self.settings(method, **training), []
        report: Callable[[str], None] = said.append
        target = study / "runs" / method
        with open_run(
            settings, self._encoder, self._store, study, target, None, minutes, report
        ) as opened:
            finetune(settings, self._encoder, self._store, opened, report=report)
        assert list((study / "work").iterdir()) == []
        return RunFolder(target), said


@pytest.fixture(scope="module")
def runs(tiny_encoder: Path, tiny_task: Path) -> Runs:
    return Runs(tiny_encoder, tiny_task)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> dict[str, RunFolder]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return {method: runs(folder, method)[0] for method in ("acl", "acl_gradvac", "jt_acl")}


def at_call(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, call: int, do: Callable[[], None]
) -> None:
    """Do something before the so-and-so-manieth call of a function."""
    function, calls = getattr(place, name), 0

    def counted(*args: Any, **options: Any) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            do()
        return function(*args, **options)

    monkeypatch.setattr(place, name, counted)


def stop_at(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, call: int, number: int
) -> None:
    """Send this process a signal then."""
    at_call(monkeypatch, place, name, call, lambda: os.kill(os.getpid(), number))


def assert_same(run: RunFolder, other: RunFolder) -> None:
    for name in SAME:
        assert (run.path / name).read_bytes() == (other.path / name).read_bytes(), name


@pytest.mark.parametrize(
    ("place", "name", "call"),
    [
        (loop, "training_step", 1),
        (loop, "training_step", 6),
        (loop, "training_step", 13),
        (loop, "predict", 2),  # of the selection split, in the second epoch
        (run_module, "predict", 1),  # of dev, after the training
    ],
)
@pytest.mark.parametrize("method", ["acl", "acl_gradvac", "jt_acl"])
def test_told_to_stop_it_goes_on_with_the_same_bits(
    tmp_path: Path,
    runs: Runs,
    undisturbed: dict[str, RunFolder],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    place: object,
    name: str,
    call: int,
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, place, name, call, signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"):
            runs(tmp_path, method)
    torch.manual_seed(12345)  # another process would start from elsewhere
    run, said = runs(tmp_path, method)
    assert any("goes on after update" in line for line in said)
    assert_same(run, undisturbed[method])
    assert run.timings()["interruptions"] == 1


def test_stopped_again_and_again_it_ends_the_same(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    while True:
        with monkeypatch.context() as patch:
            stop_at(patch, loop, "training_step", 5, signal.SIGINT)
            try:
                run, _ = runs(tmp_path, "acl")
                break
            except Interrupted:
                stops += 1
    assert stops >= 3
    assert run.timings()["interruptions"] == stops
    assert_same(run, undisturbed["acl"])


class Killed(BaseException):
    """Stands for the end of the process: nothing of it is handled on the way."""


def kill(
    runs: Runs, study: Path, monkeypatch: pytest.MonkeyPatch, call: int, method: str = "acl"
) -> Path:
    """Leave a run as SIGKILL would, with a checkpoint after every update; its checkpoints."""

    def die() -> None:
        raise Killed

    with monkeypatch.context() as patch:
        at_call(patch, loop, "training_step", call, die)
        with pytest.raises(Killed):
            runs(study, method, minutes=1e-9)
    (folder,) = (study / "work").glob("*.checkpoints")
    return folder


def test_killed_it_loses_what_came_after_the_last_checkpoint_only(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kill(runs, tmp_path, monkeypatch, call=9)
    assert [path.stem for path in sorted(folder.iterdir())] == ["000000003", "000000004"]
    # What the history got after the checkpoint is done, and written, again.
    (history,) = (tmp_path / "work").glob(f"*/{HISTORY}")
    with history.open("a") as stream:
        stream.write("5,2,0.1,0.1,,,,,,0.001,1.0,99\n6,2,0.")
    run, said = runs(tmp_path, "acl")
    assert "goes on after update 4 of 12, epoch 1" in said or "goes on after update 4" in said[1]
    assert_same(run, undisturbed["acl"])


@pytest.mark.parametrize("fault", ["torn", "damaged", "empty"])
def test_a_checkpoint_that_cannot_be_used_gives_way_to_the_one_before(
    tmp_path: Path,
    runs: Runs,
    undisturbed: dict[str, RunFolder],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    newest = max(kill(runs, tmp_path, monkeypatch, call=9).iterdir())
    content = bytearray(newest.read_bytes())
    if fault == "torn":
        newest.write_bytes(content[: len(content) // 2])
    elif fault == "damaged":
        content[-100] ^= 1  # one bit of a tensor
        newest.write_bytes(content)
    else:
        newest.write_bytes(b"")
    run, said = runs(tmp_path, "acl")
    assert "left out" in caplog.text and newest.name in caplog.text
    assert any("goes on after update 3 of" in line for line in said)
    assert_same(run, undisturbed["acl"])


def test_without_a_checkpoint_that_can_be_used_it_starts_over(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in kill(runs, tmp_path, monkeypatch, call=9).iterdir():
        path.write_bytes(b"no safetensors")
    run, said = runs(tmp_path, "acl")
    assert not any("goes on" in line for line in said)
    assert_same(run, undisturbed["acl"])


def test_a_history_that_lost_rows_is_not_gone_on_with(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(runs, tmp_path, monkeypatch, call=9)
    (history,) = (tmp_path / "work").glob(f"*/{HISTORY}")
    history.write_text(history.read_text()[:100])
    run, said = runs(tmp_path, "acl")
    assert not any("goes on" in line for line in said)
    assert_same(run, undisturbed["acl"])


def test_another_version_of_the_code_starts_over(
    tmp_path: Path,
    runs: Runs,
    undisturbed: dict[str, RunFolder],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("acl_bert.training.checkpoints._code", lambda: "of another commit")
        kill(runs, tmp_path, monkeypatch, call=9)
    run, said = runs(tmp_path, "acl")
    assert "another version of the code" in caplog.text
    assert not any("goes on" in line for line in said)
    assert_same(run, undisturbed["acl"])


def test_other_settings_leave_the_checkpoint_alone(
    tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kill(runs, tmp_path, monkeypatch, call=9)
    other = runs.settings("acl", learning_rate=2e-3)
    store, encoder = runs._store, runs._encoder
    said: list[str] = []
    with open_run(other, encoder, store, tmp_path, tmp_path / "runs" / "acl") as opened:
        assert opened.work != work_path(tmp_path, folder.stem)
        finetune(other, encoder, store, opened, report=said.append)
    assert not any("goes on" in line for line in said)
    assert len(list(folder.iterdir())) == 2
    assert json.loads((tmp_path / "runs/acl/config.json").read_text())["training"][
        "learning_rate"
    ] == pytest.approx(2e-3)


def test_a_full_disk_is_said_and_with_room_the_run_goes_on(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second checkpoint finds no room: the first is still there."""
    write, calls = checkpoints.write_tensors, 0

    def into_little_room(*args: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft if calls == 1 else 2**14, hard))
        try:
            write(*args, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_tensors", into_little_room)
        with pytest.raises(OSError) as raised:
            runs(tmp_path, "acl", minutes=1e-9)
    assert raised.value.errno == errno.EFBIG
    assert str(raised.value.filename).endswith("000000002.safetensors")
    run, said = runs(tmp_path, "acl")
    assert any("goes on after update 1 of" in line for line in said)
    assert_same(run, undisturbed["acl"])
