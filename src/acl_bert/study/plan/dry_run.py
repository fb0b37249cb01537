"""What Snakemake's dry run says: the jobs that it would run. It alone knows the graph."""

import re
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acl_bert.errors import InputError
from acl_bert.study.planned import Run

# Rules of train.smk.
TRAINING = ("finetune", "finetune_teacher", "tuning_run")
TEACHING = ("teacher_outputs",)

_NOTHING = "Nothing to be done"
_JOB = re.compile(r"(\s*)(?:local)?rule (\w+):$")  # indented in a group
_GROUP = re.compile(r"(?:\[.+\] )?Group job \S+ \(jobs")
_WILDCARDS = re.compile(r"\s+wildcards: (.+)$")
_TOTAL = re.compile(r"total\s+(\d+)$")


Job = tuple[str, Mapping[str, str]]
"""Its rule and its wildcards."""


@dataclass(frozen=True)
class DryRun:
    jobs: Sequence[Job]
    submissions: int
    """To a cluster, a group of jobs being one; the few jobs that it is not given are counted too:
    Snakemake does not print which."""


def runs_of(jobs: Iterable[Job], rules: Container[str] = TRAINING) -> list[Run]:
    """The runs that jobs of some rules are about."""
    return [
        Run(
            task=given["task"],
            encoder=given["encoder"],
            method=given["method"],
            seed=int(given["seed"]),
            weight=float(given["weight"]) if "weight" in given else None,
        )
        for rule, given in jobs
        if rule in rules
    ]


def read_dry_run(lines: Iterable[str]) -> DryRun:
    """What `snakemake --dry-run` printed. Raises InputError where it failed, or is not whole."""
    jobs: list[tuple[str, dict[str, str]]] = []
    submissions = total = 0
    nothing = False
    last: deque[str] = deque(maxlen=5)
    for line in map(str.rstrip, lines):
        if job := _JOB.match(line):
            jobs.append((job[2], {}))
            submissions += not job[1]
        elif jobs and (named := _WILDCARDS.match(line)):
            pairs = (pair.partition("=") for pair in named[1].split(", "))
            jobs[-1][1].update({name: value for name, _, value in pairs})
        elif _GROUP.match(line):
            submissions += 1
        elif counted := _TOTAL.match(line):
            total = int(counted[1])
        nothing |= line.startswith(_NOTHING)
        last.extend([line] if line else [])
    if total != len(jobs) or not (jobs or nothing):
        raise InputError(
            f"{len(jobs)} of {total} jobs found in what snakemake --dry-run printed; give all of "
            "it, without --quiet, or mend what it says at its end:\n" + "\n".join(last)
        )
    return DryRun(jobs, submissions)
