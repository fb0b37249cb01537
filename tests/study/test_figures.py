"""The figure of fine-tuning results."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from run_folders import finish_run, write_task

from acl_bert.run_files import find_runs
from acl_bert.study.collect import collect
from acl_bert.study.figures import finetuning_figure, write_figures
from acl_bert.study.layout import Layout, read_layout
from acl_bert.study.tables import read_runs

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
    collect(
        [run.path for run in find_runs(tmp_path)], tmp_path / "runs.csv", tmp_path / "timings.csv"
    )
    return tmp_path


def layout_of(study: Path) -> Layout:
    encoders = {"small": "package:x", "base": "y"}
    return read_layout(
        study, {"mrpc": "MRPC", "rte": "RTE"}, encoders, {"ce": "CE", "acl": "ACL"}, SEEDS
    )


def points(panel: Axes) -> list[float]:
    offsets = [np.asarray(collection.get_offsets()) for collection in panel.collections]
    return sorted(float(x) for array in offsets for x, _ in array)


def test_every_seed_is_a_point_and_the_mean_a_bar(study: Path) -> None:
    figure = finetuning_figure(read_runs(study / "runs.csv"), layout_of(study))
    mrpc, rte = figure.axes
    assert points(mrpc) == pytest.approx([81, 81, 82, 82, 83, 83])  # f1, the main metric
    means = [line.get_xdata()[0] for line in mrpc.lines if len(line.get_xdata()) == 2]
    assert means == pytest.approx([82, 82])
    lanes = [tuple(line.get_ydata()) for line in mrpc.lines if len(line.get_xdata()) == 2]
    heights = {float(y) for some in mrpc.collections for _, y in np.asarray(some.get_offsets())}
    for (top, bottom), height in zip(sorted(lanes), sorted(heights), strict=True):
        assert (top + bottom) / 2 == pytest.approx(height)  # each bar on its encoder's points
    assert points(rte) == []
    assert [label.get_text() for label in mrpc.get_yticklabels()] == ["CE", "ACL"]
    assert [text.get_text() for text in rte.texts] == ["no finished run"] * 4


def test_marks_are_in_the_titles(study: Path) -> None:
    figure = finetuning_figure(read_runs(study / "runs.csv"), layout_of(study))
    assert STAND_IN in figure.get_suptitle()
    assert figure.axes[0].get_title() == "MRPC"
    assert figure.axes[1].get_title() == "RTE\nsubset, 100 of 2,490 training rows"
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["small", "base", "degenerate", "mean"]


def test_png_and_pdf_are_written_alike_twice(study: Path) -> None:
    runs, layout = read_runs(study / "runs.csv"), layout_of(study)
    paths = write_figures(runs, layout, study / "figures")
    first = [path.read_bytes() for path in paths]
    assert first[0].startswith(b"\x89PNG") and first[1].startswith(b"%PDF")
    again = write_figures(runs, layout, study / "figures")
    assert [path.read_bytes() for path in again] == first
