"""The same where SLURM keeps accounts, which sacct answers from."""

from collections.abc import Iterator

import pytest
from cluster.pretend import ACCOUNT, Cluster, run, why_not
from cluster.submission import Project, one_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := why_not(accounting=True):
        pytest.skip(reason)
    cluster = Cluster(accounting=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_jobs_are_on_an_account_and_a_cancelled_one_is_seen(project: Project) -> None:
    project.set_profile("# slurm_account: lab", f"slurm_account: {ACCOUNT}")
    project.submit(one_run(), "runs")
    run("scancel", str(project.training()))
    assert project.wait() == 0, project.said()
    project.check_runs()
    records = run("sacct", "-Xnp", "--format=State,Account").split()
    states = [line.split("|")[0].split()[0] for line in records if "|" in line]
    accounts = {line.split("|")[1] for line in records if line.count("|") == 2}
    assert accounts == {ACCOUNT} and "COMPLETED" in states
