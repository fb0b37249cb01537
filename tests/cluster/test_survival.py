"""What a cluster does to jobs: the study completes, and a run's files are of one training."""

import json
import time
from typing import Any

import pytest
from cluster.pretend import Cluster, run, wait_for
from cluster.submission import Project, one_run, step, visible

from acl_bert.config.study import load_study
from acl_bert.runs.code import running_code
from acl_bert.runs.files import CONFIG, lease_path
from acl_bert.runs.store import address_of
from acl_bert.training.jobs import study_job

pytestmark = pytest.mark.long

TARGET = "results/small/runs/acceptability/minilm/ce/seed-1.json"
# Runs that are submitted together.
GROUP: dict[str, Any] = one_run(epochs=5) | {"seeds": [1, 2]}


def states(project: Project) -> list[str]:
    return [job.state for job in project.finished()]


def completes(project: Project) -> None:
    assert project.wait() == 0, project.said()
    assert states(project)[-1] == "COMPLETED"
    project.check_runs()


def test_a_job_over_its_time_limit_goes_on_with_more_time(project: Project) -> None:
    project.set_profile("--signal=TERM@120", "--signal=TERM@30")
    project.set_profile(
        "finetune: &training\n", "finetune: &training\n    runtime: 2 * attempt**4\n"
    )
    project.submit(one_run(epochs=60), TARGET)
    completes(project)
    jobs = project.finished()
    assert [job.minutes for job in jobs] == [2, 32][: len(jobs)]
    assert {job.state for job in jobs[:-1]} <= {"TIMEOUT", "FAILED"} and len(jobs) > 1
    said = project.said()
    assert "stopped by SIGTERM" in said and "goes on after update" in said
    # The warning reaches the training, and ends none of the processes above it.
    assert "Force Terminated" not in said


def test_a_warning_to_the_step_s_first_process_alone_is_enough(project: Project) -> None:
    """As proctrack/cgroup sends it, which not every host of these tests has."""
    project.submit(one_run(), TARGET)
    project.training()
    step().terminate()
    completes(project)
    assert states(project) == ["FAILED", "COMPLETED"]
    said = project.said()
    assert "stopped by SIGTERM" in said and "goes on after update" in said


def test_a_cancelled_job_is_submitted_again(project: Project) -> None:
    project.submit(one_run(), TARGET)
    run("scancel", str(project.training()))
    completes(project)
    assert states(project) == ["CANCELLED", "COMPLETED"]


def test_a_dead_node_s_job_is_done_by_another(cluster: Cluster, project: Project) -> None:
    project.submit(one_run(), TARGET)
    job = project.training()
    node = project.node_of(job)
    cluster.kill_node(node)
    try:
        completes(project)
    finally:
        cluster.start_node(node)
    assert [(each.number, each.state) for each in project.finished()] == [
        (job, "NODE_FAIL"),
        (job, "COMPLETED"),
    ]
    assert project.finished()[-1].nodes != node


def test_a_node_cut_off_goes_on_and_two_never_write_one_run(
    cluster: Cluster, project: Project
) -> None:
    project.submit(one_run(epochs=30), TARGET)
    node = project.node_of(project.training())
    cluster.kill_node(node, processes=False)
    try:
        completes(project)
    finally:
        cluster.kill_node(node)
        cluster.start_node(node)
    assert states(project) == ["NODE_FAIL", "COMPLETED"]
    # SLURM could not stop the first job, for which the second waited.
    assert "waiting until it has ended" in project.said()


def test_a_requeued_job_goes_on_and_has_a_gpu_again(project: Project) -> None:
    project.submit(one_run(), TARGET)
    job = project.training()
    run("scontrol", "requeue", str(job))
    wait_for("the first has ended", lambda: not visible())
    seen: list[tuple[int, str]] = []
    while project.runs():
        seen += visible().items()
        time.sleep(0.5)
    completes(project)
    assert {each.number for each in project.finished()} == {job} == {number for number, _ in seen}
    assert all(gpu for _, gpu in seen), "trains without a GPU"


def test_a_requeued_group_does_not_train_its_finished_run_again(project: Project) -> None:
    project.submit(GROUP, "runs")
    wait_for("a run is finished", lambda: bool(project.started()), 900)
    started = project.started()
    job = project.training()
    assert len(started) == 1
    run("scontrol", "requeue", str(job))
    completes(project)
    assert {each.number for each in project.finished()} == {job}
    assert len(project.started()) == 2 and project.started().items() > started.items()


def test_a_run_that_always_fails_costs_its_group_nothing_that_is_finished(project: Project) -> None:
    project.submit(GROUP, "runs", "--retries", "1")
    project.training()
    (trained,) = project.in_progress()
    seed = json.loads((trained / CONFIG).read_text())["seed"]
    study = load_study(project.folder / "study.yaml")
    other = study_job(study, project.results, "acceptability", "minilm", "ce", 3 - seed)
    # No file can be made in this place: the other run's lease.
    obstacle = lease_path(trained.with_name(address_of(other.key_hash, running_code().digest)))
    obstacle.mkdir()
    wait_for("a run is finished", lambda: bool(project.started()), 900)
    started = project.started()
    assert project.wait() != 0
    assert states(project) == ["FAILED", "FAILED"]
    obstacle.rmdir()
    project.submit(GROUP, "runs")
    completes(project)
    assert len(project.started()) == 2 and project.started().items() > started.items()


@pytest.mark.parametrize("grace", [10, 0], ids=["with grace", "at once"])
def test_a_preempted_job_goes_on_later(project: Project, grace: int) -> None:
    run("scontrol", "update", "PartitionName=gpu", f"GraceTime={grace}")
    project.submit(one_run(), TARGET)
    project.training()
    urgent = ("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive")
    run(*urgent, "--output=/dev/null", "--wrap=sleep 20")
    completes(project)
    if grace:
        said = project.said()
        assert "stopped by SIGTERM" in said and "goes on after update" in said
