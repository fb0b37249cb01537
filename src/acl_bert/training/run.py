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

import torch

from acl_bert import __version__
from acl_bert.errors import InputError
from acl_bert.evaluation.metrics import is_degenerate, score
from acl_bert.files import publish_folder, write_csv, write_json
from acl_bert.model.classifier import EncoderClassifier, build_classifier
from acl_bert.run_files import (
    CONFIG,
    METRICS,
    MODEL,
    PREDICTIONS,
    TIMINGS,
    prediction_columns,
    work_path,
)
from acl_bert.settings.study import Encoder, RunSettings
from acl_bert.tasks.tokens import TokenStore
from acl_bert.training import hardware
from acl_bert.training.loop import predict, train
from acl_bert.training.stopwatch import Stopwatch


@contextmanager
def open_run(
    settings: RunSettings, encoder: Encoder, tokens: TokenStore, study: Path
) -> Iterator[Path]:
    """The empty work folder of a run, named by its hash, with config.json in it.

    Raises InputError while another process of this machine has it.
    """
    fingerprints = (tokens.description["fingerprint"], tokens.description["encoder_fingerprint"])
    work = work_path(study, settings.identity(*fingerprints))
    work.parent.mkdir(parents=True, exist_ok=True)
    with work.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{work}: another process trains this run; wait for it, or stop it"
            ) from None
        _empty(work, settings, encoder, tokens)
        yield work
        Path(lock.name).unlink()


def _empty(work: Path, settings: RunSettings, encoder: Encoder, tokens: TokenStore) -> None:
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
        },
    )


def finetune(
    settings: RunSettings,
    encoder: Encoder,
    tokens: TokenStore,
    work: Path,
    target: Path,
    keep_model: bool = False,
    score_dev: bool = True,
    report: Callable[[str], None] = print,
) -> None:
    """Train, score dev with the best epoch's model, and publish the run's files as `target`.

    Until then they grow in `work`, as `open_run` made it. The same settings, tokens, seed and
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
        model = build_classifier(
            encoder.path, encoder.revision, labels, settings.method.representation
        )
        model.to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
    report(
        f"{settings.task} · {settings.method_id} · {settings.encoder} · seed {settings.seed} on "
        f"{hardware.describe_device(device)}, {training.precision}, {training.threads} threads"
    )
    best, history = train(model, settings, tokens, work, seconds, report)
    metrics: dict[str, float] = {}
    degenerate = False
    if score_dev:
        with seconds("dev"):
            metrics, degenerate = evaluate(model, settings, tokens, work / PREDICTIONS)
        scores = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        report(f"dev, epoch {best.epoch}: {scores}")
    if keep_model:
        model.save_pretrained(work / MODEL)

    task = tokens.task
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
            "metrics": metrics,
            "selection": {
                "metric": settings.selection_metric,
                "value": best.value,
                "epoch": best.epoch,
            },
            "degenerate": degenerate,
            "gate": history.gate_summary(settings.method.gate),
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
    model: EncoderClassifier, settings: RunSettings, tokens: TokenStore, path: Path
) -> tuple[dict[str, float], bool]:
    """Score every dev set and write the predictions; also whether the run is degenerate."""
    metrics: dict[str, float] = {}
    degenerate = False
    lines: list[list[Any]] = []
    for name, suffix in tokens.task["dev_sets"].items():
        rows = tokens.split(name)
        logits = predict(model, rows, settings.training)
        metrics |= score(logits, rows.targets, tokens.task["metrics"], suffix)
        degenerate |= is_degenerate(logits, rows.targets)
        columns = zip(rows.index, rows.targets, logits.argmax(axis=1), logits, strict=True)
        lines += [[name, i, label, chosen, *row] for i, label, chosen, row in columns]
    write_csv(path, prediction_columns(len(tokens.task["labels"])), lines)
    return metrics, degenerate


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
