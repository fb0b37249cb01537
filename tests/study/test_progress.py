"""How far a study is, from its runs' timings."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.run_files import METRICS, TIMINGS, run_path, tuning_path, tuning_run_path
from acl_bert.study.progress import Progress, progress

START = datetime(2026, 1, 1, tzinfo=UTC)


def ran(
    study: Path,
    after: float,
    seconds: float,
    method: str = "acl",
    encoder: str = "tiny",
    seed: int = 1,
) -> Path:
    started = (START + timedelta(seconds=after)).isoformat()
    return finish_run(
        study, encoder=encoder, method=method, seed=seed, started=started, seconds=seconds
    )


def to_come(study: Path, method: str = "acl", encoder: str = "tiny", seed: int = 9) -> Path:
    return run_path(study, "rte", encoder, method, seed)


def test_runs_one_after_the_other_go_on_at_their_rate(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 110, 90, seed=2)]
    waiting = [to_come(tmp_path, seed=seed) for seed in (3, 4)]
    # 190 s of runs took 200 s, of which 10 between them.
    expected = 2 * 95 * 200 / 190
    assert progress([*done, *waiting]) == Progress(2, 4, pytest.approx(expected))


def test_runs_side_by_side_share_the_time(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 0, 100, seed=2)]
    assert progress([*done, to_come(tmp_path)]).seconds == pytest.approx(50)


def test_a_rest_of_the_study_is_not_part_of_its_rate(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 9e4, 100, seed=2)]
    assert progress([*done, to_come(tmp_path)]).seconds == pytest.approx(100)


def test_a_run_is_expected_to_take_what_the_nearest_ones_took(tmp_path: Path) -> None:
    done = [
        ran(tmp_path, 0, 100, method="ce"),
        ran(tmp_path, 100, 200, method="jt"),
        ran(tmp_path, 300, 900, method="ce", encoder="base"),
    ]
    for waiting, seconds in (
        (to_come(tmp_path, "jt"), 200),  # its own method's
        (to_come(tmp_path, "acl_cl"), 150),  # its task and encoder's
        (to_come(tmp_path, "jt", "other"), 400),  # all
    ):
        assert progress([*done, waiting]).seconds == pytest.approx(seconds)


def test_tuning_runs_count(tmp_path: Path) -> None:
    tuning = tuning_path(tmp_path, "rte", "tiny", "acl")
    done = tuning_run_path(tuning, 0.3, 101)
    shutil.copytree(ran(tmp_path, 0, 60, method="acl"), done)
    ce = ran(tmp_path, 60, 20, method="ce")
    waiting = [tuning_run_path(tuning, 0.5, 101), to_come(tmp_path, "acl")]
    assert progress([done, ce, *waiting]) == Progress(2, 4, pytest.approx(120))


def test_only_timings_are_read(tmp_path: Path) -> None:
    done = ran(tmp_path, 0, 60)
    (done / METRICS).write_text("torn")
    assert progress([done]).done == 1
    (done / TIMINGS).unlink()
    assert progress([done]) == Progress(0, 1, None)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (Progress(0, 48, None), "0 of 48 runs done, 48 to go"),
        (
            Progress(12, 48, 7800.0),
            "12 of 48 runs done, 36 to go, about 2 h 10 min at the rate of the finished ones",
        ),
        (
            Progress(3, 4, 600.0),
            "3 of 4 runs done, 1 to go, about 10 min at the rate of the finished ones",
        ),
        (
            Progress(3, 4, 20.0),
            "3 of 4 runs done, 1 to go, less than a minute at the rate of the finished ones",
        ),
        (Progress(48, 48, None), "48 of 48 runs done"),
    ],
)
def test_one_line_says_it(state: Progress, line: str) -> None:
    assert str(state) == line
