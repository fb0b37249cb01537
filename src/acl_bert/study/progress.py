"""How far a study is, and how long the rest will take at the rate of its finished runs."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.runs.store import Store
from acl_bert.study.planned import Run


@dataclass(frozen=True)
class Progress:
    """Finished runs, all runs, and the seconds that the rest should take, if known."""

    done: int
    total: int
    seconds: float | None

    def __str__(self) -> str:
        text = f"{self.done} of {self.total} runs done"
        if self.done < self.total:
            text += f", {self.total - self.done} to go"
        if self.seconds is not None:
            text += f", {_duration(self.seconds)} at the rate of the finished ones"
        return text


def progress(runs: Iterable[Run], folder: Path) -> Progress:
    """Of the runs whose study has the folder `folder`, tuning runs included.

    Reads the finished runs' timings only. A run to come is expected to take the mean time of the
    finished ones of its task, encoder and method, else of its task and encoder, else of its
    encoder, else of all; and as many run side by side as did so far. `seconds` is None where no
    run is finished, or all are.
    """
    lasted: dict[tuple[str, ...], list[float]] = defaultdict(list)
    spans: list[tuple[float, float]] = []
    to_come = []
    store = Store.beside(folder)
    for run in runs:
        try:
            files = store.named(run.path(folder))
            seconds = files.timings()["seconds"]["total"]
            spans.append(files.span())
        except InputError:
            to_come.append(run)
            continue
        for group in _groups(run):
            lasted[group].append(seconds)
    total = len(spans) + len(to_come)
    if not spans or not to_come:
        return Progress(len(spans), total, None)
    means = {group: statistics.fmean(values) for group, values in lasted.items()}
    work = sum(next(means[g] for g in _groups(run) if g in means) for run in to_come)
    side_by_side = sum(lasted[()]) / _time_taken(spans)
    return Progress(len(spans), total, work / side_by_side)


def _groups(run: Run) -> tuple[tuple[str, ...], ...]:
    """The groups of runs that are like this one, from the closest to all."""
    return run.configuration, run.configuration[:2], run.configuration[1:2], ()


def _time_taken(spans: list[tuple[float, float]]) -> float:
    """Seconds from the first start to the last end, without the pauses of the study.

    A short gap between two runs, in which one process ends and another starts, counts. A gap
    longer than the mean run is a pause: the study was stopped and started again.
    """
    pause = statistics.fmean(end - start for start, end in spans)
    taken, last_end = 0.0, -math.inf
    for start, end in sorted(spans):
        gap = start - last_end
        taken += gap if 0 < gap <= pause else 0.0
        taken += max(0.0, end - max(start, last_end))
        last_end = max(end, last_end)
    return taken


def _duration(seconds: float) -> str:
    """Such as "about 2 h 10 min", "about 12 min", "less than a minute"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"about {hours} h {minutes} min"
    return f"about {minutes} min" if minutes else "less than a minute"
