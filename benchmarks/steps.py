"""Training steps of this project and of transformers' Trainer, and what a step computes."""

import time
from collections.abc import Callable

import numpy as np
import torch
from measuring import Setup, spread
from torch import nn

from acl_bert.config.method import Method, known_methods
from acl_bert.encoders import resolve_path
from acl_bert.model.build import build_classifier
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import load_batch, train_batches
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import ExitSchedule
from acl_bert.training.step import training_step
from acl_bert.training.teacher import Teacher, TeacherItems, cached_teacher, teacher_items

CE = known_methods()["ce"]
LABELS = ["0", "1"]


def build_ours(setup: Setup, every_layer: bool = False) -> EncoderClassifier:
    torch.manual_seed(0)
    model = build_classifier(setup.encoder, None, LABELS, "pooler", every_layer)
    return model.to(setup.device).train()  # type: ignore[arg-type]


class Updates:
    """Whole updates of one model as the training loop makes them, under a fresh optimiser."""

    def __init__(self, setup: Setup, model: EncoderClassifier, steps: int) -> None:
        self._setup, self._model = setup, model
        self._optimiser = Optimiser(model, setup.training, steps)

    def __call__(
        self, batch: np.ndarray, method: Method = CE, teacher: Teacher | None = None
    ) -> None:
        inputs, labels = load_batch(self._setup.rows, batch, self._setup.device)
        exits = self._model.exits
        schedule = ExitSchedule(method, exits, exits[-1] if method.teacher else None)
        training_step(
            self._model,
            inputs,
            labels,
            method,
            schedule.losses(1),
            teacher(batch) if teacher else None,
            self._setup.precision,
        )
        self._optimiser.update()

    def timed(
        self, batch: np.ndarray, method: Method, teacher: Teacher | None = None
    ) -> Callable[[int], float]:
        """What gives the seconds of one update, in whichever round."""

        def seconds(_: int) -> float:
            self._setup.wait()
            start = time.perf_counter()
            self(batch, method, teacher)
            self._setup.wait()
            return time.perf_counter() - start

        return seconds


def train_ours(
    setup: Setup, model: EncoderClassifier, rows: np.ndarray, count: int, number: int
) -> float:
    """Real tokens per second over `count` CE steps on the rows so numbered."""
    lengths = setup.rows.lengths
    grouped = setup.training.group_by_length
    size, generator = setup.training.batch_size, np.random.default_rng(number)
    epoch = [rows[batch] for batch in train_batches(lengths[rows], size, grouped, generator)]
    batches = spread(epoch, setup, count, number)
    update = Updates(setup, model, count + 1)
    update(batches[0])  # the optimiser's state, caches
    setup.wait()
    start = time.perf_counter()
    for batch in batches:
        update(batch)
    setup.wait()
    return sum(int(lengths[batch].sum()) for batch in batches) / (time.perf_counter() - start)


class TransformersTrainer:
    """transformers' Trainer with dynamic padding on the same rows, encoder and precision."""

    def __init__(self, setup: Setup) -> None:
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging

        from acl_bert.data.tokens import load_tokenizer

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        path = resolve_path(setup.encoder)
        torch.manual_seed(0)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            path, num_labels=len(LABELS), dtype=torch.float32
        )
        self.tokenizer = load_tokenizer(path, None)
        self.setup = setup

    def train(self, strategy: str, rows: np.ndarray, count: int, number: int) -> float:
        """Real tokens per second over `count` steps; `strategy` is its sampler's name.

        The clock runs from the end of a first step to the end of the last, within its own loop.
        """
        from transformers import (
            DataCollatorWithPadding,
            Trainer,
            TrainerCallback,
            TrainingArguments,
        )

        setup, training = self.setup, self.setup.training
        chosen: list[np.ndarray] = []
        ends: list[float] = []

        class Clock(TrainerCallback):
            def on_step_end(self, *args: object, **kwargs: object) -> None:
                setup.wait()
                ends.append(time.perf_counter())

        class SpreadTrainer(Trainer):
            """Its own sampler's epoch, of which it takes a few batches as all contenders do."""

            def _get_train_sampler(self, train_dataset=None):  # type: ignore[no-untyped-def]
                sampler = super()._get_train_sampler(train_dataset)
                assert sampler is not None
                order = rows[list(sampler)]
                epoch = np.split(order, range(training.batch_size, len(order), training.batch_size))
                chosen[:] = spread(epoch, setup, count, number)
                place = {row: at for at, row in enumerate(rows)}
                return [place[row] for row in np.concatenate([chosen[0], *chosen])]

        arguments = TrainingArguments(
            output_dir=str(setup.config.parent / "trainer"),
            per_device_train_batch_size=training.batch_size,
            max_steps=count + 1,
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
            warmup_steps=training.warmup_ratio,
            max_grad_norm=training.max_grad_norm,
            lr_scheduler_type="linear",
            train_sampling_strategy=strategy,
            bf16=setup.precision == "bf16",
            use_cpu=setup.device.type == "cpu",
            eval_strategy="no",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=number,
        )
        trainer = SpreadTrainer(
            model=self.model,
            args=arguments,
            train_dataset=self._dataset(rows),
            data_collator=DataCollatorWithPadding(self.tokenizer),
            processing_class=self.tokenizer,
            callbacks=[Clock()],
        )
        for callback in list(trainer.callback_handler.callbacks):
            if type(callback).__name__ == "PrinterCallback":  # prints to stdout, amid the table
                trainer.remove_callback(callback)
        trainer.train()
        assert len(ends) == count + 1, f"{len(ends)} steps, not {count + 1}"
        return sum(int(setup.rows.lengths[batch].sum()) for batch in chosen) / (ends[-1] - ends[0])

    def _dataset(self, rows: np.ndarray) -> list[dict[str, object]]:
        """One dict of lists a row, as `datasets` would give it, but without Arrow in between."""
        split = self.setup.rows
        assert split.labels is not None
        dataset = []
        for row in rows:
            inputs = {name: array[0].tolist() for name, array in split.batch([row]).items()}
            dataset.append({**inputs, "labels": int(split.labels[row])})
        return dataset


def step_flops(model: EncoderClassifier, batch: int, width: int) -> float:
    """Of the matrix products of one CE step, forward and backward.

    2 a weight and token forward, twice that backward; the same for the two products of attention.
    """
    linear = [module for module in model.encoder.modules() if isinstance(module, nn.Linear)]
    weights = sum(module.weight.numel() for module in linear)
    config = model.encoder.config
    attention = 2 * config.num_hidden_layers * width * config.hidden_size
    return 6.0 * batch * width * (weights + attention)


def gemm_rate(setup: Setup, seconds: float = 0.5) -> float:
    """FLOP/s of a large square matrix product in the step's precision."""
    size = 2048 if setup.device.type == "cpu" else 8192
    dtype = torch.bfloat16 if setup.precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=setup.device, dtype=dtype) for _ in range(2))
    torch.mm(a, b)
    setup.wait()
    start, products = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        torch.mm(a, b)
        setup.wait()
        products += 1
    return products * 2.0 * size**3 / (time.perf_counter() - start)


def teachers(setup: Setup, batch: np.ndarray) -> tuple[Teacher, Teacher]:
    """One that looks up what it makes of the batch's rows, and one that computes it each time."""
    model = build_ours(setup).eval()

    def recomputed(rows: np.ndarray) -> TeacherItems:
        bf16 = setup.precision == "bf16"
        with torch.autocast(setup.device.type, torch.bfloat16, enabled=bf16):
            return teacher_items(model, load_batch(setup.rows, rows, setup.device)[0])

    items = recomputed(batch)
    h, logits = (
        torch.zeros(len(setup.rows), x.shape[1]) for x in (items.representations, items.logits)
    )
    h[batch], logits[batch] = items.representations.float().cpu(), items.logits.float().cpu()
    every = TeacherItems(h, logits, items.label_embeddings)
    return cached_teacher(every, setup.device), recomputed
