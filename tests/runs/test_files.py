"""Reading a run's files: torn lines, offsets, what counts as finished."""

from pathlib import Path

import pytest
from run_folders import append, finish_run, history_line, start_run

from acl_bert.errors import InputError
from acl_bert.runs.files import (
    METRICS,
    RunFolder,
    drawn,
    find_runs,
    is_drawn,
    run_path,
    tuning_path,
    variant_of,
)


def test_a_torn_last_line_waits_for_the_next_call(tmp_path: Path) -> None:
    run = RunFolder(start_run(tmp_path, steps=3))
    append(run.history_path, history_line(4)[:9])
    assert [row["step"] for row in run.history()] == [1, 2, 3]
    append(run.history_path, history_line(4)[9:])
    assert [row["step"] for row in run.history(3)] == [4]


def test_an_empty_cell_is_not_applicable(tmp_path: Path) -> None:
    row = RunFolder(start_run(tmp_path)).history(2)[0]
    assert row["contrastive"] is None
    assert row["angle"] == 83.0


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run = RunFolder(start_run(tmp_path, steps=3))
    append(run.history_path, "4,1,0.5\n")
    with pytest.raises(InputError, match=r"history\.csv, line 5"):
        run.history()
    with pytest.raises(InputError, match=r"history\.csv, line 5"):
        run.history(3)


def test_files_that_are_not_there_yet_have_no_rows(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).history() == []


def test_runs_are_found_in_order_and_unfinished_ones_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for seed in (10, 2):
        finish_run(tmp_path, seed=seed)
    finish_run(tmp_path, task="cola")
    start_run(tmp_path, run_hash="b")
    (finish_run(tmp_path, seed=3) / METRICS).unlink()
    torn = finish_run(tmp_path, seed=4) / METRICS
    torn.write_text(torn.read_text()[:40])
    found = [(run.path.parts[-4], run.path.name) for run in find_runs(tmp_path)]
    assert found == [("cola", "seed-1"), ("rte", "seed-2"), ("rte", "seed-10")]
    assert "seed-4" in caplog.text


def test_metrics_without_a_part_are_refused(tmp_path: Path) -> None:
    path = finish_run(tmp_path) / METRICS
    path.write_text(path.read_text().replace('"degenerate"', '"something"'))
    with pytest.raises(InputError, match=r"metrics\.json: lacks degenerate"):
        RunFolder(path.parent).metrics()


def test_the_hash_of_a_run_in_progress_is_its_folders_name(tmp_path: Path) -> None:
    assert RunFolder(start_run(tmp_path, run_hash="abc")).run_hash == "abc"
    assert RunFolder(finish_run(tmp_path, run_hash="abc")).run_hash == "abc"


def test_the_variant_of_a_tuning_run_is_in_its_path() -> None:
    tuned = tuning_path(Path("study"), "rte", "tiny", "acl") / "lambda-0.3" / "seed-101"
    assert variant_of(tuned) == "lambda-0.3"
    assert variant_of(run_path(Path("study"), "rte", "tiny", "lambda-0.3", 1)) is None
    assert variant_of(Path("none")) is None


def test_the_drawn_steps_are_counted_as_they_are_drawn() -> None:
    for steps in (0, 1, 999, 1000, 1001, 1009, 1010, 12345):
        assert drawn(steps) == sum(map(is_drawn, range(1, steps + 1)))
    assert drawn(1000) == 1000 and drawn(36816) == 4581
