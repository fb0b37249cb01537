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
# All rules of the workflow that a cluster is given; in a dry run Snakemake does not say which.
SUBMITTED = (*TRAINING, *TEACHING, "sweep", "clusters")

_NOTHING = "Nothing to be done"
_JOB = re.compile(r"(\s*)rule (\w+):$")  # indented in a group
_GROUP = re.compile(r"(?:\[.+\] )?Group job \S+ \(jobs")
_WILDCARDS = re.compile(r"\s+wildcards: (.+)$")
_TOTAL = re.compile(r"total\s+(\d+)$")


Job = tuple[str, Mapping[str, str]]
"""Its rule and its wildcards."""


@dataclass(frozen=True)
class DryRun:
    groups: Sequence[Sequence[Job]]
    """Each of one job, or of several that a cluster is given as one: they run one by one."""

    @property
    def jobs(self) -> list[Job]:
        return [job for group in self.groups for job in group]

    @property
    def submissions(self) -> list[Sequence[Job]]:
        """What a cluster is given; the other jobs run where the workflow does."""
        return [group for group in self.groups if any(rule in SUBMITTED for rule, _ in group)]


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
    groups: list[list[tuple[str, dict[str, str]]]] = []
    total = 0
    nothing = False
    last: deque[str] = deque(maxlen=5)
    for line in map(str.rstrip, lines):
        if job := _JOB.match(line):
            if not job[1]:
                groups.append([])
            groups[-1].append((job[2], {}))
        elif groups and groups[-1] and (named := _WILDCARDS.match(line)):
            pairs = (pair.partition("=") for pair in named[1].split(", "))
            groups[-1][-1][1].update({name: value for name, _, value in pairs})
        elif _GROUP.match(line):
            groups.append([])
        elif counted := _TOTAL.match(line):
            total = int(counted[1])
        nothing |= line.startswith(_NOTHING)
        last.extend([line] if line else [])
    dry_run = DryRun(groups)
    found = len(dry_run.jobs)
    if total != found or not (found or nothing):
        raise InputError(
            f"{found} of {total} jobs found in what snakemake --dry-run printed; give all of "
            "it, without --quiet, or mend what it says at its end:\n" + "\n".join(last)
        )
    return dry_run
