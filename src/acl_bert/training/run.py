"""A run: one task, encoder, method and seed, from tokens to a folder of result files."""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from acl_bert import __version__
from acl_bert.errors import InputError, Interrupted
from acl_bert.evaluation.metrics import exit_scores, is_degenerate
from acl_bert.files import publish_folder, write_csv, write_json, write_tensors
from acl_bert.runs.lease import Lease, hold
from acl_bert.model.build import build_classifier, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.files import (
    CONFIG,
    EPOCHS,
    HISTORY,
    LOGITS,
    METRICS,
    MODEL,
    PREDICTIONS,
    REPRESENTATIONS,
    TEST_COLUMNS,
    TEST_PREDICTIONS,
    TIMINGS,
    RunFolder,
    lease_path,
    prediction_columns,
    work_path,
)
from acl_bert.settings.study import Encoder, RunSettings
from acl_bert.settings.training import Training
from acl_bert.spares import keep_spare, put_back, spare_path
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training import hardware
from acl_bert.training.checkpoints import Checkpoints
from acl_bert.runs.code import Code, running_code
from acl_bert.training.interruption import interruptible
from acl_bert.training.kept_model import save_model
from acl_bert.training.loop import predict, train
from acl_bert.training.regimes import Plan
from acl_bert.training.representations import write_representations
from acl_bert.training.state import TrainingState
from acl_bert.training.stopwatch import Stopwatch, now
from acl_bert.training.teacher import check_teacher, load_teacher, read_teacher_outputs


@dataclass(frozen=True)
class OpenRun:
    """A run that this process alone may train."""

    work: Path
    """Where its files grow; the folder's name is the run's hash."""
    target: Path
    """Where they will be published."""
    study: Path
    keep_model: bool
    code: Code
    leases: tuple[Lease, Lease]
    checkpoints: Checkpoints

    def is_made(self) -> bool:
        """Whether the very run is finished, by this code; if by its spare, that is put in place."""
        if self._is_whole(self.target):
            return True
        if not self._is_whole(spare_path(self.study, self.target)):
            return False
        put_back(self.study, self.target)
        return True

    def _is_whole(self, folder: Path) -> bool:
        run = RunFolder(folder)
        try:
            made_by = run.metrics()["run_hash"], run.timings().get("code")
        except InputError:
            return False
        if made_by != (self.work.name, self.code.digest):
            return False
        if self.keep_model and not run.model_path.is_dir():
            return False
        # Written last; whatever was changed since is not as it was published. Hidden files are not
        # the run's: Snakemake stamps the model's folder with one.
        end = run.metrics_path.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns <= end for path in folder.rglob("[!.]*.*"))

    def publish(self) -> None:
        """Move the work folder, whole, to the target. Raises TrainingError without the lease."""
        _check_now(self.leases)
        publish_folder(self.work, self.target)
        keep_spare(self.study, self.target)
        self.checkpoints.remove()


def _check_now(leases: tuple[Lease, Lease]) -> None:
    for lease in leases:
        lease.look()
        lease.check()


@contextmanager
def open_run(
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    study: Path,
    target: Path,
    teacher_run: Path | None = None,
    keep_model: bool = False,
    checkpoint_minutes: float = 10.0,
    report: Callable[[str], None] = print,
) -> Iterator[OpenRun | None]:
    """Hold a run to be trained, whose work folder is named by its hash, with config.json in it.

    None where the very run is finished already, by this code: it is then at its target. `target`
    is in the folder `study`. `teacher_run`: the finished run that comes first, where the method has
    a teacher. `keep_model`: its weights too are published. Waits while another process holds the
    run, or one of other settings that goes to the same place.
    """
    code = running_code()
    fingerprints = (tokens.description["fingerprint"], tokens.description["encoder_fingerprint"])
    teacher_hash = None
    if teacher_run:
        check_teacher(teacher_run, tokens)
        teacher_hash = RunFolder(teacher_run).metrics()["run_hash"]
    work = work_path(study, settings.identity(*fingerprints, teacher_hash))
    with (
        hold(lease_path(work), report) as of_run,
        hold(lease_path(target), report) as of_target,
    ):
        leases = (of_run, of_target)
        checkpoints = Checkpoints(
            work.with_suffix(".checkpoints"),
            checkpoint_minutes,
            code.digest,
            guard=lambda: _check_now(leases),
        )
        run = OpenRun(work, target, study, keep_model, code, leases, checkpoints)
        if run.is_made():
            yield None
            return
        _clear(work)
        _describe(work, settings, encoder, tokens, teacher_hash)
        yield run


def _clear(work: Path) -> None:
    """Remove what an earlier process left, but for the files that a checkpoint goes on with."""
    work.mkdir(parents=True, exist_ok=True)
    for path in work.iterdir():
        if path.name in (HISTORY, EPOCHS):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _describe(
    work: Path,
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    teacher_hash: str | None,
) -> None:
    write_json(
        work / CONFIG,
        settings.model_dump(by_alias=True)
        | {
            "encoder_path": encoder.path,
            "encoder_revision": encoder.revision,
            "encoder_fingerprint": tokens.description["encoder_fingerprint"],
            "tokens_fingerprint": tokens.description["fingerprint"],
            "data_fingerprint": tokens.task["fingerprint"],
            "teacher_run": teacher_hash,
        },
    )


def finetune(
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    run: OpenRun,
    teacher_run: Path | None = None,
    teacher_outputs: Path | None = None,
    score_dev: bool = True,
    report: Callable[[str], None] = print,
) -> None:
    """Train, score dev with the best epoch's model, and publish the run's files.

    Until then they grow in the work folder, as `open_run` made it. A method with a teacher needs
    the run that comes first, with its model where training starts from it, and one that reads the
    teacher's items the file that `write_teacher_outputs` made. The same settings, tokens, seed and
    number of threads give the same metrics.json, bit for bit, on a CPU, interrupted or not. A run
    that tries a λ is not to see dev: `score_dev` false. Raises Interrupted where SIGTERM or SIGINT
    came; a checkpoint is then written.
    """
    seconds = Stopwatch()
    with interruptible() as uninterrupted:

        def check() -> None:
            uninterrupted()
            for lease in run.leases:
                lease.check()

        with seconds("start"):
            training = settings.training
            torch.set_num_threads(training.threads)
            torch.manual_seed(settings.seed)
            device = torch.device(training.device)
            model = _build(settings, encoder, tokens, teacher_run).to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
            teacher_depth, teacher = None, None
            if teacher_run:
                teacher_depth = RunFolder(teacher_run).metrics()["depth"]
            if settings.method.needs_teacher_items:
                assert teacher_outputs is not None and teacher_run is not None
                teacher = read_teacher_outputs(teacher_outputs, teacher_run, tokens, device)
            plan = Plan(settings.method, model.exits, teacher_depth)
        report(
            f"{settings.task} · {settings.method_id} · {settings.encoder} · seed {settings.seed} "
            f"on {hardware.describe_device(device)}, {training.precision}, "
            f"{training.threads} threads"
        )
        state = train(
            model, settings, tokens, plan, teacher, run.work, run.checkpoints, check, seconds,
            report,
        )  # fmt: skip
        try:
            exits: dict[str, dict[str, float]] = {}
            degenerate: list[str] = []
            if score_dev:
                exits, degenerate = _score(model, settings, tokens, run.work, seconds, check)
        except Interrupted:
            run.checkpoints.write(state.checkpoint())
            raise
    assert state.best is not None
    for layer, scores in exits.items():
        shown = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        report(f"dev, epoch {state.best.epoch}, exit {layer}: {shown}")
    if run.keep_model:
        save_model(model, settings, encoder, tokens.task, exits, run.work / MODEL)
    write_json(run.work / TIMINGS, _timings(state, training, device, run.code))
    teacher_hash = RunFolder(teacher_run).run_hash if teacher_run else None
    metrics = _metrics(state, settings, tokens, run.work.name, exits, degenerate, teacher_hash)
    write_json(run.work / METRICS, metrics)
    run.publish()


def _build(
    settings: RunSettings, encoder: Encoder, tokens: TokenStore, teacher_run: Path | None
) -> EncoderClassifier:
    method = settings.method
    model = build_classifier(
        encoder.path,
        encoder.revision,
        tokens.task["labels"],
        method.representation,
        method.is_multi_exit,
        method.layers,
        method.cosine_temperature,
    )
    if method.start == "teacher":
        assert teacher_run is not None
        start_from(model, load_teacher(teacher_run))
    return model


def _timings(
    state: TrainingState, training: Training, device: torch.device, code: Code
) -> dict[str, Any]:
    history = state.history
    return {
        "commit": code.commit,
        "code": code.digest,
        "started": state.seconds.started,
        "ended": now(),
        "interruptions": state.interruptions,
        "seconds": state.seconds.rounded(),
        "steps": history.step,
        "tokens": history.tokens,
        "tokens_per_second": history.tokens / state.seconds.taken["train"],
        "host": platform.node(),
        "device": hardware.describe_device(device),
        "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "precision": training.precision,
        "threads": training.threads,
        "peak_memory_mib": hardware.peak_memory_mib(device),
        "versions": {
            "acl_bert": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "numpy")},
        },
    }


def _metrics(
    state: TrainingState,
    settings: RunSettings,
    tokens: TokenStore,
    run_hash: str,
    exits: dict[str, dict[str, float]],
    degenerate: list[str],
    teacher_hash: str | None,
) -> dict[str, Any]:
    assert state.best is not None
    depth, task = state.model.exits[-1], tokens.task
    return {
        "task": settings.task,
        "encoder": settings.encoder,
        "method": settings.method_id,
        "seed": settings.seed,
        "run_hash": run_hash,
        "depth": depth,
        "metrics": exits.get(str(depth), {}),
        "exits": exits,
        "teacher": teacher_hash,
        "selection": {
            "metric": settings.selection_metric,
            "value": state.best.value,
            "epoch": state.best.epoch,
        },
        "degenerate": str(depth) in degenerate,
        "degenerate_exits": degenerate,
        "gate": state.history.gate_summary(),
        "data": {
            "fingerprint": task["fingerprint"],
            "rows": {name: split["rows"] for name, split in task["splits"].items()},
            "subset": task["subset"],
            "stand_in": task["stand_in"],
            "source": task["source"],
        },
    }


def _score(
    model: EncoderClassifier,
    settings: RunSettings,
    tokens: TokenStore,
    folder: Path,
    seconds: Stopwatch,
    check: Callable[[], None],
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """As `evaluate`, with all other files of what the model makes of dev and test."""
    with seconds("dev"):
        scores = evaluate(model, settings, tokens, folder, check)
        dev = tokens.split("dev")
        write_representations(model, dev, settings.training, folder / REPRESENTATIONS)
    if tokens.test_sets:
        with seconds("test"):
            predict_test_sets(model, settings, tokens, folder, check)
    return scores


def evaluate(
    model: EncoderClassifier,
    settings: RunSettings,
    tokens: TokenStore,
    folder: Path,
    between: Callable[[], None],
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Score every dev set at every exit.

    Returns metrics by layer and the layers whose exit is degenerate on a dev set; writes the last
    exit's predictions and all exits' logits. `between`: as in `predict`.
    """
    exits: dict[str, dict[str, float]] = {str(layer): {} for layer in model.exits}
    degenerate: list[str] = []
    lines: list[list[Any]] = []
    tensors: dict[str, np.ndarray] = {}
    for name, suffix in tokens.task["dev_sets"].items():
        rows = tokens.split(name)
        logits = predict(model, rows, settings.training, between)
        scores = exit_scores(logits, rows.targets, tokens.task["metrics"], suffix)
        for place, (layer, values) in enumerate(zip(exits, scores, strict=True)):
            exits[layer] |= values
            if layer not in degenerate and is_degenerate(logits[:, place], rows.targets):
                degenerate.append(layer)
        last = logits[:, -1]
        columns = zip(rows.index, rows.targets, last.argmax(axis=1), last, strict=True)
        lines += [[name, i, label, chosen, *row] for i, label, chosen, row in columns]
        tensors |= {f"{name}.logits": logits, f"{name}.labels": np.array(rows.targets)}
    write_csv(folder / PREDICTIONS, prediction_columns(len(tokens.task["labels"])), lines)
    write_tensors(folder / LOGITS, tensors)
    return exits, degenerate


def predict_test_sets(
    model: EncoderClassifier,
    settings: RunSettings,
    tokens: TokenStore,
    folder: Path,
    between: Callable[[], None],
) -> None:
    """Write the last exit's class of every row of the test sets, whose labels are not looked at."""
    lines: list[list[Any]] = []
    for name in tokens.test_sets:
        rows = tokens.split(name)
        chosen = predict(model, rows, settings.training, between)[:, -1].argmax(axis=1)
        lines += [[name, *row] for row in zip(rows.index, chosen, strict=True)]
    write_csv(folder / TEST_PREDICTIONS, TEST_COLUMNS, lines)
