"""Jobs that train need no network: an encoder of the hub is all there once it was fetched."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from acl_bert.encoders import fetch_encoder
from acl_bert.errors import InputError
from acl_bert.run_files import run_path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Runs at the start of every Python process that finds it: any connection is an error.
NO_NETWORK = """
import socket
def refuse(self, address):
    if self.family != socket.AF_UNIX:
        raise AssertionError(f"a connection to {address}")
socket.socket.connect = socket.socket.connect_ex = refuse
def resolve(*names, **options):
    raise AssertionError(f"a look-up of {names}")
socket.getaddrinfo = resolve
"""


@pytest.fixture
def hub(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A cache in the hub's layout, as fetching leaves it."""
    model = tmp_path / "hub" / "models--lab--tiny-encoder"
    shutil.copytree(tiny_encoder, model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    return tmp_path / "hub"


def test_a_run_with_the_hub_unreachable(tmp_path: Path, hub: Path) -> None:
    study = {
        "name": "offline",
        "source": {"kind": "generator"},
        "tasks": {"acceptability": {"limit": {"train": 32, "dev": 16}}},
        "encoders": {"tiny": {"path": "lab/tiny-encoder", "revision": COMMIT}},
        "methods": {"ce": {}},
        "seeds": [1],
        "training": {"epochs": 1, "max_length": 16, "device": "cpu"},
        "tracking": {"enabled": False},
    }
    config = tmp_path / "offline.yaml"
    config.write_text(yaml.safe_dump(study))
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    environment = os.environ | {
        "HF_HUB_CACHE": str(hub),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": ":".join([str(tmp_path), *sys.path]),
    }
    refused = subprocess.run(
        [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert "AssertionError: a look-up of" in refused.stderr
    cell = ["--task", "acceptability", "--encoder", "tiny", "--method", "ce", "--seed", "1"]
    command = [sys.executable, "-m", "acl_bert", "finetune", "--config", str(config)]
    done = subprocess.run(
        [*command, "--results", str(tmp_path / "results"), *cell],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = run_path(tmp_path / "results" / "offline", "acceptability", "tiny", "ce", 1)
    assert (run / "metrics.json").is_file()


def test_what_is_fetched_is_all_that_is_needed(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    fetch_encoder("lab/tiny-encoder", COMMIT)
    with pytest.raises(InputError, match=r"'lab/another': cannot be fetched .*check its id"):
        fetch_encoder("lab/another", COMMIT)
