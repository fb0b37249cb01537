"""Jobs that train need no network: an encoder of the hub is all there once it was fetched."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkouts import checkout, written

from acl_bert.encoders import fetch_encoder
from acl_bert.errors import InputError
from acl_bert.runs.files import name_path

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

STUDY: dict[str, Any] = {
    "name": "offline",
    "source": {"kind": "generator"},
    "tasks": {"acceptability": {"limit": {"train": 32, "dev": 16}}},
    "encoders": {"tiny": {"path": "lab/tiny-encoder", "revision": COMMIT}},
    "methods": {"ce": {}},
    "seeds": [1],
    "training": {"epochs": 1, "max_length": 16, "device": "cpu"},
    "tracking": {"enabled": False},
}


@pytest.fixture
def hub(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A cache in the hub's layout, as fetching leaves it."""
    model = tmp_path / "hub" / "models--lab--tiny-encoder"
    shutil.copytree(tiny_encoder, model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    return tmp_path / "hub"


def unreachable(tmp_path: Path, cache: Path) -> dict[str, str]:
    """The environment of processes that would ask the hub, if they lacked something."""
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    path = ":".join([str(tmp_path), *sys.path])
    kept = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    return kept | {"HF_HUB_CACHE": str(cache), "PYTHONPATH": path}


def test_a_run_with_the_hub_unreachable(tmp_path: Path, hub: Path) -> None:
    config = written(tmp_path / "offline.yaml", STUDY)
    environment = unreachable(tmp_path, hub) | {"HF_HUB_OFFLINE": "1"}
    refused = subprocess.run(
        [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert "AssertionError: a look-up of" in refused.stderr
    cell = ["--task", "acceptability", "--encoder", "tiny", "--method", "ce", "--seed", "1"]
    command = [sys.executable, "-m", "acl_bert", "finetune", "--config", config]
    done = subprocess.run(
        [*command, "--results", str(tmp_path / "results"), *cell],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = name_path(tmp_path / "results" / "offline", "acceptability", "tiny", "ce", 1)
    assert run.is_file()


@pytest.fixture
def offline(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, without the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return hub


def test_what_is_fetched_is_all_that_is_needed(offline: Path) -> None:
    fetch_encoder("lab/tiny-encoder", COMMIT)
    with pytest.raises(InputError, match=r"'lab/another': cannot be fetched .*check its id"):
        fetch_encoder("lab/another", COMMIT)


@pytest.mark.parametrize(
    ("lost", "named"),
    [("model.safetensors", "model.safetensors"), ("tokenizer.json", "tokenizer")],
)
def test_an_encoder_that_is_not_whole_is_not_fetched(offline: Path, lost: str, named: str) -> None:
    """As of a repository whose weights are in another format, or in several files."""
    snapshot = offline / "models--lab--tiny-encoder" / "snapshots" / COMMIT
    (snapshot / "vocab.txt").unlink(missing_ok=True)
    (snapshot / lost).rename(snapshot / f"pytorch_{lost}.bin")
    with pytest.raises(InputError, match=rf"'lab/tiny-encoder': no {named} .*save_pretrained"):
        fetch_encoder("lab/tiny-encoder", COMMIT)


def test_nothing_is_asked_of_the_hub_for_what_is_there(tmp_path: Path, hub: Path) -> None:
    code = f"from acl_bert.encoders import fetch_encoder; fetch_encoder('lab/%s', {COMMIT!r})"
    there, other = (
        subprocess.run(
            [sys.executable, "-c", code % name],
            env=unreachable(tmp_path, hub), capture_output=True, text=True,
        )
        for name in ("tiny-encoder", "another")
    )  # fmt: skip
    assert there.returncode == 0, there.stderr
    assert "AssertionError: a look-up of" in other.stderr


def test_weights_that_are_not_there_stop_a_study_at_its_start(tmp_path: Path, hub: Path) -> None:
    """Not its jobs, each after its time in a queue."""
    (project := tmp_path / "project").mkdir()
    checkout(project)
    path = written(tmp_path / "offline.yaml", STUDY)
    (hub / "models--lab--tiny-encoder" / "snapshots" / COMMIT / "model.safetensors").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", "--configfile", path],
        cwd=project, env=unreachable(tmp_path, hub) | {"HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "encoder 'lab/tiny-encoder': no model.safetensors was found" in said
    assert "rule prepare" not in said and not (project / "results").exists()
