"""The same where SLURM keeps accounts: jobs name theirs, and sacct remembers them."""

import pytest
from cluster.pretend import ACCOUNT, run
from cluster.submission import Project, one_run

pytestmark = pytest.mark.long


@pytest.mark.parametrize("cluster", [True], indirect=True, ids=["accounting"])
def test_jobs_are_on_an_account_and_a_cancelled_one_is_seen(project: Project) -> None:
    project.set_profile("# slurm_account: lab", f"slurm_account: {ACCOUNT}")
    project.submit(one_run(), "runs")
    training = project.training()
    run("scancel", str(training))
    assert project.wait() == 0, project.said()
    project.check_runs()
    records = run("sacct", "-Xn", "--parsable2", "--format=JobID,State,Account").splitlines()
    states = {}
    for number, state, account in (record.split("|") for record in records):
        assert account == ACCOUNT
        states[int(number)] = state.split()[0]  # of "CANCELLED by 0"
    assert states.pop(training) == "CANCELLED"
    assert set(states.values()) == {"COMPLETED"}
