"""The process that mirrors a study into MLflow for as long as its workflow runs."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import acl_bert


class TrackerProcess:
    """`acl_bert sync-tracking --watch` as a child of this process, if it is started at all."""

    def __init__(self, config: str, log: Path) -> None:
        self._config, self._log = config, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = ["-m", "acl_bert", "sync-tracking", "--watch", "--config", self._config]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command, "--owner", str(os.getpid())],
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": str(Path(acl_bert.__file__).parents[1])},
                start_new_session=True,
            )

    def end(self) -> None:
        """Let it mirror what came last. It stops by itself where MLflow does not answer."""
        if self._process is None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=90)
        if self._process.returncode != 0:
            self._process.kill()
            print(f"MLflow is not up to date: see {self._log}", file=sys.stderr)
