"""What `acl-bert plan` prints: a table of studies, and more about a single one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd

from acl_bert.config.study import Study
from acl_bert.files import canonical_hash
from acl_bert.planning.disk import DiskUse, disk_use, in_bytes
from acl_bert.planning.hours import Costs, Slots
from acl_bert.planning.sizes import Sizes
from acl_bert.study.planned import Run, planned_runs

LEGEND = """\
Tuning: runs that try a λ. Done: finished. Shared: equal to runs of a study above. The columns
after these count the remaining runs. At 30 ms: hours if each update took so long. Disk: at most."""


def plan(studies: Sequence[Study], results: Path, slots: Slots, hardware: str | None) -> str:
    """What the studies would take until all of it is in `results`.

    `hardware`: a GPU, as `Costs` takes it. Raises InputError for what cannot be read.
    """
    table, details = [], []
    sources: dict[str, bool] = {}
    known: set[str] = set()  # identities of the runs of the studies above
    for study in studies:
        folder = results / study.name
        sizes, identity = Sizes(study, folder), _identities(study)
        runs = {run: identity(run) for run in planned_runs(study)}
        done = {run for run in runs if run.path(folder).is_file()}
        shared = {run for run, text in runs.items() if text in known} - done
        known.update(runs.values())
        remaining = [run for run in runs if run not in done | shared]
        gpu = Costs(sizes, True, hardware)
        sources[gpu.source] = gpu.measured
        on_gpu = slots.on_gpu(study.training.device)
        here, at_a_time = Costs(sizes, on_gpu), slots.at_a_time(on_gpu, study.training.threads)
        disk = disk_use(sizes, remaining, here, at_a_time)
        updates = sum(sizes.configuration(run).updates for run in remaining)
        table.append(
            {
                "study": study.name,
                "runs": f"{len(runs):,}",
                "tuning": f"{sum(run.weight is not None for run in runs):,}",
                "done": f"{len(done):,}",
                "shared": f"{len(shared):,}",
                "updates": f"{updates:,}",
                "at 30 ms": _in_hours(0.030 * updates),
                "GPU-hours": _in_hours(sum(map(gpu.seconds, remaining))),
                "disk": in_bytes(disk.needed),
            }
        )
        if len(studies) == 1 and remaining:
            details = [
                _hours(sizes, remaining, gpu),
                _here(remaining, here, at_a_time),
                _disk(disk),
            ]
    doubt = "" if all(sources.values()) else "; may be off by 2 to 3 times"
    overview = pd.DataFrame(table).to_string(index=False)
    return "\n\n".join([f"{overview}\n{LEGEND}\nGPU-hours: {'; '.join(sources)}{doubt}", *details])


def _identities(study: Study) -> Callable[[Run], str]:
    """A function that gives equal runs of several studies the same text.

    The λ that is to be chosen is described by the runs that it is chosen from.
    """

    @cache
    def of_first_seed(run: Run) -> str:
        settings = run.settings(study).determinants()
        del settings["seed"]
        if run.weight is None and (tuned := study.lambda_of(run.method)):
            tried = replace(run, method=tuned, weight=0.0, seed=study.tuning.seeds[0])
            grid = study.tuning.model_dump(include={"lambdas", "seeds"})
            settings["method"]["lambda"] = [of_first_seed(tried), grid]
        teacher = study.method_row(run.method).teacher
        return canonical_hash(
            [
                study.source.model_dump(),
                study.task_spec(run.task).model_dump(exclude={"id", "title"}),
                study.selection.model_dump(),
                study.encoder(run.encoder).model_dump(include={"path", "revision"}),
                settings,
                of_first_seed(replace(run, method=teacher, weight=None)) if teacher else None,
            ]
        )

    return lambda run: f"{of_first_seed(run.of_first_seed(study))} {run.seed}"


def _hours(sizes: Sizes, runs: list[Run], gpu: Costs) -> str:
    """GPU-hours by encoder, task and regime."""
    frame = pd.DataFrame(runs)
    frame["regime"] = [sizes.configuration(run).method.regime for run in runs]
    frame["seconds"] = [gpu.seconds(run) for run in runs]
    groups = ["encoder", "task"]
    table = frame.pivot_table("seconds", groups, "regime", "sum", fill_value=0, sort=False)
    table = table.assign(total=table.sum(axis=1)).map(_in_hours)
    tasks = [sizes.task(task) for _, task in table.index]
    table.insert(0, "rows", [f"{task.rows['train']:,}" for task in tasks])
    table.insert(1, "tokens", [f"{task.length:.1f}" for task in tasks])
    table.insert(2, "runs", frame.groupby(groups).size())
    lines = ["GPU-hours by regime", table.reset_index().to_string(index=False)]
    if assumed := [task for task in sizes.study.tasks if not sizes.task(task).known]:
        lines.append(f"The rows or tokens of {', '.join(assumed)} are an assumption.")
    if assumed := [name for name in sizes.study.encoders if not sizes.encoder(name).known]:
        lines.append(f"The size of {', '.join(assumed)} is assumed to be that of BERT-base.")
    return "\n".join(lines)


def _here(runs: list[Run], costs: Costs, at_a_time: int) -> str:
    seconds, at_a_time = [costs.seconds(run) for run in runs], min(at_a_time, len(runs))
    least = max(sum(seconds) / at_a_time, *seconds)
    return (
        f"Here: {_in_hours(sum(seconds))} hours, {_in_hours(least)} at best with {at_a_time:,} "
        f"runs at a time\n  {costs.source}"
    )


def _disk(use: DiskUse) -> str:
    enough = "enough" if use.needed <= use.free else "NOT ENOUGH, a start will be refused"
    kinds = sorted(use.bytes.items(), key=lambda item: -item[1])
    lines = [f"{in_bytes(size):>8}  {kind}" for kind, size in kinds]
    return "\n  ".join(
        [
            f"Disk: {in_bytes(use.needed)} more at most, {in_bytes(use.free)} free: {enough}",
            f"in {use.folder}",
            *lines,
        ]
    )


def _in_hours(seconds: float) -> str:
    hours = seconds / 3600
    return "-" if not hours else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
