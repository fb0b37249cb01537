"""The plan of a study, on one page."""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from acl_bert.encoders import WEIGHTS, file_at_hand
from acl_bert.runs.files import LAMBDA, METRICS, TASK, TOKENS, data_path, tokens_path, tuning_path
from acl_bert.settings.study import Study
from acl_bert.study.plan.disk import UNCHECKED, Room, in_bytes, room
from acl_bert.study.plan.dry_run import TEACHING, DryRun, runs_of
from acl_bert.study.plan.hours import Correction, Rates, Slots, gate_over_parameters, rates
from acl_bert.study.plan.sizes import Cell, Sizes, costs
from acl_bert.study.planned import Run, planned_runs
from acl_bert.tasks.spec import Source

WIDTH = 100

# Kinds of method by what their steps cost.
KINDS = {
    "plain": "one exit",
    "gated": "one exit, and a gate that needs two gradients of the parameters",
    "exits": "an exit on every layer",
    "taught": "after, and mostly by, the run of another method; what students read included",
}


def plan(
    study: Study, folder: Path, slots: Slots, dry_run: DryRun | None, hardware: str | None
) -> str:
    """What the study, whose folder is `folder`, would take before all of it is there.

    Without a dry run, the runs to come are those that have no metrics.json. `hardware`: as in
    `rates`. Raises InputError for what cannot be read.
    """
    sizes = Sizes(study, folder)
    runs = list(planned_runs(study))
    on_cluster = slots.jobs is not None
    if dry_run is None:
        to_come = [run for run in runs if not (run.path(folder) / METRICS).is_file()]
        parts = [Part([run]) for run in to_come]
    else:
        to_come = runs_of(dry_run.jobs)
        groups = dry_run.submissions if on_cluster else [[job] for job in dry_run.jobs]
        found = (Part(runs_of(jobs), runs_of(jobs, TEACHING)) for jobs in groups)
        parts = [part for part in found if part.runs or part.outputs_of]
    threads = study.training.threads
    on_gpu = slots.on_gpu(study.training.device) if hardware is None else hardware != "cpu"
    at_a_time = slots.at_a_time(on_gpu, threads)
    known = rates(sizes, folder, hardware, on_gpu, threads)
    correction = Correction(runs if hardware is None else [], sizes, folder, known)
    work = Work(sizes, known, correction, parts)
    blocks = [
        _there(study, folder, runs, len(to_come)),
        _jobs(dry_run, on_cluster) if dry_run else [],
        _training(work, sizes, "GPU-hours" if on_gpu else "hours", at_a_time) if to_come else [],
        _disk(room(study, sizes, folder, to_come, at_a_time)),
        _downloads(study, sizes, folder),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


@dataclass(frozen=True)
class Part:
    """What is done one by one: runs, and `outputs_of`, teachers whose items are computed."""

    runs: list[Run]
    outputs_of: list[Run] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """What is to be trained, in parts that may go on side by side."""

    sizes: Sizes
    rates: Rates
    correction: Correction
    parts: list[Part]

    @property
    def runs(self) -> list[Run]:
        return [run for part in self.parts for run in part.runs]

    def seconds(self) -> dict[tuple[str, str], Counter[str]]:
        """By encoder and task, and by kind of method."""
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for run, kind, seconds in chain.from_iterable(map(self._jobs, self.parts)):
            found[run.encoder, run.task][kind] += seconds  # type: ignore[assignment]
        return found

    def span(self, at_a_time: int) -> float:
        """Seconds from start to end at least: some parts wait for others, which is left out."""
        parts = [sum(seconds for *_, seconds in self._jobs(part)) for part in self.parts]
        return max(sum(parts) / at_a_time, *parts)

    def _jobs(self, part: Part) -> Iterator[tuple[Run, str, float]]:
        """Each job's run, kind and seconds."""
        outside: float = costs()["job_seconds"]
        for run in part.runs:
            cell = self.sizes.cell(*run.cell)
            taken = self.correction(run) * self.rates.training(run, cell)
            yield run, _kind(cell), outside + taken
        for run in part.outputs_of:
            cell = self.sizes.cell(*run.cell)
            once = self.rates.forward(run.encoder, cell, cell.task.train)
            yield run, "taught", outside + self.correction(run) * once


def _kind(cell: Cell) -> str:
    if cell.row.teacher is not None:
        return "taught"
    if cell.exits > 1:
        return "exits"
    return "gated" if gate_over_parameters(cell) else "plain"


def _there(study: Study, folder: Path, runs: list[Run], to_come: int) -> list[str]:
    tuning = [run for run in runs if run.weight is not None]
    tuned = {run.cell for run in tuning}
    places = [(task, encoder) for task in study.tasks for encoder in study.encoders]
    rows = sum((data_path(folder, task) / TASK).is_file() for task in study.tasks)
    tokens = sum((tokens_path(folder, *place) / TOKENS).is_file() for place in places)
    chosen = sum((tuning_path(folder, *cell) / LAMBDA).is_file() for cell in tuned)
    there = [f"rows of {rows} of {len(study.tasks)} tasks", f"tokens {tokens} of {len(places)}"]
    there += [f"λ {chosen} of {len(tuned)}"] if tuned else []
    return [
        f"{study.name}: {len(runs):,} runs"
        + (f", {len(tuning):,} of them to choose λ" if tuning else "")
        + f"; {len(runs) - to_come:,} done, {to_come:,} to come",
        f"There already: {', '.join(there)}",
    ]


def _jobs(dry_run: DryRun, on_cluster: bool) -> list[str]:
    count = Counter(rule for rule, _ in dry_run.jobs).most_common()
    groups = f"; submissions to the cluster: {len(dry_run.submissions):,}" if on_cluster else ""
    return [
        f"Jobs to come: {len(dry_run.jobs):,}{groups}",
        *_wrapped(f"{rule} {number:,}" for rule, number in count),
    ]


def _training(work: Work, sizes: Sizes, unit: str, at_a_time: int) -> list[str]:
    seconds = work.seconds()
    runs = Counter((run.encoder, run.task) for run in work.runs)
    updates: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    for run in work.runs:
        cell = sizes.cell(*run.cell)
        updates[run.encoder, run.task] += cell.updates
        kinds[_kind(cell)] += 1
    first = ["encoder", *(encoder for encoder, _ in seconds)]
    second = ["task", *(task for _, task in seconds)]
    wide, narrow = max(map(len, first)), max(map(len, second))

    def line(*cells: object) -> str:
        names, numbers = cells[:2], [str(cell) for cell in cells[2:]]
        widths = (7, 6, 6, 10, *[7] * (len(KINDS) + 1))
        shown = [f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True)]
        return " ".join([f"{names[0]:{wide}}", f"{names[1]:{narrow}}", *shown]).rstrip()

    def hours(by_kind: Counter[str]) -> list[str]:
        return [_hours(by_kind[kind]) for kind in KINDS] + [_hours(by_kind.total())]

    lines = [
        f"Training to come; {unit} by kind of method",
        line("encoder", "task", "rows", "tokens", "runs", "updates", *KINDS, "in all"),
    ]
    total: Counter[str] = Counter()
    for place in ((encoder, task) for encoder in sizes.encoders for task in sizes.tasks):
        if by_kind := seconds.get(place):
            size = sizes.tasks[place[1]]
            known = (f"{size.train:,}", f"{size.length:.1f}")
            steps = (f"{runs[place]:,}", f"{updates[place]:,}")
            lines.append(line(*place, *known, *steps, *hours(by_kind)))
            total.update(by_kind)
    every = (f"{len(work.runs):,}", f"{updates.total():,}")
    lines.append(line("in all", "", "", "", *every, *hours(total)))
    lines.append(line("runs", "", "", "", "", "", *(f"{kinds[k]:,}" for k in KINDS), every[0]))
    lines += _wrapped(f"{kind}: {text}" for kind, text in KINDS.items())
    lines += [
        "",
        f"Time: {_hours(total.total())} {unit}; {_span(work.span(at_a_time))} at best, with "
        f"{min(at_a_time, len(work.parts)):,} at a time",
        *_wrapped([_known_from(work)]),
    ]
    if assumed := [task for task, size in sizes.tasks.items() if not size.counted]:
        lines += _wrapped([f"rows or tokens are assumed of {', '.join(assumed)}"])
    if assumed := [name for name, size in sizes.encoders.items() if not size.known]:
        lines += _wrapped([f"taken to be of BERT-base's size: {', '.join(assumed)}"])
    return lines


def _known_from(work: Work) -> str:
    if work.correction.runs:
        devices = "; ".join(sorted(work.correction.devices))
        return f"at the speed of {work.correction.runs:,} finished runs ({devices})"
    if work.rates.measured:
        return f"speed: {work.rates.source}; may be off by a third"
    return f"speed: {work.rates.source}; may be off by 2 to 3 times, `make calibrate` measures it"


def _disk(found: Room) -> list[str]:
    if not found.needed:
        return []
    enough = "enough" if found.needed <= found.free else "NOT ENOUGH, a start will be refused"
    lines = [
        f"Disk: {in_bytes(found.needed)} more at most, {in_bytes(found.free)} free: {enough}",
        f"  {found.folder}",
    ]
    for parts, ending in ((found.lasting, ""), (found.passing, " (for a while)")):
        largest = sorted(parts.items(), key=lambda part: -part[1])
        lines += _wrapped(f"{name} {in_bytes(size)}{ending}" for name, size in largest)
    if found.needed > found.free:
        lines += _wrapped([f"{UNCHECKED}=1 in the environment lets it start all the same"])
    return lines


def _downloads(study: Study, sizes: Sizes, folder: Path) -> list[str]:
    parts: Counter[str] = Counter()
    for name, encoder in study.encoders.items():
        if file_at_hand(encoder.path, encoder.revision, WEIGHTS) is None:
            parts[name] = 4 * sizes.encoders[name].parameters
    source = study.source
    if source.kind == "hub" and source.folder is None:
        for task, size in sizes.tasks.items():
            spec = study.task_spec(task)
            prepared = (data_path(folder, task) / TASK).is_file()
            if spec.hub and not prepared and not _in_cache(source, spec.hub.config):
                rows = sum((spec.rows or size.rows).values())
                parts["data sets"] += round(rows * size.text_bytes)
    if not parts:
        return ["Downloads: none"]
    return [
        f"Downloads: about {in_bytes(parts.total())}, into the hub's cache",
        *_wrapped(f"{name} {in_bytes(size)}" for name, size in parts.items()),
    ]


def _in_cache(source: Source, config: str) -> bool:
    """Whether the hub's cache has files of this part of the data set."""
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = Path(HF_HUB_CACHE, f"datasets--{source.dataset.replace('/', '--')}", "snapshots")
    return any(snapshots.glob(f"{source.revision or '*'}/{config}"))


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    if not hours:
        return "-"
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"


def _span(seconds: float) -> str:
    hours = seconds / 3600
    if hours < 1:
        return f"{max(1, round(seconds / 60))} min"
    return f"{hours / 24:,.1f} days" if hours >= 48 else f"{hours:.1f} h"


def _wrapped(parts: Iterable[str]) -> list[str]:
    """The parts, indented, in lines of at most WIDTH that break between them where they can."""
    text = "\u00a0· ".join(part.replace(" ", "\u00a0") for part in parts)
    lines = textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False, break_long_words=False)
    return [
        f"  {piece}"
        for line in lines
        for piece in textwrap.wrap(line.replace("\u00a0", " "), WIDTH - 2)
    ]
