"""How long a study's runs should take: one model of costs, for the plan and for time limits."""

import math
from dataclasses import dataclass

from acl_bert.config.explain import unknown
from acl_bert.errors import InputError
from acl_bert.gpus import visible_gpus
from acl_bert.planning.sizes import Configuration, Sizes, costs, official_rows
from acl_bert.runs.calibration import Calibration, calibration
from acl_bert.runs.files import TASK, data_path
from acl_bert.study.planned import Run


@dataclass(frozen=True)
class Speed:
    """A CE step takes `update` seconds per layer, and its arithmetic runs at `flops` FLOP/s."""

    update: float
    flops: float

    def seconds(self, run: Configuration, steps: int, rows: int, padding: float = 1.0) -> float:
        """Of CE steps over so many rows in all; `padding`: tokens computed per real token."""
        length = run.task.length
        arithmetic = rows * length * padding * run.encoder.flop_per_token(length)
        return steps * run.encoder.layers * self.update + arithmetic / self.flops


class Costs:
    """Seconds of a study's runs on a GPU or a CPU, and the source of these numbers.

    The source is the study's calibration where there is one of such a device, else costs.yaml: the
    GPU called `hardware`, or the one here, or a default one; or a CPU. Raises InputError for a GPU
    that costs.yaml does not have.
    """

    def __init__(self, sizes: Sizes, on_gpu: bool, hardware: str | None = None) -> None:
        self._sizes = sizes
        names, threads = sizes.study.encoders, sizes.study.training.threads
        measured = None if hardware else calibration(sizes.folder, names)
        if measured and all(each["gpu"] == on_gpu for each in measured.values()):
            self._speeds = {name: _fitted(sizes, name, measured[name]) for name in names}
            devices = sorted({f"{one['device']}, {one['precision']}" for one in measured.values()})
            self.source, self.measured = f"calibrated on {'; '.join(devices)}", True
        else:
            speed, self.source = _gpu(hardware) if on_gpu else _cpu(threads)
            self._speeds, self.measured = dict.fromkeys(names, speed), False

    def seconds(self, run: Run) -> float:
        """Of the run's job: training, evaluation, and its outputs where students read them."""
        known, speed = self._sizes.configuration(run), self._speeds[run.encoder]
        training, task, step = known.training, known.task, costs()["step"]
        factor = step["regime"][known.method.regime]
        gate = known.method.gate
        if gate.mode != "off" and gate.scope != "representation":
            factor *= step["gate_over_parameters"]["every_exit" if known.exits > 1 else "one_exit"]
        elif known.method.has_auxiliary_loss:
            factor *= step["aux"]
        trained = factor * speed.seconds(
            known,
            training.batches_of(known.train_rows),
            training.epochs * known.train_rows,
            costs()["padding"][training.group_by_length],
        )
        rows = training.epochs * task.rows[training.selection_split]
        if run.weight is None:
            rows += task.dev_rows + task.test_rows
        if self._sizes.gives_items(run):
            rows += task.rows["train"]
        batches = -(-rows // (2 * training.batch_size))
        evaluated = step["forward"] * speed.seconds(known, batches, rows)
        return float(costs()["job_seconds"] + trained + evaluated)

    def limit_minutes(self, run: Run) -> int:
        """A generous time limit for the run's job.

        A default one where the task's rows are unknown until they are prepared.
        """
        limit, study = costs()["limit"], self._sizes.study
        prepared = (data_path(self._sizes.folder, run.task) / TASK).is_file()
        if not prepared and official_rows(study, study.task_spec(run.task)) is None:
            return int(limit["unknown"])
        factor = limit["measured" if self.measured else "assumed"]
        return int(limit["start"]) + math.ceil(factor * self.seconds(run) / 60)


def _gpu(hardware: str | None) -> tuple[Speed, str]:
    gpu = costs()["gpu"]
    known = gpu["peaks"]
    if hardware is not None and hardware not in known:
        raise InputError(f"--hardware: {unknown(hardware, known)}")
    here = next((one.title for one in visible_gpus()), "") if hardware is None else ""
    named = hardware or next((name for name in known if name in here), gpu["default"])
    speed = Speed(float(gpu["update"]), float(gpu["share"]) * float(known[named]))
    return speed, f"an estimate for {named} at {gpu['share']:.0%} of its peak"


def _cpu(threads: int) -> tuple[Speed, str]:
    cpu = costs()["cpu"]
    return Speed(
        float(cpu["update"]), float(cpu["flops"]) * threads
    ), f"an estimate for {cpu['title']}"


def _fitted(sizes: Sizes, encoder: str, measured: Calibration) -> Speed:
    """The line through a short step and a long one."""
    size = sizes.encoder(encoder)
    (few, short), (many, long) = (
        (measured["batch_size"] * length * size.flop_per_token(length), seconds)
        for length, seconds in measured["steps"]
    )
    slope = max(long - short, 0.01 * long) / (many - few)  # a GPU may not notice the length
    return Speed(max(0.0, short - few * slope) / size.layers, 1 / slope)


@dataclass(frozen=True)
class Slots:
    """What a workflow lets run at a time."""

    jobs: int | None
    """In a cluster's queue; None on one machine."""
    cores: int
    gpus: int | None
    """The workflow's resource `gpu`; None where nothing bounds it."""

    def on_gpu(self, device: str) -> bool:
        """Whether training with this `training.device` uses a GPU."""
        return device != "cpu" and (self.jobs is not None or bool(visible_gpus()))

    def at_a_time(self, on_gpu: bool, threads: int) -> int:
        """How many runs go on at once, at most."""
        if self.jobs is not None:
            return self.jobs
        by_cores = max(1, self.cores // threads)
        return by_cores if self.gpus is None or not on_gpu else max(1, min(by_cores, self.gpus))
