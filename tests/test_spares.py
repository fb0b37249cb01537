"""A second set of names for finished runs."""

import os
import shutil
from pathlib import Path

import pytest
from run_folders import finish_run

from acl_bert.runs.files import METRICS
from acl_bert.spares import forget_spares, keep_spare, put_all_back


def test_what_was_taken_away_is_put_back(tmp_path: Path) -> None:
    lost, there = (finish_run(tmp_path, seed=seed) for seed in (1, 2))
    for run in (lost, there):
        keep_spare(tmp_path, run)
    names = sorted(path.name for path in lost.iterdir())
    shutil.rmtree(lost)
    (there / METRICS).write_text("of another training")
    assert put_all_back(tmp_path) == 1
    assert sorted(path.name for path in lost.iterdir()) == names
    assert (there / METRICS).read_text() == "of another training"
    forget_spares(tmp_path)
    assert put_all_back(tmp_path) == 0 and (lost / METRICS).is_file()


def test_without_hard_links_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    run = finish_run(tmp_path)
    keep_spare(tmp_path, run)
    monkeypatch.setattr(os, "link", no_link)
    keep_spare(tmp_path, run)  # the older one goes, too
    shutil.rmtree(run)
    assert put_all_back(tmp_path) == 0 and not run.exists()
