"""The training loop: from a pre-trained encoder to the best epoch's model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from acl_bert.evaluation.metrics import exit_scores, mean_over_exits
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.objectives.gate import RunningTargets
from acl_bert.run_files import EPOCHS, HISTORY, epoch_columns
from acl_bert.settings.study import RunSettings
from acl_bert.settings.training import Training
from acl_bert.tasks.tokens import Split, TokenStore
from acl_bert.training.batches import (
    evaluation_batches,
    load_batch,
    load_inputs,
    train_batches,
    updates,
)
from acl_bert.training.history import GrowingCsv, History
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import Plan
from acl_bert.training.step import training_step
from acl_bert.training.stopwatch import Stopwatch
from acl_bert.training.teacher import Teacher


@dataclass(frozen=True)
class Best:
    """The epoch that the selection split prefers; the first of equals."""

    epoch: int
    value: float


def train(
    model: EncoderClassifier,
    settings: RunSettings,
    tokens: TokenStore,
    plan: Plan,
    teacher: Teacher | None,
    folder: Path,
    seconds: Stopwatch,
    report: Callable[[str], None],
) -> tuple[Best, History]:
    """Train `model` in place, ending with the weights of the best epoch.

    `plan` says which exits learn at each update; `teacher` is there where the method reads one.
    history.csv and epochs.csv grow in `folder`; `report` gets a line an epoch, a terminal a
    progress bar. The batches depend on the seed alone, so that all methods of a seed see the same
    ones. Raises TrainingError where the numbers are no longer finite.
    """
    training, method = settings.training, settings.method
    rows, selection = tokens.split("train"), tokens.split(training.chosen_on)
    generator = np.random.default_rng(settings.seed)
    updates_per_epoch = -(-len(rows) // (training.batch_size * training.accumulation))
    plan.freeze(model)
    optimiser = Optimiser(model, training, training.epochs * updates_per_epoch)
    targets = RunningTargets()
    best, best_state = None, {}

    with (
        History(folder / HISTORY, method) as history,
        GrowingCsv(folder / EPOCHS, epoch_columns(tokens.task["metrics"])) as epochs,
        tqdm(total=training.epochs * updates_per_epoch, unit="update", disable=None) as bar,
    ):
        for epoch in range(1, training.epochs + 1):
            with seconds("train"):
                plan.train_mode(model)
                grouped = training.batches == "grouped"
                batches = train_batches(rows.lengths, training.batch_size, grouped, generator)
                for group in updates(batches, training.accumulation):
                    losses = plan.losses(history.step)
                    records = []
                    for batch in group:
                        inputs, labels = load_batch(rows, batch, model.device)
                        records.append(
                            training_step(
                                model,
                                inputs,
                                labels,
                                method,
                                losses,
                                teacher(batch) if teacher else None,
                                training.precision,
                                1 / len(group),
                                targets,
                            )
                        )
                    rate, norm = optimiser.learning_rate, optimiser.update()
                    count = sum(int(rows.lengths[batch].sum()) for batch in group)
                    history.add(epoch, records, rate, norm, count)
                    bar.update()
                loss = history.epoch_loss()

            with seconds("selection"):
                logits = predict(model, selection, training)
                every = exit_scores(logits, selection.targets, tokens.task["metrics"])
                scores = mean_over_exits(every) if method.selected_by == "mean" else every[-1]
                value = scores[settings.selection_metric]
            epochs.write([[epoch, history.step, loss, *scores.values()]])
            report(
                f"epoch {epoch}/{training.epochs}: loss {loss:.4f}, "
                f"selection {settings.selection_metric} {value:.4f}"
            )
            if best is None or value > best.value:
                best = Best(epoch, value)
                if epoch < training.epochs:
                    best_state = {name: x.clone() for name, x in model.state_dict().items()}

    assert best is not None
    if best.epoch < training.epochs:
        model.load_state_dict(best_state)
    return best, history


@torch.inference_mode()
def predict(model: EncoderClassifier, rows: Split, training: Training) -> np.ndarray:
    """Logits of every row and exit, float32, (rows, exits, classes), in the rows' order."""
    model.eval()
    bf16 = training.precision == "bf16"
    classes = len(model.heads[-1].label_embeddings)
    logits = np.empty((len(rows), len(model.exits), classes), dtype=np.float32)
    # Without gradients there is room for twice the rows.
    for batch in evaluation_batches(rows.lengths, 2 * training.batch_size):
        inputs = load_inputs(rows, batch, model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logits[batch] = model.exit_logits(**inputs).float().cpu().numpy()
    return logits
