"""The process that mirrors a study into MLflow for as long as its workflow runs."""

import os
import subprocess
import sys
from pathlib import Path

import acl_bert


class TrackerProcess:
    """`acl_bert sync-tracking --watch` as a child of this process, if it is started at all."""

    def __init__(self, config: str, log: Path) -> None:
        self._config, self._log = config, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "acl_bert", "sync-tracking", "--watch"]
        command += ["--config", self._config, "--owner", str(os.getpid())]
        source = str(Path(acl_bert.__file__).parents[1])
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": source},
                start_new_session=True,
            )

    def end(self) -> None:
        """Let it mirror what came last. It stops by itself where MLflow does not answer."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            failed = self._process.wait(timeout=90) != 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            failed = True
        if failed:
            print(f"MLflow is not up to date: see {self._log}", file=sys.stderr)
