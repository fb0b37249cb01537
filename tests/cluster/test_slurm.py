"""A study on SLURM: where its jobs land, what they ask for, and what they need not have."""

import time

import pytest
from cluster.submission import SMALL, Project, gpus, one_run, visible


@pytest.mark.slow
def test_a_study_is_submitted_and_its_runs_get_gpus_of_their_own(project: Project) -> None:
    # Inside an allocation, whose variables say another node and no GPU.
    allocation = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "3", "SLURM_MEM_PER_NODE": "1"}
    project.submit(SMALL, "results/small/early_exit.csv", environment=allocation)
    places: dict[int, tuple[str, str]] = {}
    together = 0
    while project.runs():
        running = gpus()
        trains = {job: place for job, place in running.items() if place[1]}
        assert len(set(trains.values())) == len(trains), f"two on a GPU: {trains}"
        together = max(together, len(trains))
        for job, number in visible().items():
            assert number and places.get(job, ("", number))[1] == number
        places |= running
        time.sleep(0.5)
    assert project.wait() == 0, project.said()
    project.check_runs()
    finished = project.finished()
    assert {job.state for job in finished} == {"COMPLETED"}
    # Both seeds of a method in one job, which asks for the time of both and for one GPU.
    trained = [job for job in finished if job.partition == "gpu"]
    assert len(trained) == together == 2
    assert {job.minutes for job in trained} == {2 * 6}
    for job in trained:
        node, numbers = places[job.number]
        assert node in ("gpu1", "gpu2") and numbers in ("0", "1")
    # The sweep, which computes on CPUs.
    (swept,) = (job for job in finished if job.partition == "cpu")
    assert places[swept.number] == ("cpu1", "")


@pytest.mark.long
def test_a_study_on_cpus_asks_for_no_gpu(project: Project) -> None:
    study = one_run(epochs=1)
    project.submit(study | {"training": study["training"] | {"device": "cpu"}}, "runs")
    assert project.wait() == 0, project.said()
    project.check_runs()
    assert {(job.state, job.partition) for job in project.finished()} == {("COMPLETED", "cpu")}
