"""What `acl-bert plan` prints: a table of studies, and more about a single one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Planned:
    """A study's runs, and what the remaining ones take on a GPU and here."""

    sizes: Sizes
    runs: list[Run]
    done: int
    shared: int
    remaining: list[Run]
    gpu: Costs
    here: Costs
    at_a_time: int
    disk: DiskUse


def plan(studies: Sequence[Study], results: Path, slots: Slots, hardware: str | None) -> str:
    """What the studies would take until all of it is in `results`.

    `hardware`: a GPU, as `Costs` takes it. Raises InputError for what cannot be read.
    """
    known: set[str] = set()
    planned = [_planned(study, results, slots, hardware, known) for study in studies]
    blocks = [_overview(planned)]
    if len(planned) == 1 and planned[0].remaining:
        blocks += [_hours(planned[0]), _disk(planned[0].disk)]
    return "\n\n".join(blocks)


def _planned(
    study: Study, results: Path, slots: Slots, hardware: str | None, known: set[str]
) -> Planned:
    """`known`: the identities of the runs of the studies above; this one's are added."""
    folder = results / study.name
    sizes, runs, identity = Sizes(study, folder), list(planned_runs(study)), _identities(study)
    done = {run for run in runs if run.path(folder).is_file()}
    identities = {run: identity(run) for run in runs}
    shared = {run for run in runs if identities[run] in known} - done
    known.update(identities.values())
    remaining = [run for run in runs if run not in done | shared]
    on_gpu = slots.on_gpu(study.training.device)
    here, at_a_time = Costs(sizes, on_gpu), slots.at_a_time(on_gpu, study.training.threads)
    return Planned(
        sizes,
        runs,
        len(done),
        len(shared),
        remaining,
        Costs(sizes, True, hardware),
        here,
        at_a_time,
        disk_use(sizes, remaining, here, at_a_time),
    )


def _identities(study: Study) -> Callable[[Run], str]:
    """A function that gives equal runs of several studies the same text.

    The λ that is to be chosen is described by the runs that it is chosen from.
    """

    @cache
    def of_first_seed(run: Run) -> str:
        settings = study.run_settings(*run.configuration, run.seed, run.weight).determinants()
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


def _overview(planned: Sequence[Planned]) -> str:
    rows = []
    for each in planned:
        updates = sum(each.sizes.configuration(run).updates for run in each.remaining)
        counts = {
            "runs": len(each.runs),
            "tuning": sum(run.weight is not None for run in each.runs),
            "done": each.done,
            "shared": each.shared,
            "updates": updates,
        }
        rows.append(
            {"study": each.sizes.study.name}
            | {name: f"{count:,}" for name, count in counts.items()}
            | {
                "at 30 ms": _in_hours(0.030 * updates),
                "GPU-hours": _in_hours(sum(map(each.gpu.seconds, each.remaining))),
                "disk": in_bytes(each.disk.needed),
            }
        )
    sources = "; ".join(dict.fromkeys(each.gpu.source for each in planned))
    doubt = "" if all(each.gpu.measured for each in planned) else "; may be off by 2 to 3 times"
    table = pd.DataFrame(rows).to_string(index=False)
    return f"{table}\n{LEGEND}\nGPU-hours: {sources}{doubt}"


def _hours(planned: Planned) -> str:
    """GPU-hours by encoder, task and regime; and hours where the plan is made."""
    sizes, remaining = planned.sizes, planned.remaining
    frame = pd.DataFrame(remaining)
    frame["regime"] = [sizes.configuration(run).method.regime for run in remaining]
    frame["seconds"] = [planned.gpu.seconds(run) for run in remaining]
    groups = frame.groupby(["encoder", "task"], sort=False)
    table = frame.pivot_table("seconds", ["encoder", "task"], "regime", "sum", 0, sort=False)
    table = table.assign(total=table.sum(axis=1)).map(_in_hours)
    tasks = [sizes.task(task) for _, task in table.index]
    table.insert(0, "rows", [f"{task.rows['train']:,}" for task in tasks])
    table.insert(1, "tokens", [f"{task.length:.1f}" for task in tasks])
    table.insert(2, "runs", groups.size().reindex(table.index))
    lines = ["GPU-hours by regime", table.reset_index().to_string(index=False)]
    if assumed := [task for task in sizes.study.tasks if not sizes.task(task).known]:
        lines.append(f"The rows or tokens of {', '.join(assumed)} are an assumption.")
    if assumed := [name for name in sizes.study.encoders if not sizes.encoder(name).known]:
        lines.append(f"The size of {', '.join(assumed)} is assumed to be that of BERT-base.")
    here, at_a_time = planned.here, min(planned.at_a_time, len(remaining))
    seconds = [here.seconds(run) for run in remaining]
    least = max(sum(seconds) / at_a_time, *seconds)
    return "\n".join(
        [
            *lines,
            "",
            f"Here: {_in_hours(sum(seconds))} hours, {_in_hours(least)} at best with "
            f"{at_a_time:,} runs at a time",
            f"  {here.source}",
        ]
    )


def _disk(use: DiskUse) -> str:
    enough = "enough" if use.needed <= use.free else "NOT ENOUGH, a start will be refused"
    kinds = sorted(use.bytes.items(), key=lambda item: -item[1])
    return "\n".join(
        [
            f"Disk: {in_bytes(use.needed)} more at most, {in_bytes(use.free)} free: {enough}",
            f"  in {use.folder}",
            *(f"  {in_bytes(size):>8}  {kind}" for kind, size in kinds),
        ]
    )


def _in_hours(seconds: float) -> str:
    hours = seconds / 3600
    return "-" if not hours else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
