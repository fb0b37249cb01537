"""Fine-tuning: from a job's tokens to all files of its run, in one folder."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from acl_bert import __version__
from acl_bert.errors import Interrupted
from acl_bert.evaluation.metrics import exit_scores, is_degenerate
from acl_bert.files import write_csv, write_json, write_tensors
from acl_bert.model.build import build_classifier, load_model, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.code import Code
from acl_bert.runs.files import (
    LOGITS,
    METRICS,
    MODEL,
    PREDICTIONS,
    REPRESENTATIONS,
    TEST_COLUMNS,
    TEST_PREDICTIONS,
    TIMINGS,
    prediction_columns,
)
from acl_bert.training.checkpoints import Checkpoints
from acl_bert.training.hardware import describe_device, peak_memory_mib
from acl_bert.training.interruption import interruptible
from acl_bert.training.jobs import Job
from acl_bert.training.kept_model import save_model
from acl_bert.training.loop import compute_logits, train
from acl_bert.training.regimes import ExitSchedule
from acl_bert.training.representations import write_representations
from acl_bert.training.state import TrainingState
from acl_bert.training.stopwatch import Stopwatch, now
from acl_bert.training.teacher import read_teacher_outputs


@dataclass(frozen=True)
class TeacherRun:
    """The finished run that a student's training reads."""

    address: str
    depth: int
    model: Path
    """There where training starts from it."""
    outputs: Path | None
    """There where the method reads the teacher's items."""


def finetune(
    job: Job,
    address: str,
    work: Path,
    teacher_run: TeacherRun | None,
    checkpoints: Checkpoints,
    check_lease: Callable[[], None],
    code: Code,
    report: Callable[[str], None],
) -> None:
    """Train, and score dev with the best epoch's model; all files grow in the folder `work`.

    The same settings, tokens, seed and number of threads give the same metrics.json, bit for bit,
    on a CPU, interrupted or not. Raises Interrupted where SIGTERM or SIGINT came; a checkpoint is
    then written.
    """
    settings, tokens, training = job.settings, job.tokens, job.settings.training
    seconds = Stopwatch()
    exits: dict[str, dict[str, float]] = {}
    degenerate: list[str] = []
    with interruptible() as check_signals:

        def check() -> None:
            check_signals()
            check_lease()

        with seconds("start"):
            torch.set_num_threads(training.threads)
            torch.manual_seed(settings.seed)
            device = torch.device(training.device)
            model = _build(job, teacher_run).to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
            teacher, teacher_depth = None, None
            if teacher_run:
                teacher_depth = teacher_run.depth
                if teacher_run.outputs:
                    teacher = read_teacher_outputs(teacher_run.outputs, device)
            schedule = ExitSchedule(settings.method, model.exits, teacher_depth)
        report(
            f"{settings.task} · {settings.method_id} · {settings.encoder} · seed {settings.seed} "
            f"on {describe_device(device)}, {training.precision}, {training.threads} threads"
        )
        state = train(
            model, settings, tokens, schedule, teacher, work, checkpoints, check, seconds, report
        )
        try:
            if job.score_dev:
                with seconds("dev"):
                    exits, degenerate = _score(model, job, work, check)
                if tokens.test_sets:
                    with seconds("test"):
                        _predict_test_sets(model, job, work, check)
        except Interrupted:
            checkpoints.write(state.checkpoint())
            raise
    assert state.best is not None
    for layer, scores in exits.items():
        listed = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        report(f"dev, epoch {state.best.epoch}, exit {layer}: {listed}")
    if job.saves_model:
        save_model(model, settings, job.encoder, tokens.task, exits, work / MODEL)
    write_json(work / TIMINGS, _timings(job, state, device, code))
    teacher_address = teacher_run.address if teacher_run else None
    metrics = _metrics(job, state, address, exits, degenerate, teacher_address)
    write_json(work / METRICS, metrics)


def _build(job: Job, teacher_run: TeacherRun | None) -> EncoderClassifier:
    method = job.settings.method
    model = build_classifier(
        job.encoder.path,
        job.encoder.revision,
        job.tokens.task["labels"],
        method.representation,
        method.is_multi_exit,
        method.layers,
        method.cosine_temperature,
    )
    if method.start == "teacher":
        assert teacher_run is not None
        start_from(model, load_model(teacher_run.model))
    return model


def _score(
    model: EncoderClassifier, job: Job, folder: Path, check: Callable[[], None]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Score every dev set at every exit.

    Returns metrics by layer, and the layers whose exit is degenerate on a dev set. Writes the last
    exit's predictions, all exits' logits, and representations of some rows. `check`: as in
    `compute_logits`.
    """
    tokens, training = job.tokens, job.settings.training
    exits: dict[str, dict[str, float]] = {str(layer): {} for layer in model.exits}
    degenerate: list[str] = []
    lines: list[list[Any]] = []
    tensors: dict[str, np.ndarray] = {}
    for name, suffix in tokens.task["dev_sets"].items():
        rows = tokens.split(name)
        logits = compute_logits(model, rows, training, check)
        scores = exit_scores(logits, rows.targets, tokens.task["metrics"], suffix)
        for index, (layer, values) in enumerate(zip(exits, scores, strict=True)):
            exits[layer] |= values
            if layer not in degenerate and is_degenerate(logits[:, index], rows.targets):
                degenerate.append(layer)
        last = logits[:, -1]
        columns = zip(rows.index, rows.targets, last.argmax(axis=1), last, strict=True)
        lines += [[name, *row, *logits_of_row] for *row, logits_of_row in columns]
        tensors |= {f"{name}.logits": logits, f"{name}.labels": np.array(rows.targets)}
    write_csv(folder / PREDICTIONS, prediction_columns(len(tokens.task["labels"])), lines)
    write_tensors(folder / LOGITS, tensors)
    write_representations(model, tokens.split("dev"), training, folder / REPRESENTATIONS)
    return exits, degenerate


def _predict_test_sets(
    model: EncoderClassifier, job: Job, folder: Path, check: Callable[[], None]
) -> None:
    """Write the last exit's class of every row of the test sets, whose labels are not read."""
    lines: list[list[Any]] = []
    for name in job.tokens.test_sets:
        rows = job.tokens.split(name)
        logits = compute_logits(model, rows, job.settings.training, check)
        predicted = logits[:, -1].argmax(axis=1)
        lines += [[name, *row] for row in zip(rows.index, predicted, strict=True)]
    write_csv(folder / TEST_PREDICTIONS, TEST_COLUMNS, lines)


def _timings(job: Job, state: TrainingState, device: torch.device, code: Code) -> dict[str, Any]:
    history, training = state.history, job.settings.training
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
        "device": describe_device(device),
        "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "precision": training.precision,
        "threads": training.threads,
        "peak_memory_mib": peak_memory_mib(device),
        "versions": {
            "acl_bert": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "numpy")},
        },
    }


def _metrics(
    job: Job,
    state: TrainingState,
    address: str,
    exits: dict[str, dict[str, float]],
    degenerate: list[str],
    teacher: str | None,
) -> dict[str, Any]:
    assert state.best is not None
    settings, task, depth = job.settings, job.tokens.task, state.model.exits[-1]
    return {
        "task": settings.task,
        "encoder": settings.encoder,
        "method": settings.method_id,
        "seed": settings.seed,
        "run_hash": address,
        "depth": depth,
        "metrics": exits.get(str(depth), {}),
        "exits": exits,
        "teacher": teacher,
        "selection": {"metric": settings.selection_metric, **asdict(state.best)},
        "degenerate": str(depth) in degenerate,
        "degenerate_exits": degenerate,
        "gate": state.history.gate_summary(),
        "data": {
            "fingerprint": task["fingerprint"],
            "rows": {name: split["rows"] for name, split in task["splits"].items()},
            **{name: task[name] for name in ("subset", "stand_in", "source")},
        },
    }
