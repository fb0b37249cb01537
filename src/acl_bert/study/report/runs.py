"""The runs of a study as its report tells them: what finished, and what became of the others."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from acl_bert.files import read_json
from acl_bert.runs.files import (
    RunFolder,
    RunKey,
    called_by,
    in_progress_path,
    name_path,
)
from acl_bert.runs.results import Metrics, Timings

FAILED, UNFINISHED, LEFT_OUT, NOT_RUN = "failed", "unfinished", "left out", "not run"

# How a run that failed ends its log: an error message of ours, or the last line of a traceback.
ERROR = re.compile(r"error: |[\w.]*(Error|Exception)(:|$)")


@dataclass(frozen=True)
class FinishedRun:
    """A finished run's files; `span` is when it started and ended, in POSIX seconds."""

    path: Path
    config: Mapping[str, Any]
    metrics: Metrics
    timings: Timings
    span: tuple[float, float]

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        return cls(run.path, run.config(), run.metrics(), run.timings(), run.span())

    @property
    def seconds(self) -> float:
        return self.timings["seconds"]["total"]


@dataclass(frozen=True)
class MissingRun:
    """A run without a result, its state, and why.

    `path` is its log, and `reason` the log's last line. Of a run that is left out, `path` is the
    small file that names it.
    """

    state: str
    path: Path | None = None
    reason: str = ""


@dataclass(frozen=True)
class StudyRuns:
    finished: Mapping[RunKey, FinishedRun]
    missing: Mapping[RunKey, MissingRun]

    def __str__(self) -> str:
        """Such as "2 of 4 runs finished, 1 failed, 1 not run"."""
        states = Counter(run.state for run in self.missing.values())
        total = len(self.finished) + len(self.missing)
        counts = (f"{count:,} {state}" for state, count in states.items())
        return ", ".join([f"{len(self.finished):,} of {total:,} runs finished", *counts])


def study_runs(
    study_folder: Path,
    planned: Iterable[RunKey],
    finished: Mapping[RunKey, RunFolder],
    left_out: Mapping[RunKey, str],
) -> StudyRuns:
    """`left_out` are finished runs that are not taken for the study's, and why."""
    notes = in_progress_path(study_folder, "x").parent.glob("*.json")
    begun = {called_by(study_folder / read_json(path)["name"]) for path in notes}
    missing = {}
    for run in planned:
        if run in left_out:
            missing[run] = MissingRun(LEFT_OUT, name_path(study_folder, *run), left_out[run])
        elif run not in finished:
            missing[run] = _missing(study_folder, run, run in begun)
    return StudyRuns({run: FinishedRun.of(folder) for run, folder in finished.items()}, missing)


def _missing(study_folder: Path, run: RunKey, begun: bool) -> MissingRun:
    log = study_folder / "logs" / "finetune" / f"{'.'.join(map(str, run))}.log"
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return MissingRun(UNFINISHED if begun else NOT_RUN)
    lines = [line.strip() for line in lines if line.strip()]
    if errors := [line for line in lines if ERROR.match(line)]:
        return MissingRun(FAILED, log, errors[-1])
    # A run that was removed after it ended left a log, which tells nothing of the one to come.
    return MissingRun(UNFINISHED, log, lines[-1] if lines else "") if begun else MissingRun(NOT_RUN)
