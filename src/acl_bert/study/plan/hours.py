"""How long a study's runs should take, on hardware that was measured or is assumed."""

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError
from acl_bert.gpus import visible_gpus
from acl_bert.runs.files import Calibration, RunFolder, calibration
from acl_bert.settings.explain import unknown
from acl_bert.settings.yaml_file import read_yaml
from acl_bert.study.plan.sizes import Cell, Sizes, costs
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


@dataclass(frozen=True)
class Rates:
    """The speed of each encoder's steps, and where it is known from."""

    speeds: Mapping[str, Speed]
    source: str
    measured: bool
    """On this study's own hardware."""

    def training(self, run: Run, cell: Cell) -> float:
        """Seconds of a run, from the start of its training to its last evaluation."""
        training, task, step = cell.training, cell.task, costs()["step"]
        factor = step["regime"][cell.row.regime]
        if gate_over_parameters(cell):
            factor *= step["gate_over_parameters"]["every_exit" if cell.exits > 1 else "one_exit"]
        elif cell.row.has_term:
            factor *= step["term"]
        speed, padding = self.speeds[run.encoder], costs()["padding"][training.batches]
        steps = training.batches_of(task.train)
        seconds = factor * speed.seconds(cell, steps, training.epochs * task.train, padding)
        dev = task.dev + task.others if run.weight is None else 0
        chosen_on = task.rows[training.chosen_on]
        return seconds + self.forward(run.encoder, cell, training.epochs * chosen_on + dev)

    def forward(self, encoder: str, cell: Cell, rows: int) -> float:
        """Seconds of evaluating so many rows, in batches twice as large."""
        steps = -(-rows // (2 * cell.training.batch_size))
        share: float = costs()["step"]["forward"]
        return share * self.speeds[encoder].seconds(cell, steps, rows)


def gate_over_parameters(cell: Cell) -> bool:
    """Whether each step takes two gradients of the parameters."""
    gate = cell.row.gate
    return gate.mode != "off" and gate.scope != "representation"


def rates(sizes: Sizes, folder: Path, hardware: str | None, on_gpu: bool, threads: int) -> Rates:
    """Those of `hardware` (a GPU of costs.yaml, or cpu) where named; else of the calibration.

    Else of the GPU that is here, or of costs.yaml's, or of a CPU. Raises InputError for a name that
    costs.yaml has not.
    """
    known = costs()["gpu"]["peaks"]
    if hardware is not None and hardware not in {"cpu", *known}:
        raise InputError(f"--hardware: {unknown(hardware, ['cpu', *known])}")
    if hardware is None and (calibrated := _calibrated(sizes, folder)):
        return calibrated
    if hardware == "cpu" or (hardware is None and not on_gpu):
        cpu = costs()["cpu"]
        speed = Speed(float(cpu["update"]), float(cpu["flops"]) * threads)
        source = f"a step's arithmetic as on {cpu['title']}, measured on another machine"
        return Rates(dict.fromkeys(sizes.encoders, speed), source, measured=False)
    gpu = costs()["gpu"]
    here = next((one.title for one in visible_gpus()), "")
    named = hardware or next((name for name in known if name in here), gpu["default"])
    speed = Speed(float(gpu["update"]), float(gpu["share"]) * float(known[named]))
    source = f"{named}, of which nobody measured it: {gpu['share']:.0%} of its peak are assumed"
    return Rates(dict.fromkeys(sizes.encoders, speed), source, measured=False)


def _calibrated(sizes: Sizes, folder: Path) -> Rates | None:
    measured = calibration(folder, sizes.encoders)
    if measured is None:
        return None
    speeds = {name: _fitted(sizes, name, measured[name]) for name in sizes.encoders}
    devices = sorted({f"{one['device']}, {one['precision']}" for one in measured.values()})
    return Rates(speeds, f"calibrated on {'; '.join(devices)}", measured=True)


def _fitted(sizes: Sizes, encoder: str, measured: Calibration) -> Speed:
    """The line through a short step and a long one."""
    size = sizes.encoders[encoder]
    (few, short), (many, long) = (
        (measured["batch_size"] * length * size.flop_per_token(length), seconds)
        for length, seconds in measured["steps"]
    )
    slope = max(long - short, 0.01 * long) / (many - few)  # a GPU may not notice the length
    return Speed(max(0.0, short - few * slope) / size.layers, 1 / slope)


class Correction:
    """By how much finished runs took longer than reckoned: the median of those nearest to a run."""

    def __init__(self, runs: Iterable[Run], sizes: Sizes, folder: Path, rates: Rates) -> None:
        found: list[tuple[Run, float]] = []
        self.runs = 0
        self.devices: set[str] = set()
        for run in runs:
            try:
                timings = RunFolder(run.path(folder)).timings()
            except InputError:
                continue
            self.runs += 1
            self.devices.add(f"{timings['device']}, {timings['precision']}")
            reckoned = rates.training(run, sizes.cell(*run.cell))
            found.append((run, timings["seconds"]["total"] / reckoned))
        self._factor = Nearest(found, statistics.median)

    def __call__(self, run: Run) -> float:
        return self._factor(run, unknown=1.0)


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
