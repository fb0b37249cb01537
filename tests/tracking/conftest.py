"""A SQLite store for a module's tests, and a server of MLflow."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow_store import wait_until

from acl_bert.tracking.store import open_experiment


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for the module, created once: each test has an experiment of its own."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


@pytest.fixture
def study(sqlite: str, tmp_path: Path) -> Path:
    folder = tmp_path / tmp_path.name
    folder.mkdir()
    open_experiment(sqlite, folder, create=True)
    return folder


class Server:
    """A process that serves MLflow on a port of loopback, and can be stopped and started again."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self._command, self.log = command, log

    def start(self) -> None:
        environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._ready, seconds=180)

    def _ready(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, 15)
            self._process.wait(20)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers: gives each the port it is to listen on, and stops it in the end."""
    servers = []

    def serve(*command: object) -> Server:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        line = [sys.executable, "-m", *map(str, command), "--port", str(port)]
        server = Server(line, port, tmp_path_factory.mktemp("server") / "log")
        servers.append(server)
        server.start()
        return server

    yield serve
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def server(serving: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """MLflow's own, with a store and artifacts of its own."""
    folder = tmp_path_factory.mktemp("store")
    command = ["mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/server.db"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    return serving(*command)
