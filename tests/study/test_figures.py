"""The figure of fine-tuning results."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from run_folders import collect_results, finish_run, read_layout, write_task

from acl_bert.study.figures import finetuning_figure, write_figures
from acl_bert.study.layout import Layout

SEEDS = (1, 2, 3)
STAND_IN = "generated stand-in data"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_task(tmp_path, "mrpc", "MRPC", ["accuracy", "f1"], "f1", stand_in=STAND_IN)
    write_task(tmp_path, "rte", "RTE", ["accuracy"], "accuracy", train_rows=100, stand_in=STAND_IN)
    for encoder in ("small", "base"):
        for seed in SEEDS:
            finish_run(
                tmp_path,
                task="mrpc",
                encoder=encoder,
                method="acl",
                seed=seed,
                values={"accuracy": 0.1, "f1": 0.8 + seed / 100},
                degenerate=seed == 2,
            )
    return tmp_path


TASKS = {"mrpc": "MRPC", "rte": "RTE"}
ENCODERS = {"small": "package:x", "base": "y"}
METHODS = {"ce": "CE", "acl": "ACL"}
CELLS = list(itertools.product(TASKS, ENCODERS, METHODS))


def layout_of(
    study: Path,
    cells: Iterable[tuple[str, str, str]] = CELLS,
    methods: dict[str, str] = METHODS,
    multi_exit: Iterable[str] = (),
) -> Layout:
    return read_layout(study, TASKS, ENCODERS, methods, SEEDS, cells, multi_exit, {})


def figure_of(study: Path, layout: Layout) -> Figure:
    return finetuning_figure(collect_results(study, layout).runs, layout)


def points(panel: Axes) -> list[float]:
    offsets = [np.asarray(collection.get_offsets()) for collection in panel.collections]
    return sorted(float(x) for array in offsets for x, _ in array)


def test_every_seed_is_a_point_and_the_mean_is_marked(study: Path) -> None:
    figure = figure_of(study, layout_of(study))
    mrpc, rte = figure.axes
    assert points(mrpc) == pytest.approx([81, 81, 82, 82, 83, 83])  # f1, the main metric
    marks = np.concatenate([line.get_xydata() for line in mrpc.lines])
    marks = marks[~np.isnan(marks[:, 0])]  # the other method has no run
    assert marks[:, 0] == pytest.approx([82, 82])
    heights = {float(y) for some in mrpc.collections for _, y in np.asarray(some.get_offsets())}
    assert sorted(marks[:, 1]) == pytest.approx(sorted(heights))  # each on its encoder's points
    assert points(rte) == []
    assert [label.get_text() for label in mrpc.get_yticklabels()] == ["CE", "ACL"]
    assert [text.get_text() for text in rte.texts] == ["no finished run"] * 4


def test_a_lane_that_the_study_does_not_run_is_empty(study: Path) -> None:
    cells = [cell for cell in CELLS if cell != ("rte", "small", "ce")]
    _, rte = figure_of(study, layout_of(study, cells)).axes
    assert [text.get_text() for text in rte.texts] == ["no finished run"] * 3


def test_only_degenerate_runs_that_are_shown_are_in_the_legend(study: Path) -> None:
    methods = METHODS | {"jt": "JT"}
    layout = layout_of(study, [*CELLS, ("rte", "base", "jt")], methods, ["jt"])
    for seed in SEEDS:
        for encoder in ENCODERS:
            values = {"f1": 0.5, "accuracy": 0.5}
            finish_run(study, task="mrpc", encoder=encoder, method="acl", seed=seed, values=values)
        exits = {exit: {"accuracy": 0.5} for exit in (1, 2)}
        finish_run(study, encoder="base", method="jt", seed=seed, exits=exits, degenerate=True)
    runs = collect_results(study, layout).runs
    assert runs["degenerate"].any()
    (legend,) = finetuning_figure(runs, layout.part("plain")).legends
    assert [text.get_text() for text in legend.get_texts()] == ["small", "base", "mean"]


def test_marks_are_in_the_titles(study: Path) -> None:
    figure = figure_of(study, layout_of(study))
    assert STAND_IN in figure.get_suptitle()
    assert figure.axes[0].get_title() == "MRPC"
    assert figure.axes[1].get_title() == "RTE\nsubset, 100 of 2,490 training rows"
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["small", "base", "degenerate", "mean"]


def test_png_and_pdf_are_written_alike_twice(study: Path) -> None:
    layout = layout_of(study)
    results = collect_results(study, layout)
    paths = write_figures(results, layout, study / "figures")
    assert [path.name for path in paths] == ["finetuning.png", "finetuning.pdf"]
    first = [path.read_bytes() for path in paths]
    assert first[0].startswith(b"\x89PNG") and first[1].startswith(b"%PDF")
    again = write_figures(results, layout, study / "figures")
    assert [path.read_bytes() for path in again] == first
