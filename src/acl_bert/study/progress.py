"""How far a study is, and how long the rest will take at the rate of the runs that are done."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.runs.store import Store
from acl_bert.study.planned import Nearest, Run


@dataclass(frozen=True)
class Progress:
    """Runs that are done, all runs, and the seconds that those to come should take, if known."""

    done: int
    total: int
    seconds: float | None

    def __str__(self) -> str:
        parts = [f"{self.done} of {self.total} runs done"]
        if self.done < self.total:
            parts.append(f"{self.total - self.done} to go")
        if self.seconds is not None:
            parts.append(f"{_spoken(self.seconds)} at the rate of the finished ones")
        return ", ".join(parts)


def progress(runs: Iterable[Run], folder: Path) -> Progress:
    """Of the runs that lie, or will lie, in a study's folder; tuning runs count like any.

    Reads nothing but the finished runs' timings. A run to come is expected to take as long as the
    finished ones nearest to it did on average; and as many to go on at a time as so far: the sum of
    the runs' seconds over the time in which they went on. `seconds` is None where no run is done,
    or none to come.
    """
    lasted: list[tuple[Run, float]] = []
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
        lasted.append((run, seconds))
    total = len(spans) + len(to_come)
    expected = Nearest(lasted, statistics.fmean)
    work = sum(expected(run, unknown=0.0) for run in to_come)
    if not work:
        return Progress(len(spans), total, None)
    at_a_time = sum(seconds for _, seconds in lasted) / _time_taken(spans)
    return Progress(len(spans), total, work / at_a_time)


def _time_taken(spans: list[tuple[float, float]]) -> float:
    """Seconds from the first start to the last end, without the rests of the study.

    Between two runs a process ends and another starts, which is part of the rate; a gap longer
    than the mean run is a study that was stopped and taken up again.
    """
    rest = statistics.fmean(end - start for start, end in spans)
    taken = 0.0
    end_so_far = -math.inf
    for start, end in sorted(spans):
        gap = start - end_so_far
        taken += gap if 0 < gap <= rest else 0.0
        taken += max(0.0, end - max(start, end_so_far))
        end_so_far = max(end, end_so_far)
    return taken


def _spoken(seconds: float) -> str:
    """Such as "about 2 h 10 min", "about 12 min", "less than a minute"."""
    minutes = round(seconds / 60)
    if minutes == 0:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    return f"about {hours} h {minutes} min" if hours else f"about {minutes} min"
