"""gradients.csv, and the table and figure of the angles in it."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from run_folders import as_json, finish_run, read_layout, write_task

from acl_bert.errors import InputError
from acl_bert.files import write_csv, write_json
from acl_bert.runs.files import HISTORY, HISTORY_COLUMNS, METRICS, RunFolder
from acl_bert.study.analyses.gradients import (
    GRADIENTS,
    GRADIENTS_COLUMNS,
    gradient_grids,
    gradient_summary,
    gradients_figure,
    write_gradients,
)
from acl_bert.study.grids import markdown
from acl_bert.study.layout import Layout

METHODS = {"ce": "CE", "scl_seen": "CE+SCL", "embed_seen": "CE+ACL-Embed"}
OBSERVED = ("scl_seen", "embed_seen")
Angles = list[tuple[float | None, float | None]]


def layout_of(study: Path, seeds: tuple[int, ...] = (1, 2)) -> Layout:
    for task, title in (("mrpc", "MRPC"), ("rte", "RTE")):
        write_task(study, task, title, ["accuracy"], "accuracy", stand_in="generated rows")
    cells = [("rte", "tiny", method) for method in METHODS] + [("mrpc", "tiny", "scl_seen")]
    return read_layout(
        study,
        {"mrpc": "MRPC", "rte": "RTE"},
        {"tiny": "x"},
        METHODS,
        seeds,
        cells,
        [],
        {},
        observed={name: name for name in OBSERVED},
    )


def finish(study: Path, method: str, seed: int, angles: Angles, scope: str = "encoder") -> Path:
    folder = finish_run(study, method=method, seed=seed)
    place = HISTORY_COLUMNS.index("angle")
    assert HISTORY_COLUMNS[place + 1] == "angle_h"
    rows = []
    for step, pair in enumerate(angles, start=1):
        row = [step, *([""] * (len(HISTORY_COLUMNS) - 1))]
        row[place : place + 2] = ["" if angle is None else angle for angle in pair]
        rows.append(row)
    write_csv(folder / HISTORY, HISTORY_COLUMNS, rows)
    metrics = as_json(folder / METRICS)
    gate = {"mode": "log_only", "scope": scope}
    write_json(folder / METRICS, metrics | {"gate": None if method == "ce" else gate})
    return folder


def test_every_step_of_an_observing_run_is_written_in_order(tmp_path: Path) -> None:
    folders = [
        finish(tmp_path, "scl_seen", 10, [(80.0, 85.0)]),
        finish(tmp_path, "ce", 1, [(None, None)]),
        finish(tmp_path, "scl_seen", 2, [(80.0, 95.0), (None, 70.0)]),
        finish(tmp_path, "embed_seen", 1, [(81.5, None)]),
    ]
    write_gradients(map(RunFolder, folders), layout_of(tmp_path), tmp_path)
    assert (tmp_path / GRADIENTS).read_text().splitlines() == [
        "task,encoder,method,seed,step,share,angle,angle_h,run_hash",
        f"rte,tiny,embed_seen,1,1,1.0,81.5,,{folders[3].name}",
        f"rte,tiny,scl_seen,2,1,0.5,80.0,95.0,{folders[2].name}",
        f"rte,tiny,scl_seen,2,2,1.0,,70.0,{folders[2].name}",
        f"rte,tiny,scl_seen,10,1,1.0,80.0,85.0,{folders[0].name}",
    ]


@pytest.mark.parametrize(
    ("scope", "expected"), [("representation", "1.0,,80.0"), ("last_layer", "1.0,,85.0")]
)
def test_only_an_angle_over_the_encoder_is_called_so(
    tmp_path: Path, scope: str, expected: str
) -> None:
    angles: Angles = [(80.0, None if scope == "representation" else 85.0)]
    run = RunFolder(finish(tmp_path, "scl_seen", 1, angles, scope))
    write_gradients([run], layout_of(tmp_path), tmp_path)
    _, row = (tmp_path / GRADIENTS).read_text().splitlines()
    assert row == f"rte,tiny,scl_seen,1,1,{expected},{run.run_hash}"


def test_a_study_that_observes_nothing_has_no_rows(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    write_gradients([RunFolder(finish(tmp_path, "ce", 1, [(None, None)]))], layout, tmp_path)
    assert (tmp_path / GRADIENTS).read_text() == ",".join(GRADIENTS_COLUMNS) + "\n"
    gradients = pd.read_csv(tmp_path / GRADIENTS)
    summary = gradient_summary(gradients)
    assert summary.empty
    text = markdown("Gradients", gradient_grids(summary, layout))
    assert "| CE+SCL | – | – | – | – |" in text
    figure = gradients_figure(gradients, layout)
    assert {text for panel in figure.axes for text in texts(panel)} == {"no finished run"}


def test_a_damaged_history_is_named(tmp_path: Path) -> None:
    folder = finish(tmp_path, "scl_seen", 1, [(80.0, 85.0)])
    (folder / HISTORY).write_text((folder / HISTORY).read_text() + "2,1\n")
    with pytest.raises(InputError, match=r"history\.csv, line 3"):
        write_gradients(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)


def invented(runs: Iterable[tuple[str, int, Angles]]) -> pd.DataFrame:
    rows = [
        ("rte", "tiny", method, seed, step, step / len(angles), *pair, "h")
        for method, seed, angles in runs
        for step, pair in enumerate(angles, start=1)
    ]
    table = pd.DataFrame(rows, columns=pd.Index(GRADIENTS_COLUMNS))
    return table.astype({"angle": float, "angle_h": float})


# At exactly 90 degrees the term is kept; 75 and 105 are within.
ANGLES: Angles = [(70.0, 80.0), (90.0, 91.0), (75.0, None), (105.0, 80.0), (None, 95.0)]


def test_shares_are_of_the_defined_angles(tmp_path: Path) -> None:
    summary = gradient_summary(invented([("scl_seen", 1, ANGLES)]))
    assert ",".join(summary.columns) == (
        "task,encoder,method,seed,scope,half,steps,"
        "median_angle,share_above_90,share_75_105,different"
    )
    found = {
        (row["scope"], row["half"]): (
            row["steps"],
            row["median_angle"],
            row["share_above_90"],
            row["share_75_105"],
            row["different"],
        )
        for row in summary.to_dict("records")
    }
    # Steps 1 and 2 of 5 are the first half; steps 1, 2 and 4 have both angles.
    assert found == {
        ("encoder", "first"): (2, 80.0, 0.0, 0.5, 0.5),
        ("encoder", "second"): (2, 90.0, 0.5, 1.0, 1.0),
        ("encoder", "all"): (4, 82.5, 0.25, 0.75, pytest.approx(2 / 3)),
        ("representation", "first"): (2, 85.5, 0.5, 1.0, 0.5),
        ("representation", "second"): (2, 87.5, 0.5, 1.0, 1.0),
        ("representation", "all"): (4, 85.5, 0.5, 1.0, pytest.approx(2 / 3)),
    }


def test_a_scope_without_angles_has_no_numbers(tmp_path: Path) -> None:
    summary = gradient_summary(invented([("scl_seen", 1, [(80.0, None), (100.0, None)])]))
    over_h = summary[summary["scope"] == "representation"]
    assert over_h["steps"].eq(0).all()
    assert over_h[["median_angle", "share_above_90", "share_75_105"]].isna().all().all()
    assert summary["different"].isna().all()


def test_the_grid_has_means_over_seeds_in_degrees_and_percent(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    summary = gradient_summary(
        invented(
            [
                ("scl_seen", 1, [(80.0, 80.0), (100.0, 80.0)]),
                ("scl_seen", 2, [(80.0, 80.0), (84.0, 80.0)]),
                ("embed_seen", 1, [(60.0, 80.0), (62.0, 80.0)]),
            ]
        )
    )
    grids = gradient_grids(summary, layout)
    assert [grid.heading for grid in grids] == ["MRPC: tiny (x)", "RTE: tiny (x)"]
    lines = markdown("Gradients", grids).splitlines()
    start = lines.index("## RTE: tiny (x)")
    assert lines[start + 2 : start + 7] == [
        "| method | median (°) | above 90° (%) | 75°–105° (%) | decided differently (%) |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| *over the encoder, all of the training* |  |  |  |  |",
        "| CE+SCL | 86.0 ± 5.7 | 25.0 ± 35.4 | 100.0 ± 0.0 | 25.0 ± 35.4 |",
        "| CE+ACL-Embed | 61.0 (n=1) | 0.0 (n=1) | 0.0 (n=1) | 0.0 (n=1) |",
    ]
    second = lines.index("| *over the encoder, second half* |  |  |  |  |", start)
    assert lines[second + 1].startswith("| CE+SCL | 92.0 ± 11.3 | 50.0 ± 70.7 |")
    assert "- MRPC, RTE: generated rows." in lines or "- RTE: generated rows." in lines


def texts(panel: object) -> list[str]:
    return [text.get_text() for text in panel.texts]  # type: ignore[attr-defined]


def drawn(steps: int, seeds: tuple[int, ...], study: Path) -> Figure:
    draw = np.random.default_rng(0)
    runs = [
        ("scl_seen", seed, [(a, a + 2) for a in draw.normal(90, 4, steps).tolist()])
        for seed in seeds
    ]
    return gradients_figure(invented(runs), layout_of(study, seeds))


def test_a_row_has_a_panel_a_method_and_one_of_all(tmp_path: Path) -> None:
    figure = drawn(400, (1, 2), tmp_path)
    assert "generated rows" in figure.get_suptitle() and "dev" not in figure.get_suptitle()
    titles = [panel.get_title().splitlines() for panel in figure.axes]
    assert titles[3:] == [
        ["RTE · tiny", "CE+SCL"],
        ["RTE · tiny", "CE+ACL-Embed"],
        ["RTE · tiny", "all steps"],
    ]
    mrpc_embed = figure.axes[1]  # which the study does not run
    assert not mrpc_embed.get_visible() and figure.axes[0].get_visible()
    scl, embed, margins = figure.axes[3:]
    assert texts(embed) == ["no finished run"] and not texts(scl)
    (density,) = scl.collections
    shares = np.ma.filled(density.get_array(), 0.0).reshape(-1, 20)  # 800 steps, 40 a bin
    assert shares.sum(axis=0) == pytest.approx(np.ones(20))
    median, right, *around = (line.get_ydata() for line in scl.lines)
    assert len(median) == 20 and np.abs(np.asarray(median) - 90).max() < 4
    assert [list(line) for line in (right, *around)] == [[90, 90], [75, 75], [105, 105]]
    assert len(margins.patches) == 2  # both scopes of one method
    assert len({panel.get_ylim() for panel in (scl, margins)}) == 1


def test_steps_without_an_angle_are_left_out(tmp_path: Path) -> None:
    angles: Angles = [(None, None), (80.0, None), (95.0, 130.0)]
    figure = gradients_figure(invented([("scl_seen", 1, angles)]), layout_of(tmp_path, (1,)))
    assert figure.axes[3].get_ylim() == (70, 130)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_few_steps_of_one_seed_are_drawn(tmp_path: Path, steps: int) -> None:
    panel = drawn(steps, (1,), tmp_path).axes[3]
    median = np.asarray(panel.lines[0].get_ydata())
    assert 1 <= len(median) <= 4 and not any(map(math.isnan, median))
