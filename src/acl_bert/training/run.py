"""A run: one task, encoder, method and seed, from tokens to a folder of the store."""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from acl_bert import __version__
from acl_bert.config.study import Encoder, RunSettings
from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import Interrupted
from acl_bert.evaluation.metrics import exit_scores, is_degenerate
from acl_bert.files import read_json, write_csv, write_json, write_tensors
from acl_bert.model.build import build_classifier, load_model, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.code import Code, running_code
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
    in_progress_path,
    lease_path,
    prediction_columns,
)
from acl_bert.runs.key import key_hash, run_key
from acl_bert.runs.lease import Lease, hold
from acl_bert.runs.store import CodeStates, Store, address_of, write_manifest
from acl_bert.training import hardware
from acl_bert.training.checkpoints import CHECKPOINT, Checkpoints
from acl_bert.training.interruption import interruptible
from acl_bert.training.kept_model import save_model
from acl_bert.training.loop import predict, train
from acl_bert.training.regimes import Plan
from acl_bert.training.representations import write_representations
from acl_bert.training.state import TrainingState
from acl_bert.training.stopwatch import Stopwatch, now
from acl_bert.training.teacher import Teacher, read_teacher_outputs, write_teacher_outputs


@dataclass(frozen=True)
class Job:
    """A run that is wanted, and the run that comes first."""

    settings: RunSettings
    """Settled: device and precision are those of this machine."""
    encoder: Encoder
    tokens: TokenStore
    teacher: "Job | None" = None
    """There where the method has a teacher."""
    saves_model: bool = False
    """Whether training leaves the model in the store, for students or for whoever asked for it."""
    name: Path | None = None
    """The study's small file that is to name the run."""
    score_dev: bool = True
    """False for a run that tries a λ: it is not to see dev."""

    @cached_property
    def key(self) -> dict[str, Any]:
        teacher = self.teacher.key_hash if self.teacher else None
        return run_key(self.settings, self.tokens.description, teacher, self.score_dev)

    @cached_property
    def key_hash(self) -> str:
        return key_hash(self.key)


@dataclass(frozen=True)
class Trainer:
    """Trains what the store does not have yet.

    `study`: the folder of the study whose small files name the runs; None where nothing is named.
    `code_states`: whether finished runs of other code count. `minutes` lie between checkpoints.
    """

    store: Store
    study: Path | None = None
    code_states: CodeStates = "any"
    minutes: float = 10.0
    report: Callable[[str], None] = print
    code: Code = field(default_factory=running_code)

    def obtain(self, job: Job, with_model: bool = False) -> str:
        """The address of the finished run, which is trained where the store does not have it.

        `with_model`: its model is needed too, and trained again where it was pruned. Waits while
        another process trains the same run, and takes its result.
        """
        address = self._find(job, with_model)
        if address is None:
            own = address_of(job.key_hash, self.code.digest)
            self._note_progress(job, own)
            with hold(lease_path(self.store.work(own)), self.report) as lease:
                address = self._find(job, with_model)
                if address is None:
                    self._train(job, own, lease)
                    address = own
        self._name(job, address)
        return address

    def _find(self, job: Job, with_model: bool) -> str | None:
        address = self.store.find(job.key_hash, self.code.digest, self.code_states)
        if address and with_model and not self.store.has_model(address):
            return None
        return address

    def _note_progress(self, job: Job, address: str) -> None:
        if self.study and job.name:
            name = str(job.name.relative_to(self.study))
            write_json(in_progress_path(self.study, address), {"name": name})

    def _name(self, job: Job, address: str) -> None:
        if self.study and job.name:
            name = self.store.name_of(address)
            # Left as it is where it says the same: Snakemake would take it for changed.
            if not job.name.is_file() or read_json(job.name) != name:
                write_json(job.name, name)
            own = address_of(job.key_hash, self.code.digest)
            in_progress_path(self.study, own).unlink(missing_ok=True)

    def _train(self, job: Job, address: str, lease: Lease) -> None:
        teacher = self._teacher(job)
        work = self.store.work(address)

        def guard() -> None:
            lease.look()
            lease.check()

        checkpoints = Checkpoints(work / CHECKPOINT, self.minutes, guard)
        _clear(work)
        _describe(work, job, teacher.address if teacher else None)
        finetune(job, address, work, teacher, checkpoints, lease, self.code, self.report)
        guard()
        checkpoints.remove()
        if (work / MODEL).is_dir():
            self.store.publish_model(work / MODEL, address)
        finished = self.store.run(address)
        if finished.finished and finished.metrics()["exits"] != RunFolder(work).metrics()["exits"]:
            self.report(
                f"{finished.path}: trained again for its model, whose numbers are not quite those "
                "that are kept: this device does not repeat them to the bit"
            )
        self.store.publish(work, address)

    def _teacher(self, job: Job) -> "TaughtBy | None":
        """The run that comes first, with all that this one reads of it."""
        if job.teacher is None:
            return None
        method = job.settings.method
        address = self.obtain(job.teacher, with_model=method.start == "teacher")
        outputs = None
        if method.needs_teacher_items:
            outputs = self.store.teacher_outputs(address)
            with hold(lease_path(outputs), self.report):
                if not self.store.has_teacher_outputs(address):
                    address = self.obtain(job.teacher, with_model=True)
                    outputs = self.store.teacher_outputs(address)
                    model, training = self.store.model(address), job.teacher.settings.training
                    write_teacher_outputs(model, job.tokens, training, outputs)
                    write_manifest(outputs.parent, outputs.name)
        depth = self.store.run(address).metrics()["depth"]
        return TaughtBy(address, depth, self.store.model(address), outputs)


@dataclass(frozen=True)
class TaughtBy:
    """What a run has of the one that came first."""

    address: str
    depth: int
    model: Path
    """There where training starts from it."""
    outputs: Path | None
    """There where the method reads the teacher's items."""


def _clear(work: Path) -> None:
    """Remove what an earlier process left, but for the files that a checkpoint goes on with."""
    work.mkdir(parents=True, exist_ok=True)
    for path in work.iterdir():
        if path.name in (HISTORY, EPOCHS, CHECKPOINT):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _describe(work: Path, job: Job, teacher: str | None) -> None:
    tokens = job.tokens
    write_json(
        work / CONFIG,
        job.settings.model_dump(by_alias=True)
        | {
            "encoder_path": job.encoder.path,
            "encoder_revision": job.encoder.revision,
            "encoder_fingerprint": tokens.description["encoder_fingerprint"],
            "tokens_fingerprint": tokens.description["fingerprint"],
            "data_fingerprint": tokens.task["fingerprint"],
            "teacher_run": teacher,
            "key": job.key,
        },
    )


def finetune(
    job: Job,
    address: str,
    work: Path,
    taught_by: TaughtBy | None,
    checkpoints: Checkpoints,
    lease: Lease,
    code: Code,
    report: Callable[[str], None],
) -> None:
    """Train, and score dev with the best epoch's model; all files grow in the folder `work`.

    The same settings, tokens, seed and number of threads give the same metrics.json, bit for bit,
    on a CPU, interrupted or not. Raises Interrupted where SIGTERM or SIGINT came; a checkpoint is
    then written.
    """
    settings, tokens = job.settings, job.tokens
    seconds = Stopwatch()
    with interruptible() as uninterrupted:

        def check() -> None:
            uninterrupted()
            lease.check()

        with seconds("start"):
            training = settings.training
            torch.set_num_threads(training.threads)
            torch.manual_seed(settings.seed)
            device = torch.device(training.device)
            model = _build(job, taught_by).to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
            teacher: Teacher | None = None
            if taught_by and taught_by.outputs:
                teacher = read_teacher_outputs(taught_by.outputs, device)
            plan = Plan(settings.method, model.exits, taught_by.depth if taught_by else None)
        report(
            f"{settings.task} · {settings.method_id} · {settings.encoder} · seed {settings.seed} "
            f"on {hardware.describe_device(device)}, {training.precision}, "
            f"{training.threads} threads"
        )
        state = train(
            model, settings, tokens, plan, teacher, work, checkpoints, check, seconds, report
        )
        try:
            exits: dict[str, dict[str, float]] = {}
            degenerate: list[str] = []
            if job.score_dev:
                exits, degenerate = _score(model, settings, tokens, work, seconds, check)
        except Interrupted:
            checkpoints.write(state.checkpoint())
            raise
    assert state.best is not None
    for layer, scores in exits.items():
        shown = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        report(f"dev, epoch {state.best.epoch}, exit {layer}: {shown}")
    if job.saves_model:
        save_model(model, settings, job.encoder, tokens.task, exits, work / MODEL)
    write_json(work / TIMINGS, _timings(state, training, device, code))
    teacher_address = taught_by.address if taught_by else None
    metrics = _metrics(state, settings, tokens, address, exits, degenerate, teacher_address)
    write_json(work / METRICS, metrics)


def _build(job: Job, taught_by: TaughtBy | None) -> EncoderClassifier:
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
        assert taught_by is not None
        start_from(model, load_model(taught_by.model))
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
    address: str,
    exits: dict[str, dict[str, float]],
    degenerate: list[str],
    teacher: str | None,
) -> dict[str, Any]:
    assert state.best is not None
    depth, task = state.model.exits[-1], tokens.task
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
