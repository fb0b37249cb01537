"""Tables, figures and the report of studies that are not whole say what is missing."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_folders import finish_run, name_run, start_run, write_task

from acl_bert.cli import main
from acl_bert.config.study import load_study
from acl_bert.files import write_json
from acl_bert.runs.files import CONFIG, name_path
from acl_bert.runs.store import Store

ROOT = Path(__file__).parents[2]
METHODS = ["ce", "ce_scl", "acl_embed", "acl", "jt", "jt_scl", "two_stage", "alternating", "acl_cl"]
Cell = tuple[str, str, str, int]


def config(folder: Path, **changes: Any) -> Path:
    path = folder / "study.yaml"
    study = {
        "name": "s",
        "source": {"kind": "glue"},
        "tasks": {"rte": {}, "cola": {}},
        "encoders": {"tiny": {"path": "x"}},
        "methods": {name: {} for name in METHODS} | {"ce_scl": {"gate": {"mode": "log_only"}}},
        "seeds": [1, 2],
        "analyses": {
            "audit": {"choices": ["temperature", "teacher"], "tasks": ["rte"]},
            "sensitivity": {"lambdas": [0.1, 0.9], "temperatures": [0.1], "tasks": ["rte"]},
        },
    }
    path.write_text(yaml.safe_dump(study | changes))
    return path


def finish(path: Path, study: Path, cells: Iterable[Cell], multi_exit: set[str]) -> None:
    """Runs as the config at `path` has them, with numbers that are invented."""
    whole = load_study(path)
    for task, encoder, method, seed in cells:
        metric = "matthews" if task == "cola" else "accuracy"
        exits = range(1, 7) if method in multi_exit else [6]
        scores = {exit: {metric: 0.5 + exit / 100 + seed / 1000} for exit in exits}
        run = finish_run(study, task=task, encoder=encoder, method=method, seed=seed, exits=scores)
        settings = whole.run_settings(task, encoder, method, seed)
        write_json(run / CONFIG, settings.model_dump(by_alias=True))
        name_run(study, run, task, encoder, method, seed)


def analyse(folder: Path, path: Path) -> int:
    arguments = ["analyse", "--config", str(path), "--results", str(folder)]
    return main([*arguments, "--claims", str(ROOT / "config" / "claims.yaml")])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "s"
    write_task(folder, "rte", "RTE", ["accuracy"], "accuracy")
    write_task(folder, "cola", "CoLA", ["matthews"], "matthews")
    return folder


def planned(path: Path) -> tuple[list[Cell], set[str]]:
    whole = load_study(path)
    return list(whole.cells()), {n for n, row in whole.method_rows.items() if row.is_multi_exit}


def outputs(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


EXPECTED = {
    "report.html",
    "paper/all.tex",
    *(f"tables/{name}.md" for name in ("finetuning", "multi_exit", "quality_speed", "claims")),
    *(f"tables/{name}.tex" for name in ("audit", "gradients", "sensitivity", "ablation")),
    *(f"figures/{name}.png" for name in ("gradients", "sensitivity", "ablation", "clusters")),
}


def test_a_whole_study(tmp_path: Path, study: Path) -> None:
    path = config(tmp_path)
    finish(path, study, *planned(path))
    assert analyse(tmp_path, path) == 0
    assert outputs(study) >= EXPECTED


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(lambda cell: cell[2] == "ce", id="one method"),
        pytest.param(lambda cell: len("".join(cell[:3])) % 3 and cell[3] == 2, id="some"),
    ],
)
def test_a_half_finished_study_with_a_failed_run(tmp_path: Path, study: Path, kept: Any) -> None:
    path = config(tmp_path)
    cells, multi_exit = planned(path)
    finish(path, study, filter(kept, cells), multi_exit)
    start_run(study, task="cola", method="acl", seed=2)
    log = study / "logs" / "finetune" / "cola.tiny.acl.2.log"
    log.parent.mkdir(parents=True)
    log.write_text("epoch 1\nRuntimeError: out of memory <here>\n")
    assert analyse(tmp_path, path) == 0
    assert outputs(study) >= EXPECTED
    page = (study / "report.html").read_text("utf-8")
    unfinished = not kept(("cola", "tiny", "acl", 2))
    assert ("out of memory &lt;here&gt;" in page) == unfinished
    assert "not run" in page


def test_a_study_with_a_single_seed(tmp_path: Path, study: Path) -> None:
    path = config(tmp_path, seeds=[1])
    finish(path, study, *planned(path))
    assert analyse(tmp_path, path) == 0
    assert outputs(study) >= EXPECTED


def test_runs_of_other_settings_are_left_out_and_named(tmp_path: Path, study: Path) -> None:
    path = config(tmp_path, methods={"ce": {}, "acl": {}}, analyses={}, seeds=[1])
    finish(path, study, *planned(path))
    path = config(tmp_path, methods={"ce": {}, "acl": {"temperature": 0.1}}, analyses={}, seeds=[1])
    assert analyse(tmp_path, path) == 0
    assert "acl" not in (study / "runs.csv").read_text().replace("acl_bert", "")
    assert "trained with another method" in (study / "report.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["metrics.json", "timings.json", "logits.safetensors"])
def test_a_torn_run_is_left_out_and_named(tmp_path: Path, study: Path, name: str) -> None:
    path = config(tmp_path, methods={"ce": {}, "jt": {}}, analyses={}, seeds=[1])
    finish(path, study, *planned(path))
    run = Store.beside(study).named(name_path(study, "rte", "tiny", "jt", 1)).path
    torn = run / name
    torn.write_bytes(torn.read_bytes()[:20])
    assert analyse(tmp_path, path) == 0
    assert "rte,tiny,jt" not in (study / "exits.csv").read_text()
    assert "cola,tiny,jt" in (study / "exits.csv").read_text()
    page = (study / "report.html").read_text("utf-8")
    assert f"{run.name}/{name} has 20 bytes, not" in page and "trains it anew" in page


def test_a_study_without_a_finished_run_is_refused(
    tmp_path: Path, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyse(tmp_path, config(tmp_path)) == 2
    assert "no finished run" in capsys.readouterr().err
