"""How far a study is, from its runs' timings."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.study.planned import Run
from acl_bert.study.progress import Progress, progress

START = datetime(2026, 1, 1, tzinfo=UTC)


def ran(
    study: Path,
    after: float,
    seconds: float,
    method: str = "acl",
    encoder: str = "tiny",
    seed: int = 1,
    weight: float | None = None,
) -> Run:
    started = (START + timedelta(seconds=after)).isoformat()
    finish_run(
        study, encoder=encoder, method=method, seed=seed, started=started, seconds=seconds,
        weight=weight,
    )  # fmt: skip
    return Run("rte", encoder, method, seed, weight)


def to_come(method: str = "acl", encoder: str = "tiny", seed: int = 9) -> Run:
    return Run("rte", encoder, method, seed)


def test_runs_one_after_the_other_go_on_at_their_rate(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 110, 90, seed=2)]
    waiting = [to_come(seed=seed) for seed in (3, 4)]
    # 190 s of runs took 200 s, of which 10 between them.
    expected = 2 * 95 * 200 / 190
    assert progress([*done, *waiting], tmp_path) == Progress(2, 4, pytest.approx(expected))


def test_runs_side_by_side_share_the_time(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 0, 100, seed=2)]
    assert progress([*done, to_come()], tmp_path).seconds == pytest.approx(50)


def test_a_rest_of_the_study_is_not_part_of_its_rate(tmp_path: Path) -> None:
    done = [ran(tmp_path, 0, 100, seed=1), ran(tmp_path, 9e4, 100, seed=2)]
    assert progress([*done, to_come()], tmp_path).seconds == pytest.approx(100)


def test_a_run_is_expected_to_take_what_the_nearest_ones_took(tmp_path: Path) -> None:
    done = [
        ran(tmp_path, 0, 100, method="ce"),
        ran(tmp_path, 100, 200, method="jt"),
        ran(tmp_path, 300, 900, method="ce", encoder="base"),
    ]
    for waiting, seconds in (
        (to_come("jt"), 200),  # its own method's
        (to_come("acl_cl"), 150),  # its task and encoder's
        (to_come("jt", "other"), 400),  # all
        (Run("mrpc", "tiny", "jt", 9), 150),  # its encoder's
    ):
        assert progress([*done, waiting], tmp_path).seconds == pytest.approx(seconds)


def test_tuning_runs_count(tmp_path: Path) -> None:
    tried, to_try = (Run("rte", "tiny", "acl", 101, weight) for weight in (0.3, 0.5))
    assert ran(tmp_path, 0, 60, seed=101, weight=0.3) == tried
    runs = [tried, to_try, ran(tmp_path, 60, 20, method="ce"), to_come("jt")]
    # One as the other λ's, one as the mean of the task and encoder.
    assert progress(runs, tmp_path) == Progress(2, 4, pytest.approx(60 + 40))


def test_a_run_that_the_store_has_not_is_to_come(tmp_path: Path) -> None:
    run = ran(tmp_path, 0, 60)
    assert progress([run], tmp_path).done == 1
    run.path(tmp_path).unlink()
    assert progress([run], tmp_path) == Progress(0, 1, None)
