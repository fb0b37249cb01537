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
from safetensors import safe_open
from tiny_runs import tiny_settings, train_run

from acl_bert.config.training import Training
from acl_bert.errors import Interrupted, TrainingError
from acl_bert.runs.code import Code
from acl_bert.runs.files import EPOCHS, HISTORY, METRICS, PREDICTIONS, RunFolder
from acl_bert.training import checkpoints, finetune, loop
from acl_bert.training.checkpoints import CHECKPOINT
from acl_bert.training.interruption import interruptible

TRAINING = Training(
    epochs=3, batch_size=16, gradient_accumulation_steps=2, device="cpu", group_by_length=False
)
# With these the best epoch is the first of ACL and the last of the others.
RATES = {"acl": 1.5e-2, "acl_gradvac": 2e-2, "jt_acl": 2e-2}
BEST = {"acl": 1, "acl_gradvac": 3, "jt_acl": 3}
SAME = (METRICS, HISTORY, EPOCHS, PREDICTIONS)


class Runs:
    """Runs of one store each."""

    def __init__(self, encoder: Path, tokens: Path) -> None:
        self._encoder, self._tokens = encoder, tokens

    def __call__(
        self,
        store: Path,
        method: str,
        minutes: float = 10.0,
        keep_model: bool = False,
        code: Code | None = None,
        **training: object,
    ) -> tuple[RunFolder, list[str]]:
        """The finished run, and the lines it reported."""
        lines: list[str] = []
        training = {"learning_rate": RATES[method]} | training
        run = train_run(
            tiny_settings(method, TRAINING.model_copy(update=training)), self._encoder,
            self._tokens, store, keep_model=keep_model, minutes=minutes, report=lines.append,
            code=code,
        )  # fmt: skip
        return run, lines


@pytest.fixture(scope="module")
def runs(tiny_encoder: Path, tiny_task: Path) -> Runs:
    return Runs(tiny_encoder, tiny_task)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> dict[str, RunFolder]:
    folder = tmp_path_factory.mktemp("undisturbed")
    made = {method: runs(folder, method)[0] for method in RATES}
    assert {method: run.metrics()["selection"]["epoch"] for method, run in made.items()} == BEST
    return made


def at_call(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, call: int, do: Callable[[], None]
) -> None:
    """Do something before the so-and-so-manieth call of a function."""
    function, calls = getattr(module, name), 0

    def counted(*args: Any, **options: Any) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            do()
        return function(*args, **options)

    monkeypatch.setattr(module, name, counted)


def stop_at(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, call: int, number: int
) -> None:
    """Send this process a signal then."""
    at_call(monkeypatch, module, name, call, lambda: os.kill(os.getpid(), number))


def assert_same(run: RunFolder, other: RunFolder) -> None:
    for name in SAME:
        assert (run.path / name).read_bytes() == (other.path / name).read_bytes(), name


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (loop, "training_step", 1),
        (loop, "training_step", 6),
        (loop, "training_step", 13),
        (loop, "compute_logits", 2),  # of the selection split, in the second epoch
        (finetune, "compute_logits", 1),  # of dev, after the training
    ],
)
@pytest.mark.parametrize("method", ["acl", "acl_gradvac", "jt_acl"])
def test_told_to_stop_it_goes_on_with_the_same_bits(
    tmp_path: Path,
    runs: Runs,
    undisturbed: dict[str, RunFolder],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    module: object,
    name: str,
    call: int,
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, module, name, call, signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"):
            runs(tmp_path, method)
    torch.manual_seed(12345)  # another process would start from elsewhere
    run, lines = runs(tmp_path, method)
    assert any("goes on after update" in line for line in lines)
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_goes_on_too(
    tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its random state and the optimiser's, though a GPU promises no equal bits."""
    whole, _ = runs(tmp_path / "whole", "acl", device="cuda")
    with monkeypatch.context() as patch:
        stop_at(patch, loop, "training_step", 7, signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"):
            runs(tmp_path, "acl", device="cuda")
    torch.manual_seed(12345)
    run, _ = runs(tmp_path, "acl", device="cuda")
    losses, expected = ([row["loss"] for row in one.history()] for one in (run, whole))
    assert losses == pytest.approx(expected, rel=1e-3)


def test_a_second_sigterm_changes_nothing_and_a_second_sigint_stops_at_once() -> None:
    """SLURM repeats the one as a matter of course; who presses Ctrl-C again means it."""

    def usual(number: int, frame: object) -> None:
        raise AssertionError(f"{number} had its usual effect")

    before = signal.signal(signal.SIGTERM, usual)
    try:
        with pytest.raises(Interrupted, match="SIGTERM"), interruptible() as check:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            check()
        assert signal.getsignal(signal.SIGTERM) is usual
    finally:
        signal.signal(signal.SIGTERM, before)
    # A process that a script put into the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


class Killed(BaseException):
    """Stands for the end of the process: nothing of it is handled on the way."""


def kill(
    runs: Runs,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
    method: str = "acl",
    code: Code | None = None,
) -> Path:
    """Leave a run as SIGKILL would, with a checkpoint after every update; that file."""

    def die() -> None:
        raise Killed

    with monkeypatch.context() as patch:
        at_call(patch, loop, "training_step", call, die)
        with pytest.raises(Killed):
            runs(store, method, minutes=1e-9, code=code)
    (path,) = (store / "work").glob(f"*/{CHECKPOINT}")
    return path


def test_killed_it_loses_what_came_after_the_last_checkpoint_only(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(runs, tmp_path, monkeypatch, call=9)
    # What the history got after the checkpoint is done, and written, again.
    (history,) = (tmp_path / "work").glob(f"*/{HISTORY}")
    with history.open("a") as stream:
        stream.write("5,2,0.1,0.1,,,,,,0.001,1.0,99\n6,2,0.")
    run, lines = runs(tmp_path, "acl")
    assert "goes on after update 4 of 9, epoch 2" in lines
    assert_same(run, undisturbed["acl"])


@pytest.mark.parametrize("fault", ["torn", "damaged", "empty"])
def test_with_a_checkpoint_that_cannot_be_used_it_starts_over(
    tmp_path: Path,
    runs: Runs,
    undisturbed: dict[str, RunFolder],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    path = kill(runs, tmp_path, monkeypatch, call=9)
    content = bytearray(path.read_bytes())
    if fault == "torn":
        path.write_bytes(content[: len(content) // 2])
    elif fault == "damaged":
        content[-100] ^= 1  # one bit of a tensor
        path.write_bytes(content)
    else:
        path.write_bytes(b"")
    run, lines = runs(tmp_path, "acl")
    assert "left out" in caplog.text and path.name in caplog.text
    assert not any("goes on" in line for line in lines)
    assert_same(run, undisturbed["acl"])


def test_a_history_that_lost_rows_is_not_gone_on_with(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(runs, tmp_path, monkeypatch, call=9)
    (history,) = (tmp_path / "work").glob(f"*/{HISTORY}")
    history.write_text(history.read_text()[:100])
    run, lines = runs(tmp_path, "acl")
    assert not any("goes on" in line for line in lines)
    assert_same(run, undisturbed["acl"])


ANOTHER = Code(None, "another")


def test_another_version_of_the_code_starts_over(
    tmp_path: Path, runs: Runs, undisturbed: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kill(runs, tmp_path, monkeypatch, call=9, code=ANOTHER)
    run, lines = runs(tmp_path, "acl")
    assert not any("goes on" in line for line in lines)
    assert_same(run, undisturbed["acl"])
    assert path.is_file(), "the other code may go on with it"


def test_other_settings_leave_the_checkpoint_alone(
    tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kill(runs, tmp_path, monkeypatch, call=9)
    run, lines = runs(tmp_path, "acl", learning_rate=2e-3)
    assert run.run_hash != path.parent.name
    assert not any("goes on" in line for line in lines)
    assert path.is_file()
    assert run.config()["training"]["learning_rate"] == pytest.approx(2e-3)


def test_what_is_in_the_store_is_not_trained_again(
    tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By other code neither, where the study does not ask for its own."""
    run, _ = runs(tmp_path, "acl", keep_model=True)
    monkeypatch.delattr(finetune, "train")
    for code in (None, ANOTHER):
        again, _ = runs(tmp_path, "acl", keep_model=True, code=code)
        assert again.path == run.path


@pytest.mark.parametrize("change", ["other settings", "damaged", "torn", "without its model"])
def test_what_is_not_the_very_run_whole_is_trained(tmp_path: Path, runs: Runs, change: str) -> None:
    run, _ = runs(tmp_path, "acl")
    if change == "damaged":
        content = bytearray(run.predictions_path.read_bytes())
        content[-3] ^= 1  # as many bytes as before
        run.predictions_path.write_bytes(content)
    elif change == "torn":
        run.metrics_path.write_text("{")
    settings: dict[str, Any] = {"other settings": {"epochs": 2}}.get(change, {})
    again, lines = runs(tmp_path, "acl", keep_model=change == "without its model", **settings)
    assert any("epoch 1/" in line for line in lines)
    aside = list((tmp_path / "damaged").glob("*"))
    assert len(aside) == (change in ("damaged", "torn"))
    assert (again.path == run.path) == (change != "other settings")
    json.loads(again.metrics_path.read_text())


def test_who_lost_the_run_writes_no_checkpoint(
    tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose() -> None:
        (lease,) = (tmp_path / "work").glob(".*.lease")
        lease.write_text(json.dumps({"token": "theirs", "machine": "b"}))

    at_call(monkeypatch, loop, "training_step", 5, lose)
    with pytest.raises(TrainingError, match="has taken this run over"):
        runs(tmp_path, "acl", minutes=1e-9)
    (path,) = (tmp_path / "work").glob(f"*/{CHECKPOINT}")
    with safe_open(path, "pt") as file:
        assert file.metadata()["update"] == "2"
    assert not list(tmp_path.glob(f"*/{METRICS}"))


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
    assert str(raised.value.filename).endswith(CHECKPOINT)
    run, lines = runs(tmp_path, "acl")
    assert any("goes on after update 1 of" in line for line in lines)
    assert_same(run, undisturbed["acl"])
