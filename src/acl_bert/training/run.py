"""A run: one task, encoder, method and seed, from tokens to a folder of result files."""

import fcntl
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from acl_bert import __version__
from acl_bert.errors import InputError
from acl_bert.evaluation.metrics import exit_scores, is_degenerate
from acl_bert.files import atomic_file, publish_folder, write_csv, write_json
from acl_bert.model.build import build_classifier, start_from
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.run_files import (
    CONFIG,
    LOGITS,
    METRICS,
    MODEL,
    PREDICTIONS,
    REPRESENTATIONS,
    TEST_COLUMNS,
    TEST_PREDICTIONS,
    TIMINGS,
    RunFolder,
    prediction_columns,
    work_path,
)
from acl_bert.settings.study import Encoder, RunSettings
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training import hardware
from acl_bert.training.kept_model import save_model
from acl_bert.training.loop import predict, train
from acl_bert.training.regimes import Plan
from acl_bert.training.representations import write_representations
from acl_bert.training.stopwatch import Stopwatch
from acl_bert.training.teacher import check_teacher, load_teacher, read_teacher_outputs


@contextmanager
def open_run(
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    study: Path,
    teacher_run: Path | None = None,
) -> Iterator[Path]:
    """The empty work folder of a run, named by its hash, with config.json in it.

    `teacher_run`: the finished run that comes first, where the method has a teacher. Raises
    InputError while another process of this machine has it.
    """
    fingerprints = (tokens.description["fingerprint"], tokens.description["encoder_fingerprint"])
    teacher_hash = None
    if teacher_run:
        check_teacher(teacher_run, tokens)
        teacher_hash = RunFolder(teacher_run).metrics()["run_hash"]
    work = work_path(study, settings.identity(*fingerprints, teacher_hash))
    work.parent.mkdir(parents=True, exist_ok=True)
    with work.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{work}: another process trains this run; wait for it, or stop it"
            ) from None
        _empty(work, settings, encoder, tokens, teacher_hash)
        yield work
        Path(lock.name).unlink()


def _empty(
    work: Path,
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    teacher_hash: str | None,
) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
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
    work: Path,
    target: Path,
    teacher_run: Path | None = None,
    teacher_outputs: Path | None = None,
    keep_model: bool = False,
    score_dev: bool = True,
    report: Callable[[str], None] = print,
) -> None:
    """Train, score dev with the best epoch's model, and publish the run's files as `target`.

    Until then they grow in `work`, as `open_run` made it. A method with a teacher needs the run
    that comes first, with its model where training starts from it, and one that reads the
    teacher's items the file that `write_teacher_outputs` made. The same settings, tokens, seed and
    number of threads give the same metrics.json, bit for bit, on a CPU. A run that tries a λ is
    not to see dev: `score_dev` false.
    """
    seconds = Stopwatch()
    started = datetime.now(UTC)
    with seconds("start"):
        training = settings.training
        torch.set_num_threads(training.threads)
        torch.manual_seed(settings.seed)
        device = torch.device(training.device)
        labels = tokens.task["labels"]
        method = settings.method
        model = build_classifier(
            encoder.path,
            encoder.revision,
            labels,
            method.representation,
            method.is_multi_exit,
            method.layers,
            method.cosine_temperature,
        )
        teacher_depth, teacher = None, None
        if teacher_run:
            teacher_depth = RunFolder(teacher_run).metrics()["depth"]
        if method.start == "teacher":
            assert teacher_run is not None
            start_from(model, load_teacher(teacher_run))
        if method.needs_teacher_items:
            assert teacher_outputs is not None and teacher_run is not None
            teacher = read_teacher_outputs(teacher_outputs, teacher_run, tokens, device)
        plan = Plan(method, model.exits, teacher_depth)
        model.to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
    report(
        f"{settings.task} · {settings.method_id} · {settings.encoder} · seed {settings.seed} on "
        f"{hardware.describe_device(device)}, {training.precision}, {training.threads} threads"
    )
    best, history = train(model, settings, tokens, plan, teacher, work, seconds, report)
    exits: dict[str, dict[str, float]] = {}
    degenerate: list[str] = []
    if score_dev:
        with seconds("dev"):
            exits, degenerate = evaluate(model, settings, tokens, work)
            dev = tokens.split("dev")
            write_representations(model, dev, training, work / REPRESENTATIONS)
        if tokens.test_sets:
            with seconds("test"):
                predict_test_sets(model, settings, tokens, work)
        for layer, scores in exits.items():
            shown = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            report(f"dev, epoch {best.epoch}, exit {layer}: {shown}")
    metrics = exits.get(str(model.exits[-1]), {})
    task = tokens.task
    if keep_model:
        save_model(model, settings, encoder, task, exits, work / MODEL)
    write_json(
        work / TIMINGS,
        {
            "commit": source_commit(),
            "started": started.isoformat(timespec="seconds"),
            "seconds": seconds.rounded(),
            "steps": history.step,
            "tokens": history.tokens,
            "tokens_per_second": history.tokens / seconds.taken["train"],
            "device": hardware.describe_device(device),
            "precision": training.precision,
            "threads": training.threads,
            "peak_memory_mib": hardware.peak_memory_mib(device),
            "versions": {
                "acl_bert": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("torch", "transformers", "numpy")},
            },
        },
    )
    write_json(
        work / METRICS,
        {
            "task": settings.task,
            "encoder": settings.encoder,
            "method": settings.method_id,
            "seed": settings.seed,
            "run_hash": work.name,
            "depth": model.exits[-1],
            "metrics": metrics,
            "exits": exits,
            "teacher": RunFolder(teacher_run).run_hash if teacher_run else None,
            "selection": {
                "metric": settings.selection_metric,
                "value": best.value,
                "epoch": best.epoch,
            },
            "degenerate": str(model.exits[-1]) in degenerate,
            "degenerate_exits": degenerate,
            "gate": history.gate_summary(),
            "data": {
                "fingerprint": task["fingerprint"],
                "rows": {name: split["rows"] for name, split in task["splits"].items()},
                "subset": task["subset"],
                "stand_in": task["stand_in"],
                "source": task["source"],
            },
        },
    )
    publish_folder(work, target)


def evaluate(
    model: EncoderClassifier, settings: RunSettings, tokens: TokenStore, folder: Path
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Score every dev set at every exit.

    Returns metrics by layer and the layers whose exit is degenerate on a dev set; writes the last
    exit's predictions and all exits' logits.
    """
    exits: dict[str, dict[str, float]] = {str(layer): {} for layer in model.exits}
    degenerate: list[str] = []
    lines: list[list[Any]] = []
    tensors: dict[str, np.ndarray] = {}
    for name, suffix in tokens.task["dev_sets"].items():
        rows = tokens.split(name)
        logits = predict(model, rows, settings.training)
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
    with atomic_file(folder / LOGITS) as aside:
        aside.write_bytes(save(tensors))
    return exits, degenerate


def predict_test_sets(
    model: EncoderClassifier, settings: RunSettings, tokens: TokenStore, folder: Path
) -> None:
    """Write the last exit's class of every row of the test sets, whose labels are not looked at."""
    lines: list[list[Any]] = []
    for name in tokens.test_sets:
        rows = tokens.split(name)
        chosen = predict(model, rows, settings.training)[:, -1].argmax(axis=1)
        lines += [[name, *row] for row in zip(rows.index, chosen, strict=True)]
    write_csv(folder / TEST_PREDICTIONS, TEST_COLUMNS, lines)


def source_commit() -> str | None:
    """The commit of the code that runs, "+" where it was changed since; None outside git."""
    here = Path(__file__).parent
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(here), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if status else "")
