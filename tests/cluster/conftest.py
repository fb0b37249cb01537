"""A pretend cluster for as long as a module's tests, and a study that is sent to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.pretend import Cluster, why_not
from cluster.submission import Project


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(f"Debian packages: {reason}")
    cluster = Cluster()
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
