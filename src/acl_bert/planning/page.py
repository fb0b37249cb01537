"""What studies would take: a table, and of a single study more."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from acl_bert.config.study import Study
from acl_bert.files import canonical_hash
from acl_bert.planning.disk import Room, in_bytes, room
from acl_bert.planning.hours import Costs, Slots, finished_seconds, gate_over_parameters
from acl_bert.planning.sizes import Cell, Sizes
from acl_bert.study.planned import Run, planned_runs

# Kinds of method by what their steps cost.
KINDS = ("plain", "gated", "exits", "taught")
KINDS_ARE = [
    "  plain: one exit · gated: one exit, and two gradients of the parameters",
    "  exits: one on every layer · taught: after the run of another method",
]


@dataclass(frozen=True)
class Planned:
    """A study's runs, and of those to come what they take on GPUs and here."""

    sizes: Sizes
    runs: list[Run]
    done: int
    shared: int
    to_come: list[Run]
    gpu: Costs
    here: Costs
    at_a_time: int

    @property
    def updates(self) -> int:
        return sum(self.sizes.cell(run).updates for run in self.to_come)

    @property
    def gpu_seconds(self) -> float:
        return sum(map(self.gpu.seconds, self.to_come))

    @property
    def room(self) -> Room:
        return room(self.sizes, self.to_come, self.here, self.at_a_time)


def plan(studies: Sequence[Study], results: Path, slots: Slots, hardware: str | None) -> str:
    """What the studies, whose folders are in `results`, would take before all of it is there.

    `hardware`: a GPU, as `Costs` takes it. Raises InputError for what cannot be read.
    """
    known: set[str] = set()
    planned = [_planned(study, results, slots, hardware, known) for study in studies]
    blocks = [_table(planned)]
    if len(planned) == 1 and planned[0].to_come:
        blocks += [_hours(planned[0]), _disk(planned[0].room)]
    return "\n\n".join("\n".join(block) for block in blocks)


def _planned(
    study: Study, results: Path, slots: Slots, hardware: str | None, known: set[str]
) -> Planned:
    """`known`: the studies' runs so far, to which this one's are added."""
    folder = results / study.name
    sizes, runs = Sizes(study, folder), list(planned_runs(study))
    done = {run for run in runs if run.path(folder).is_file()}
    identity = _identities(study)
    identities = {run: identity(run) for run in runs}
    shared = {run for run in runs if identities[run] in known} - done
    known |= {*identities.values()}
    on_gpu = slots.on_gpu(study.training.device)
    return Planned(
        sizes,
        runs,
        len(done),
        len(shared),
        [run for run in runs if run not in done | shared],
        Costs(sizes, True, hardware, finished_seconds(done, folder, True) if not hardware else {}),
        Costs(sizes, on_gpu, finished=finished_seconds(done, folder, on_gpu)),
        slots.at_a_time(on_gpu, study.training.threads),
    )


def _identities(study: Study) -> Any:
    """What equal runs of several studies have in common; by it the store knows them when they run.

    A λ that is to be chosen is told by what it is chosen from.
    """

    @cache
    def of_cell(task: str, encoder: str, method: str, weight: float | None, tuning: bool) -> str:
        seed = (study.tuning.seeds if tuning else study.seeds)[0]
        settings, where = study.run_settings(task, encoder, method, seed, weight), study.encoder
        row = settings.method.model_dump(exclude={"title", "training", "teacher"})
        giver = study.lambda_of(method) if weight is None else None
        if giver is not None:
            grid = study.tuning.model_dump(include={"lambdas", "seeds"})
            row["weight"] = [of_cell(task, encoder, giver, 0.0, True), grid]
        teacher = settings.method.teacher
        return canonical_hash(
            [
                study.source.model_dump(),
                study.task_spec(task).model_dump(exclude={"id", "title"}),
                study.selection.model_dump(),
                where(encoder).model_dump(include={"path", "revision"}),
                row,
                settings.training.model_dump(),
                settings.train_rows,
                of_cell(task, encoder, teacher, None, tuning) if teacher else None,
            ]
        )

    def of_run(run: Run) -> str:
        return f"{of_cell(*run.cell, run.weight, study.is_tuning_seed(run.seed))} {run.seed}"

    return of_run


def _table(planned: Sequence[Planned]) -> list[str]:
    columns = [
        "study",
        "runs",
        "tuning",
        "done",
        "shared",
        "updates",
        "at 30 ms",
        "GPU-hours",
        "disk",
    ]
    rows = [columns]
    for each in planned:
        tuning = sum(run.weight is not None for run in each.runs)
        counts = (len(each.runs), tuning, each.done, each.shared, each.updates)
        rows.append(
            [
                each.sizes.study.name,
                *(f"{count:,}" for count in counts),
                _in_hours(0.030 * each.updates),
                _in_hours(each.gpu_seconds),
                in_bytes(each.room.needed),
            ]
        )
    sources = dict.fromkeys(each.gpu.source for each in planned)
    surely = "" if all(each.gpu.measured for each in planned) else "; may be off by 2 to 3 times"
    return [
        *_aligned(rows, 1),
        "Tuning: runs that try a λ. Done: finished. Shared: equal to runs of a study above. Of the",
        "others: at 30 ms: GPU-hours if each update took so long; disk: at most at a time.",
        f"GPU-hours: {'; '.join(sources)}{surely}",
    ]


def _hours(planned: Planned) -> list[str]:
    """By encoder, task and kind of method, on GPUs; and in all where the plan is made."""
    sizes = planned.sizes
    seconds: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    runs = Counter((run.encoder, run.task) for run in planned.to_come)
    for run in planned.to_come:
        kind = _kind(sizes.cell(run))
        seconds[run.encoder, run.task][kind] += planned.gpu.seconds(run)  # type: ignore[assignment]
    rows = [["encoder", "task", "rows", "tokens", "runs", *KINDS, "in all"]]
    for place, by_kind in seconds.items():
        size = sizes.task(place[1])
        hours = [by_kind[kind] for kind in KINDS] + [by_kind.total()]
        counts = (f"{size.train:,}", f"{size.length:.1f}", f"{runs[place]:,}")
        rows.append([*place, *counts, *map(_in_hours, hours)])
    here, at_a_time = planned.here, min(planned.at_a_time, len(planned.to_come))
    taken = [here.seconds(run) for run in planned.to_come]
    span = max(sum(taken) / at_a_time, *taken)
    lines = ["GPU-hours by kind of method", *_aligned(rows, 2), *KINDS_ARE]
    if assumed := [task for task in sizes.study.tasks if not sizes.task(task).counted]:
        lines.append(f"Rows or tokens are assumed of {', '.join(assumed)}")
    if assumed := [name for name in sizes.study.encoders if not sizes.encoder(name).known]:
        lines.append(f"Taken to be of BERT-base's size: {', '.join(assumed)}")
    return [
        *lines,
        "",
        f"Here: {_in_hours(sum(taken))} hours, {_in_hours(span)} at best with {at_a_time:,} runs "
        "at a time",
        f"  {here.source}",
    ]


def _kind(cell: Cell) -> str:
    if cell.row.teacher is not None:
        return "taught"
    if cell.exits > 1:
        return "exits"
    return "gated" if gate_over_parameters(cell) else "plain"


def _disk(found: Room) -> list[str]:
    enough = "enough" if found.needed <= found.free else "NOT ENOUGH, a start will be refused"
    return [
        f"Disk: {in_bytes(found.needed)} more at most, {in_bytes(found.free)} free: {enough}",
        f"  {found.folder}",
        f"  {_parts(found.lasting.items())}",
        f"  for a while: {_parts(found.passing.items())}",
    ]


def _parts(parts: Iterable[tuple[str, int]]) -> str:
    largest = sorted(parts, key=lambda part: -part[1])
    return " · ".join(f"{name} {in_bytes(size)}" for name, size in largest)


def _aligned(rows: Sequence[Sequence[str]], names: int) -> list[str]:
    """Columns as wide as they need be, the first `names` to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{text:{'<' if place < names else '>'}{width}}"
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _in_hours(seconds: float) -> str:
    hours = seconds / 3600
    return "-" if not hours else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
