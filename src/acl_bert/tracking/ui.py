"""MLflow's pages of a study."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from acl_bert.tracking.browsing import runs_page
from acl_bert.tracking.store import ARTIFACTS, is_server, open_experiment, tracking_uri

LOOPBACK = ("127.0.0.1", "localhost")


def serve(configured: str | None, study_folder: Path, host: str, port: int) -> None:
    """Become `mlflow server` on `host`; does not return. A remote store only has its page named.

    On another host than loopback the server answers to the names and addresses of this machine,
    and to whoever reaches it: MLflow asks for no password. Raises StoreError where the study has no
    store yet.
    """
    uri = tracking_uri(configured, study_folder)
    experiment = open_experiment(uri, study_folder)
    if is_server(uri):
        print(f"The study's runs: {runs_page(uri.rstrip('/'), experiment.id)}")
        return
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    command += ["--artifacts-destination", (study_folder / ARTIFACTS).resolve().as_uri()]
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    name = host
    if host not in LOOPBACK:
        names = _names(host)
        name = names[0]
        places = [f"{name}:{port}" for name in (*names, *LOOPBACK)]
        command += ["--allowed-hosts", ",".join(places)]
        command += ["--cors-allowed-origins", ",".join(f"http://{place}" for place in places)]
        print("Whoever reaches this port can read and change the runs: MLflow asks no password.")
    page = runs_page(f"http://{name}:{port}", experiment.id)
    print(f"The study's runs, in some seconds: {page}\nStop with Ctrl-C.", flush=True)
    # The job runner is for MLflow's own evaluations: five more processes and a gigabyte.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    os.execve(sys.executable, command, environment)


def _names(host: str) -> list[str]:
    """What a browser may call the machine that listens on `host`, a good one first."""
    own = socket.gethostname()
    names = [own, socket.getfqdn()] if host == "0.0.0.0" else [host]
    with suppress(OSError):  # a name that the resolver does not know
        names += socket.gethostbyname_ex(names[0])[2]
    return list(dict.fromkeys(names))
