"""Reading a run's files: torn lines, offsets, what counts as finished."""

from pathlib import Path

import pytest
from run_folders import append, finish_run, history_line, start_run

from acl_bert.errors import InputError
from acl_bert.runs.files import (
    METRICS,
    RunFolder,
    called_by,
    drawn,
    find_names,
    is_drawn,
    name_path,
    tuning_name_path,
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


def test_names_are_found_in_order_and_say_what_their_study_calls_the_run(tmp_path: Path) -> None:
    for seed in (10, 2):
        finish_run(tmp_path, seed=seed)
    finish_run(tmp_path, task="cola")
    finish_run(tmp_path, seed=101, weight=0.3)
    start_run(tmp_path, run_hash="b", seed=3)
    found = [called_by(name) for name in find_names(tmp_path)]
    assert found == [
        ("cola", "tiny", "acl", 1),
        ("rte", "tiny", "acl", 2),
        ("rte", "tiny", "acl", 10),
    ]
    (tried,) = find_names(tmp_path, tuning=True)
    assert called_by(tried) == ("rte", "tiny", "acl", 101) and variant_of(tried) == "lambda-0.3"


def test_a_study_has_its_own_names_for_a_run(tmp_path: Path) -> None:
    run = RunFolder(finish_run(tmp_path), ("mine", "small", "own", 7))
    assert [run.metrics()[key] for key in ("task", "encoder", "method", "seed")] == [
        "mine", "small", "own", 7
    ]  # fmt: skip
    assert run.config()["method_id"] == "own" and run.config()["method"]["title"] == "acl"


def test_metrics_without_a_part_are_refused(tmp_path: Path) -> None:
    path = finish_run(tmp_path) / METRICS
    path.write_text(path.read_text().replace('"degenerate"', '"something"'))
    with pytest.raises(InputError, match=r"metrics\.json: lacks degenerate"):
        RunFolder(path.parent).metrics()


def test_the_hash_of_a_run_in_progress_is_its_folders_name(tmp_path: Path) -> None:
    assert RunFolder(start_run(tmp_path, run_hash="abc")).run_hash == "abc"
    assert RunFolder(finish_run(tmp_path, run_hash="abc")).run_hash == "abc"


def test_the_variant_of_a_tuning_run_is_in_its_path() -> None:
    tuned = tuning_name_path(tuning_path(Path("study"), "rte", "tiny", "acl"), 0.3, 101)
    assert variant_of(tuned) == "lambda-0.3"
    assert variant_of(name_path(Path("study"), "rte", "tiny", "lambda-0.3", 1)) is None
    assert variant_of(Path("none")) is None


def test_the_drawn_steps_are_counted_as_they_are_drawn() -> None:
    for steps in (0, 1, 999, 1000, 1001, 1009, 1010, 12345):
        assert drawn(steps) == sum(map(is_drawn, range(1, steps + 1)))
    assert drawn(1000) == 1000 and drawn(36816) == 4581
