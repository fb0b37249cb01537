"""How long a study's runs should take: one model of costs, for the plan and for time limits."""

import math
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl_bert.config.explain import unknown
from acl_bert.config.yaml_file import read_yaml
from acl_bert.errors import InputError
from acl_bert.gpus import visible_gpus
from acl_bert.planning.sizes import Cell, Sizes, costs, official_rows
from acl_bert.runs.calibration import Calibration, calibration
from acl_bert.runs.files import TASK, data_path
from acl_bert.runs.store import Store
from acl_bert.study.planned import Nearest, Run


@dataclass(frozen=True)
class Speed:
    """A CE step takes `update` seconds a layer and its arithmetic at `flops` FLOP/s."""

    update: float
    flops: float

    def seconds(self, cell: Cell, steps: int, rows: int, padding: float = 1.0) -> float:
        """Of CE steps over so many rows in all."""
        arithmetic = rows * cell.task.length * padding * cell.flop_per_token
        return steps * cell.encoder.layers * self.update + arithmetic / self.flops


class Costs:
    """Seconds of a study's runs on one kind of device, and where they are known from.

    By a calibration on such a device, else by what costs.yaml has of it: of the GPU that is named,
    or that is here, or of its default; or of a CPU. `finished` runs on such a device, with their
    seconds, correct them. Raises InputError for a GPU that costs.yaml does not know.
    """

    def __init__(
        self,
        sizes: Sizes,
        on_gpu: bool,
        hardware: str | None = None,
        finished: Mapping[Run, float] | None = None,
    ) -> None:
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
        found = finished or {}
        self._correction = Nearest(
            ((run, taken / self._reckoned(run)) for run, taken in found.items()), statistics.median
        )
        if found:
            self.source, self.measured = f"at the speed of {len(found):,} finished runs", True

    def seconds(self, run: Run) -> float:
        """Of the run's job, to which belongs what students read of it."""
        return float(costs()["job_seconds"]) + self._correction(run, 1.0) * self._reckoned(run)

    def limit_minutes(self, run: Run) -> int:
        """For how long its job may last, generously. It may have to make what it reads, too.

        A default where nobody knows a task's rows before they are prepared.
        """
        limit, study, folder = costs()["limit"], self._sizes.study, self._sizes.folder
        if not (
            official_rows(study, study.task_spec(run.task))
            or (data_path(folder, run.task) / TASK).is_file()
        ):
            return int(limit["unknown"])
        teacher = self._sizes.teacher(run)
        seconds = self.seconds(run) + (self._items(teacher) if teacher else 0)
        factor = limit["measured" if self.measured else "assumed"]
        return int(limit["start"]) + math.ceil(factor * seconds / 60)

    def _reckoned(self, run: Run) -> float:
        """From the start of its training to its last evaluation."""
        cell = self._sizes.cell(run)
        training, task, step = cell.training, cell.task, costs()["step"]
        factor = step["regime"][cell.row.regime]
        if gate_over_parameters(cell):
            factor *= step["gate_over_parameters"]["every_exit" if cell.exits > 1 else "one_exit"]
        elif cell.row.has_term:
            factor *= step["term"]
        speed, padding = self._speeds[run.encoder], costs()["padding"][training.group_by_length]
        steps = training.batches_of(cell.train)
        seconds = factor * speed.seconds(cell, steps, training.epochs * cell.train, padding)
        dev = task.dev + task.others if run.weight is None else 0
        evaluated = training.epochs * task.rows[training.selection_split] + dev
        items = self._items(run) if self._sizes.gives_items(run) else 0
        return float(seconds + self._forward(run, evaluated) + items)

    def _items(self, teacher: Run) -> float:
        """Of what its students read: one pass over all train rows."""
        return self._forward(teacher, self._sizes.cell(teacher).task.train)

    def _forward(self, run: Run, rows: int) -> float:
        """Of evaluating so many rows, in batches twice as large."""
        cell = self._sizes.cell(run)
        steps = -(-rows // (2 * cell.training.batch_size))
        return float(costs()["step"]["forward"]) * self._speeds[run.encoder].seconds(
            cell, steps, rows
        )


def gate_over_parameters(cell: Cell) -> bool:
    """Whether each step takes two gradients of the parameters."""
    gate = cell.row.gate
    return gate.mode != "off" and gate.scope != "representation"


def finished_seconds(runs: Iterable[Run], folder: Path, on_gpu: bool) -> dict[Run, float]:
    """Of the finished runs among a study's that were trained on such a device."""
    found, store = {}, Store.beside(folder)
    for run in runs:
        if not run.path(folder).is_file():
            continue
        try:
            files = store.named(run.path(folder))
            if (files.config()["training"].get("device") == "cuda") == on_gpu:
                found[run] = files.timings()["seconds"]["total"]
        except InputError:  # damaged: it will be trained again
            continue
    return found


def _gpu(hardware: str | None) -> tuple[Speed, str]:
    gpu = costs()["gpu"]
    known = gpu["peaks"]
    if hardware is not None and hardware not in known:
        raise InputError(f"--hardware: {unknown(hardware, known)}")
    here = next((one.title for one in visible_gpus()), "") if hardware is None else ""
    named = hardware or next((name for name in known if name in here), gpu["default"])
    speed = Speed(float(gpu["update"]), float(gpu["share"]) * float(known[named]))
    return speed, f"an estimate for {named}, {gpu['share']:.0%} of whose peak are assumed"


def _cpu(threads: int) -> tuple[Speed, str]:
    cpu = costs()["cpu"]
    speed = Speed(float(cpu["update"]), float(cpu["flops"]) * threads)
    return speed, f"an estimate by {cpu['title']}"


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
    """On a cluster; None on one machine."""
    cores: int
    gpus: int | None
    """`gpu` of the workflow's resources; None where nothing bounds it."""

    @classmethod
    def of_profile(
        cls,
        folder: Path,
        cores: str | None = None,
        gpus: int | None = None,
        jobs: int | None = None,
    ) -> "Slots":
        """As a Snakemake profile says; `cores`, `gpus` and `jobs` as on the command line instead.

        `jobs` counts on a cluster alone.
        """
        keys: dict[str, Any] = read_yaml(folder / "config.yaml") or {}
        given = str(cores or keys.get("cores", "all"))
        count = int(given) if given.isdigit() else len(os.sched_getaffinity(0))
        resources = keys.get("resources", {})
        if isinstance(resources, list):
            resources = dict(str(item).split("=", 1) for item in resources)
        if gpus is None and "gpu" in resources:
            gpus = int(resources["gpu"])
        cluster = keys.get("executor", "local") != "local"
        return cls(int(jobs or keys.get("jobs", 1)) if cluster else None, count, gpus)

    def on_gpu(self, device: str) -> bool:
        """Whether training with this `training.device` is on a GPU."""
        return device != "cpu" and (self.jobs is not None or bool(visible_gpus()))

    def at_a_time(self, on_gpu: bool, threads: int) -> int:
        """Runs that go on at once, at most."""
        if self.jobs is not None:
            return self.jobs
        by_cores = max(1, self.cores // threads)
        return by_cores if self.gpus is None or not on_gpu else max(1, min(by_cores, self.gpus))
