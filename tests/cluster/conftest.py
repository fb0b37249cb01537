"""A pretend cluster for as long as a module's tests, and a study that is sent to it."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.pretend import STATE, Cluster, why_not
from cluster.submission import Project


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster; one with accounting where a test's parameter says so."""
    accounting: bool = getattr(request, "param", False)
    if reason := why_not(accounting):
        pytest.skip(f"Debian packages: {reason}")
    cluster = Cluster(accounting)
    with STATE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests on this host have theirs first
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path) -> Iterator[Project]:
    """A checkout with a study in it; whatever it has in the queue goes with it."""
    project = Project(tmp_path)
    try:
        yield project
    finally:
        project.end()
