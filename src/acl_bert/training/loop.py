"""The training loop: from a pre-trained encoder to the best epoch's model."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from acl_bert.config.method import Method
from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.data.split import sample
from acl_bert.data.tokens import Split, TokenStore
from acl_bert.errors import Interrupted
from acl_bert.evaluation.metrics import exit_scores, mean_over_exits
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.files import EPOCHS, HISTORY, epoch_columns
from acl_bert.training.batches import evaluation_batches, load_batch, load_inputs, train_batches
from acl_bert.training.checkpoints import Checkpoints
from acl_bert.training.history import GrowingCsv, History
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import ExitSchedule
from acl_bert.training.state import Best, TrainingState
from acl_bert.training.step import training_step
from acl_bert.training.stopwatch import Stopwatch
from acl_bert.training.teacher import Teacher


def train(
    model: EncoderClassifier,
    settings: RunSettings,
    tokens: TokenStore,
    schedule: ExitSchedule,
    teacher: Teacher | None,
    folder: Path,
    checkpoints: Checkpoints,
    check: Callable[[], None],
    seconds: Stopwatch,
    report: Callable[[str], None],
) -> TrainingState:
    """Train `model` in place, ending with the weights of the best epoch.

    `schedule` says which exits learn at each update; `teacher` is there where the method reads one.
    history.csv and epochs.csv grow in `folder`; `report` gets a line an epoch, a terminal a
    progress bar. The batches depend on the seed alone, so that all methods of a seed see the same
    ones. Goes on from the checkpoint, and writes one at every interval.
    Raises TrainingError where the numbers are no longer finite. Where `check` raises Interrupted,
    after an update or a batch of the selection split, a checkpoint is written first.
    """
    training, method = settings.training, settings.method
    rows, selection = tokens.split("train"), tokens.split(training.selection_split)
    numbers = sample(rows.targets, settings.train_rows, settings.task)
    total = training.updates_of(len(numbers))
    schedule.freeze(model)
    checkpoint = checkpoints.read()
    sizes: dict[str, int] = checkpoint.values["files"] if checkpoint else {}
    if any(not (path := folder / name).is_file() or path.stat().st_size < size
           for name, size in sizes.items()):  # fmt: skip
        checkpoint, sizes = None, {}  # the files that grew beside it have lost rows
    columns = epoch_columns(tokens.task["metrics"])

    with (
        closing(History(folder / HISTORY, method, sizes.get(HISTORY, 0))) as history,
        closing(GrowingCsv(folder / EPOCHS, columns, sizes.get(EPOCHS, 0))) as epochs,
    ):
        optimiser = Optimiser(model, training, total)
        generator = np.random.default_rng(settings.seed)
        state = TrainingState(model, optimiser, generator, history, epochs, seconds)
        if checkpoint:
            state.load(checkpoint)
            report(f"goes on after update {history.step} of {total}, epoch {state.epoch}")
            del checkpoint  # as large as what it was loaded into
        try:
            with tqdm(total=total, initial=history.step, unit="update", disable=None) as bar:
                while state.epoch <= training.epochs:
                    with seconds("train"):
                        schedule.train_mode(model)
                        for micro_batches in _remaining_updates(state, rows, numbers, training):
                            _update(state, micro_batches, rows, method, schedule, teacher, training)
                            bar.update()
                            if checkpoints.due:
                                checkpoints.write(state.checkpoint())
                            check()
                    with seconds("selection"):
                        logits = compute_logits(model, selection, training, check)
                    _close_epoch(state, logits, selection, settings, tokens, report)
        except Interrupted:
            checkpoints.write(state.checkpoint())
            raise

    if state.best_weights:
        model.load_state_dict(state.best_weights)
    return state


def _remaining_updates(
    state: TrainingState, rows: Split, numbers: np.ndarray, training: Training
) -> list[list[np.ndarray]]:
    """The epoch's updates that are to come, each with the row numbers of its micro-batches.

    The epoch's last update may have fewer micro-batches.
    """
    state.begin_epoch()
    lengths, generator = rows.lengths[numbers], state.generator
    batches = train_batches(lengths, training.batch_size, training.group_by_length, generator)
    accumulated = training.gradient_accumulation_steps
    updates = [
        [numbers[batch] for batch in batches[start : start + accumulated]]
        for start in range(0, len(batches), accumulated)
    ]
    return updates[state.updates :]


def _update(
    state: TrainingState,
    micro_batches: list[np.ndarray],
    rows: Split,
    method: Method,
    schedule: ExitSchedule,
    teacher: Teacher | None,
    training: Training,
) -> None:
    """One update of the optimiser from its micro-batches."""
    exit_losses = schedule.losses(state.history.step)
    records = []
    for batch in micro_batches:
        inputs, labels = load_batch(rows, batch, state.model.device)
        items = teacher(batch) if teacher else None
        options = (items, training.precision, 1 / len(micro_batches), state.targets)
        records.append(training_step(state.model, inputs, labels, method, exit_losses, *options))
    rate, norm = state.optimiser.learning_rate, state.optimiser.update()
    count = sum(int(rows.lengths[batch].sum()) for batch in micro_batches)
    state.history.add(state.epoch, records, rate, norm, count)
    state.updates += 1


def _close_epoch(
    state: TrainingState,
    logits: np.ndarray,
    selection: Split,
    settings: RunSettings,
    tokens: TokenStore,
    report: Callable[[str], None],
) -> None:
    """Score the epoch, and keep its weights where they are the best so far."""
    every = exit_scores(logits, selection.targets, tokens.task["metrics"])
    scores = mean_over_exits(every) if settings.method.model_selection == "mean" else every[-1]
    value = scores[settings.selection_metric]
    loss, epochs = state.history.epoch_loss(), settings.training.epochs
    state.epochs.write([[state.epoch, state.history.step, loss, *scores.values()]])
    report(
        f"epoch {state.epoch}/{epochs}: loss {loss:.4f}, "
        f"selection {settings.selection_metric} {value:.4f}"
    )
    if state.best is None or value > state.best.value:
        state.best = Best(value, state.epoch)
        state.best_weights = {}
        if state.epoch < epochs:
            weights = state.model.state_dict()
            state.best_weights = {name: x.clone() for name, x in weights.items()}
    state.end_epoch()


@torch.inference_mode()
def compute_logits(
    model: EncoderClassifier,
    rows: Split,
    training: Training,
    between: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Logits of every row and exit, float32, (rows, exits, classes), in the rows' order.

    `between` is called after each batch, and may raise.
    """
    model.eval()
    bf16 = training.precision == "bf16"
    classes = len(model.heads[-1].label_embeddings)
    logits = np.empty((len(rows), len(model.exits), classes), dtype=np.float32)
    # Without gradients there is room for twice the rows.
    for batch in evaluation_batches(rows.lengths, 2 * training.batch_size):
        inputs = load_inputs(rows, batch, model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logits[batch] = model.exit_logits(**inputs).float().cpu().numpy()
        between()
    return logits
