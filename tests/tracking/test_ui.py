"""MLflow's pages of a study, as `make ui` serves them and a browser shows them."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, DRIVER, ENTER, Browser, browser
from mlflow.tracking import MlflowClient
from mlflow_store import runs_of, wait_until
from run_folders import finish_run, name_run

from acl_bert.cli import main
from acl_bert.files import read_json, write_json
from acl_bert.tracking.store import tracking_uri
from acl_bert.tracking.sync import Tracker

STUDY = (
    "{name: moved, source: {kind: generator}, tasks: {acceptability: {}}, seeds: [1],"
    " encoders: {tiny: {path: none}}, methods: {acl: {}}}"
)


@dataclass
class Pages:
    """A served study, the verb's arguments, the server's port, and the link that it prints."""

    study: Path
    arguments: list[str]
    address: str
    port: int
    link: str

    def run(self, method: str, task: str = "rte") -> Any:
        query = f"tags.method = '{method}' and tags.task = '{task}'"
        (run,) = MlflowClient(self.address).search_runs(["1"], query)
        return run


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, serving: Callable[..., Any]) -> Pages:
    """A study that was begun in one folder, moved to another and gone on with there."""
    folder = tmp_path_factory.mktemp("results")
    before = folder / "before" / "moved"
    finish_run(before, run_hash="a" * 64, steps=40)
    Tracker(before, tracking_uri(None, before)).sync()
    study = folder / "another place" / "moved"
    before.parent.rename(study.parent)
    student = finish_run(study, method="acl_cl", run_hash="b" * 64)
    config = read_json(student / "config.json")
    config["method"] |= {"teacher": "acl"}
    write_json(student / "config.json", config | {"teacher_run": "a" * 64})
    name_run(study, student, method="acl_cl")
    finish_run(study, task="cola", run_hash="c" * 64)
    config = folder / "study.yaml"
    config.write_text(STUDY)
    arguments = ["--config", str(config), "--results", str(study.parent)]
    assert main(["sync-tracking", *arguments]) == 0
    server = serving("acl_bert", "ui", *arguments)
    (link,) = re.findall(r"http://\S+viewStateShareKey=\S+", server.log.read_text())
    return Pages(study, arguments, server.address, server.port, link)


def test_a_study_that_was_moved_has_its_runs_and_their_artifacts(
    pages: Pages, tmp_path: Path
) -> None:
    runs = runs_of(pages.address, pages.study)
    assert sorted(run.data.tags["task"] for run in runs) == ["cola", "rte", "rte"]
    for run in runs:
        found = MlflowClient(pages.address).download_artifacts(
            run.info.run_id, "metrics.json", str(tmp_path)
        )
        assert read_json(Path(found))["method"] == run.data.tags["method"]
    assert not (pages.study.parents[1] / "before" / "moved").exists()


def test_the_server_listens_on_loopback_alone(pages: Pages) -> None:
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    lines += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    port = f"{pages.port:04X}"
    listening = {line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port}")}
    assert listening == {f"0100007F:{port}"}


def test_another_host_is_answered_by_its_names_only(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda path, command, environment: commands.append(command))
    monkeypatch.setattr("socket.getfqdn", lambda: "node7.cluster")
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    assert main(["ui", *pages.arguments, "--host", "0.0.0.0", "--port", "5001"]) == 0
    (command,) = commands
    value = dict(zip(command, command[1:], strict=False))
    assert value["--host"] == "0.0.0.0"
    hosts = value["--allowed-hosts"].split(",")
    assert {"node7.cluster:5001", "node7:5001", "127.0.0.1:5001"} <= set(hosts)
    assert "*" not in value["--allowed-hosts"]
    assert value["--cors-allowed-origins"].split(",") == [f"http://{host}" for host in hosts]
    told = capsys.readouterr().out
    assert "http://node7:5001/#/experiments/" in told and "no password" in told


needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian packages: needs chromium and chromium-driver"
)


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@needs_chromium
def test_the_link_shows_the_runs_by_task_method_encoder_seed_and_score(
    pages: Pages, page: Browser
) -> None:
    page.open(pages.link)
    page.wait_for("3 matching runs", "rte · acl_cl · tiny · seed 1")
    columns = (
        "return [...document.querySelectorAll('.ag-header-cell')]"
        ".map(cell => [cell.getBoundingClientRect(), cell.innerText.trim()])"
        ".filter(([place]) => place.left < window.innerWidth)"
        ".sort(([one], [other]) => one.left - other.left).map(([, name]) => name)"
    )
    wanted = ["Run Name", "task", "method", "encoder", "seed", "dev/score"]
    wait_until(lambda: [name for name in page.ask(columns) if name in wanted] == wanted)
    page.type("[data-testid=search-box]", "tags.task = 'cola'" + ENTER)
    text = page.wait_for("1 matching run")
    assert "cola · acl" in text and "rte · acl" not in text


@needs_chromium
def test_a_run_shows_its_curves_its_teacher_and_its_files(pages: Pages, page: Browser) -> None:
    run = pages.run("acl").info.run_id
    at = f"{pages.address}/#/experiments/1/runs"
    page.open(f"{at}/{run}/model-metrics")
    page.wait_for("Add chart")
    page.type("input[placeholder='Search metric charts']", "step/(loss|angle)$")
    page.wait_for("(step/loss)", "(step/angle)")
    # A line as it is drawn, whose straight parts are one: that of the loss, 1 / step, is bent.
    lines = "return [...document.querySelectorAll('.js-line')].map(line => line.getAttribute('d'))"
    wait_until(lambda: any(line.count(",") > 5 for line in page.ask(lines)))
    page.open(f"{at}/{run}/artifacts/metrics.json")
    page.wait_for('"run_hash"', "a" * 64)
    page.open(f"{at}/{pages.run('acl_cl').info.run_id}")
    page.wait_for("It learns from")
    teacher = page.ask("return document.querySelector(\"a[href*='searchFilter']\").href")
    page.open(teacher)
    assert "acl_cl" not in page.wait_for("1 matching run", "rte · acl · tiny · seed 1")
