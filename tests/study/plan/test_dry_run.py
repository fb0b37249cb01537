"""What Snakemake itself prints, read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from acl_bert.errors import InputError
from acl_bert.study.plan.dry_run import SUBMITTED, TEACHING, DryRun, read_dry_run, runs_of
from acl_bert.study.planned import Run

ROOT = Path(__file__).parents[3]
SNAKEFILE = """
CELL = "/{task}/{encoder}/{method}/{seed}/{weight}"
METHOD = "acl@gate.mode=observe,lambda=0.1"
ITEMS = [f"items/rte/tiny/{METHOD}/{seed}/0.5" for seed in (1, 2)]
rule all:
    localrule: True
    input: ITEMS
rule tuning_run:
    output: "run" + CELL
    group: "both"
    shell: "touch {output}"
rule teacher_outputs:
    input: "run" + CELL
    output: "items" + CELL
    group: "both"
    shell: "touch {output}"
"""


def dry_run(folder: Path, *arguments: str) -> DryRun:
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return read_dry_run((done.stdout + done.stderr).splitlines())


@pytest.mark.parametrize(
    ("arguments", "submissions"),
    [
        (("--groups", "tuning_run=one", "teacher_outputs=other"), [1] * 4),
        ((), [2, 2]),
        (("--group-components", "both=2"), [4]),
    ],
    ids=["apart", "grouped", "more together"],
)
def test_jobs_with_their_wildcards_and_submissions(
    tmp_path: Path, arguments: tuple[str, ...], submissions: list[int]
) -> None:
    read = dry_run(tmp_path, *arguments)
    method = "acl@gate.mode=observe,lambda=0.1"
    runs = [Run("rte", "tiny", method, seed, 0.5) for seed in (1, 2)]
    assert sorted(runs_of(read.jobs), key=lambda run: run.seed) == runs
    assert sorted(runs_of(read.jobs, TEACHING), key=lambda run: run.seed) == runs
    assert len(read.jobs) == 5
    assert [len(jobs) for jobs in read.submissions] == submissions
    if max(submissions) > 1:
        assert all(set(runs_of(jobs)) == set(runs_of(jobs, TEACHING)) for jobs in read.submissions)


def test_rules_that_a_cluster_is_given() -> None:
    """Those that have a command and are not local; `use rule` takes over what it is of."""
    text = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    rules = re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    given = {name for name, body in rules if "shell:" in body and "localrule: True" not in body}
    inherited = re.findall(r"^use rule (\w+) as (\w+) with:", text, re.MULTILINE)
    given |= {new for old, new in inherited if old in given}
    assert len(rules) > 10 and given == set(SUBMITTED)


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0 of 5 jobs found .* without --quiet"):
        dry_run(tmp_path, "--quiet", "rules")
    with pytest.raises(InputError, match="1 of 2 jobs"):
        read_dry_run(["Job stats:", "total        2", "", "rule finetune:", "    jobid: 1"])
    with pytest.raises(InputError, match=r"(?s)0 of 0 jobs .*\nNo such target$"):
        read_dry_run(["Building DAG of jobs...", "No such target", ""])


def test_nothing_to_do_is_no_fault() -> None:
    said = "Nothing to be done (all requested files are present and up to date)."
    assert read_dry_run(["Building DAG of jobs...", said]) == DryRun([])
