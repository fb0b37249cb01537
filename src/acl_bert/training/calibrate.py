"""Seconds of a CE step on this machine, with short rows and with long ones."""

import statistics
import time
from typing import Any

import torch

from acl_bert.config.method import known_methods
from acl_bert.config.study import Encoder
from acl_bert.config.training import Training
from acl_bert.model.build import build_classifier
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.calibration import Calibration
from acl_bert.training.hardware import describe_device
from acl_bert.training.optimiser import Optimiser
from acl_bert.training.regimes import ExitSchedule
from acl_bert.training.step import training_step

SHORTEST = 16  # tokens: a row of the shortest tasks
SECONDS = 3.0  # of measured steps for each length


def calibrate(encoder: Encoder, training: Training) -> Calibration:
    """Time CE steps over random rows, of SHORTEST tokens and of half of `max_length`.

    `training` is resolved. Raises InputError where the encoder cannot be loaded.
    """
    torch.set_num_threads(training.threads)
    device = torch.device(training.device)
    model = build_classifier(encoder.path, encoder.revision, ["0", "1"], "pooler")
    model.to(device).train()  # type: ignore[arg-type]
    lengths = (SHORTEST, max(training.max_length // 2, 2 * SHORTEST))
    return Calibration(
        device=describe_device(device),
        gpu=device.type == "cuda",
        precision=training.precision,
        threads=training.threads,
        batch_size=training.batch_size,
        steps=[(length, _step_seconds(model, training, length)) for length in lengths],
    )


def _step_seconds(model: EncoderClassifier, training: Training, length: int) -> float:
    """The median seconds of an update on rows of `length` tokens each."""
    method = known_methods()["ce"]
    exit_losses = ExitSchedule(method, model.exits, None).losses(0)
    optimiser = Optimiser(model, training, steps=1_000_000)  # so many that the rate hardly changes
    shape = (training.batch_size, length)
    config: Any = model.encoder.config
    inputs = {
        "input_ids": torch.randint(config.vocab_size, shape, device=model.device),
        "attention_mask": torch.ones(shape, dtype=torch.long, device=model.device),
    }
    labels = torch.arange(training.batch_size, device=model.device) % 2
    taken: list[float] = []
    while len(taken) < 2 or sum(taken[1:]) < SECONDS:
        start = time.perf_counter()
        training_step(model, inputs, labels, method, exit_losses, None, training.precision)
        float(optimiser.update())  # waits for the GPU
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])  # the first one makes the optimiser's state
