"""runs.csv, exits.csv and timings.csv."""

from pathlib import Path

import pandas as pd
import pytest
from run_folders import finish_run

from acl_bert.errors import InputError
from acl_bert.files import read_json, write_json
from acl_bert.runs.files import METRICS, TIMINGS, RunFolder
from acl_bert.study.collect import collect


def test_one_row_a_run_and_metric_in_fractions(tmp_path: Path) -> None:
    mrpc = finish_run(tmp_path, task="mrpc", values={"f1": 0.8125, "accuracy": 0.75})
    cola = finish_run(tmp_path, task="cola", values={"matthews": 0.0}, degenerate=True)
    collect(map(RunFolder, [mrpc, cola]), tmp_path)
    assert (tmp_path / "runs.csv").read_text().splitlines() == [
        "task,encoder,method,seed,metric,value,selection_value,epoch,degenerate,run_hash",
        f"cola,tiny,acl,1,matthews,0.0,0.75,2,true,{cola.name}",
        f"mrpc,tiny,acl,1,accuracy,0.75,0.75,2,false,{mrpc.name}",
        f"mrpc,tiny,acl,1,f1,0.8125,0.75,2,false,{mrpc.name}",
    ]


def test_one_row_a_run_exit_and_metric(tmp_path: Path) -> None:
    joint = finish_run(
        tmp_path,
        method="jt",
        exits={
            layer: {"f1": 0.25, "accuracy": layer / 16} for layer in (10, 2, 1)
        },  # 10 comes after 2
        degenerate_exits=[1, 10],
    )
    static = finish_run(tmp_path, method="static", exits={6: {"accuracy": 0.5}})
    collect(map(RunFolder, [static, joint]), tmp_path)
    assert (tmp_path / "exits.csv").read_text().splitlines() == [
        "task,encoder,method,seed,exit,depth,metric,value,degenerate,run_hash",
        f"rte,tiny,jt,1,1,10,accuracy,0.0625,true,{joint.name}",
        f"rte,tiny,jt,1,1,10,f1,0.25,true,{joint.name}",
        f"rte,tiny,jt,1,2,10,accuracy,0.125,false,{joint.name}",
        f"rte,tiny,jt,1,2,10,f1,0.25,false,{joint.name}",
        f"rte,tiny,jt,1,10,10,accuracy,0.625,true,{joint.name}",
        f"rte,tiny,jt,1,10,10,f1,0.25,true,{joint.name}",
        f"rte,tiny,static,1,6,6,accuracy,0.5,false,{static.name}",
    ]
    assert "rte,tiny,jt,1,accuracy,0.625," in (tmp_path / "runs.csv").read_text()


def test_metrics_that_do_not_say_which_exits_are_degenerate_are_refused(tmp_path: Path) -> None:
    folder = finish_run(tmp_path)
    metrics = read_json(folder / METRICS)
    del metrics["degenerate_exits"]
    write_json(folder / METRICS, metrics)
    with pytest.raises(InputError, match=r"metrics\.json: lacks degenerate_exits"):
        collect(map(RunFolder, [folder]), tmp_path)


def test_equal_studies_have_equal_runs_and_timings_of_their_own(tmp_path: Path) -> None:
    texts = []
    for name, order in (("one", 1), ("two", -1)):
        study = tmp_path / name / "s"
        folders = [finish_run(study, seed=seed) for seed in (1, 2, 10)][::order]
        for folder in folders:
            timings = read_json(folder / TIMINGS)
            write_json(folder / TIMINGS, timings | {"commit": name, "tokens_per_second": order})
        collect(map(RunFolder, folders), tmp_path / name)
        texts.append([(tmp_path / name / file).read_bytes() for file in ("runs.csv", "exits.csv")])
    assert texts[0] == texts[1]
    timings = pd.read_csv(tmp_path / "two" / "timings.csv")
    assert timings["seed"].tolist() == [1, 2, 10]
    assert timings["commit"].unique().tolist() == ["two"]
    assert timings["total_seconds"].tolist() == [7.0] * 3


def test_a_missing_run_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    folders = [finish_run(tmp_path), tmp_path / "seed-7"]
    with pytest.raises(InputError, match=r"seed-7.*not finished"):
        collect(map(RunFolder, folders), tmp_path)
    assert not (tmp_path / "runs.csv").exists()


def test_no_run_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished run"):
        collect(map(RunFolder, []), tmp_path)
