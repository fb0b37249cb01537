"""How long runs should take, and from what that is known."""

import math
from pathlib import Path

import pytest
from pretend_gpus import TWO, nvidia_smi

from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.files import write_json
from acl_bert.planning.hours import Costs, Slots
from acl_bert.planning.sizes import Sizes, costs
from acl_bert.runs.calibration import CALIBRATION
from acl_bert.study.planned import Run


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(
        {
            "name": "small",
            "source": {"kind": "glue"},
            "tasks": {"rte": {}, "mrpc": {}},
            "encoders": {"tiny": {"path": "google-bert/bert-base-uncased"}},
            "methods": {
                name: {}
                for name in ("ce", "acl_embed", "acl", "static", "jt", "jt_2x", "jt_acl", "acl_cl")
            },
            "seeds": [1, 2],
            "tuning": {"enabled": True, "lambdas": [0.5], "seeds": [101]},
        }
    )


NOWHERE = Path("nowhere")


def write_calibration(folder: Path, steps: list[tuple[int, float]], gpu: bool = True) -> None:
    entry = {"device": "chip", "gpu": gpu, "precision": "fp32", "threads": 1, "batch_size": 32}
    write_json(folder / CALIBRATION, {"tiny": entry | {"steps": steps}})


def seconds(study: Study, method: str, weight: float | None = None, seed: int = 1) -> float:
    """On a GPU whose arithmetic takes all of the time."""
    costs = Costs(Sizes(study, NOWHERE), on_gpu=True, hardware="T4")
    return costs.seconds(Run("rte", "tiny", method, seed, weight)) - 3


@pytest.fixture
def arithmetic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(costs()["gpu"], "update", 0.0)


def test_methods_cost_what_was_measured_against_ce(study: Study, arithmetic_alone: None) -> None:
    encoder = Sizes(study, NOWHERE).encoder("tiny")
    flops, per_row = 0.3 * 8.1e12, 66.6 * encoder.flop_per_token(66.6)
    # An evaluation of 249 rows after each epoch, and of 277 at the end, costs all the same.
    evaluating, training = (
        rows * per_row / flops for rows in (0.33 * (3 * 249 + 277), 3 * 2241 * 1.03)
    )
    assert seconds(study, "ce") == pytest.approx(training + evaluating)

    def ratio(method: str) -> float:
        return (seconds(study, method) - evaluating) / training

    items = 0.33 * 2241 * per_row / flops
    assert ratio("acl_embed") == pytest.approx(1.05)
    assert ratio("acl") == pytest.approx(1.6 + items / training), "what its student reads too"
    assert ratio("jt") == pytest.approx(1.1)
    assert ratio("jt_acl") == ratio("acl_cl") == pytest.approx(1.1 * 1.05)
    assert seconds(study, "static") == pytest.approx(seconds(study, "ce") / 2)
    assert seconds(study, "jt_2x") > 1.9 * seconds(study, "jt")
    tried = seconds(study, "acl_embed", weight=0.5)  # never sees dev
    assert seconds(study, "acl_embed") - tried == pytest.approx(0.33 * 277 * per_row / flops)


def test_short_steps_cost_what_each_costs(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(costs()["gpu"]["peaks"], "T4", 1e33)
    steps = 3 * 71 + 0.33 * 16  # 3 × 249 and 277 rows in batches of 64
    assert seconds(study, "ce") == pytest.approx(steps * 12 * 0.0025)


def test_a_calibration_of_such_a_device_comes_before_what_is_known_of_hardware(
    study: Study, tmp_path: Path
) -> None:
    sizes, run = Sizes(study, tmp_path), Run("rte", "tiny", "ce", 1)
    assumed = Costs(sizes, on_gpu=True, hardware="A100").seconds(run)
    assert not Costs(sizes, on_gpu=False).measured
    write_calibration(tmp_path, [(16, 50.0), (64, 140.0)])
    known = Costs(sizes, on_gpu=True)
    assert known.measured and known.source == "calibrated on chip, fp32"
    # A real token more costs as much as one of those that were timed, and 66.6 are 213 a row less.
    assert known.seconds(run) == pytest.approx(140 * 3 * 71 * 66.6 / 64, rel=0.2)
    assert Costs(sizes, on_gpu=True, hardware="A100").seconds(run) == assumed
    assert not Costs(sizes, on_gpu=False).measured, "a GPU says nothing of a CPU"
    for content, message in (
        ('{"other": {}}', "lacks tiny; calibrate again"),
        ('{"tiny": 3}', "tiny is not whole; calibrate again"),
        ('{"tiny": {"device": "chip"}', "not JSON .*; calibrate again"),
    ):
        (tmp_path / CALIBRATION).write_text(content)
        with pytest.raises(InputError, match=message):
            Costs(sizes, on_gpu=False)


def test_hardware_has_to_be_known(study: Study) -> None:
    sizes, run = Sizes(study, NOWHERE), Run("rte", "tiny", "ce", 1)
    quick, slow = (Costs(sizes, True, name).seconds(run) for name in ("H100", "T4"))
    assert quick < slow / 3
    with pytest.raises(InputError, match="'A10O' is not known; did you mean 'A100'"):
        Costs(sizes, True, "A10O")


def test_a_time_limit_is_generous_and_of_the_device_that_trains(
    study: Study, tmp_path: Path
) -> None:
    sizes = Sizes(study, tmp_path)
    run = Run("rte", "tiny", "ce", 1)
    gpu, cpu = Costs(sizes, on_gpu=True, hardware="A100"), Costs(sizes, on_gpu=False)
    for known in (gpu, cpu):
        assert known.limit_minutes(run) == 5 + math.ceil(6 * known.seconds(run) / 60)
    assert cpu.limit_minutes(run) > 20 * gpu.limit_minutes(run)
    write_calibration(tmp_path, [(16, 1.0), (64, 3.0)])
    measured = Costs(sizes, on_gpu=True)
    assert measured.limit_minutes(run) == 5 + math.ceil(3 * measured.seconds(run) / 60)


def test_nobody_knows_how_long_unknown_rows_take(tmp_path: Path) -> None:
    own = {"title": "Own", "text": ["text"], "labels": ["a", "b"], "metrics": ["accuracy"]}
    own |= {"selection_metric": "accuracy", "files": {"train": "a.csv", "dev": "b.csv"}}
    study = load_study(
        {
            "name": "small",
            "source": {"kind": "files", "folder": str(tmp_path)},
            "tasks": {"own": own},
            "encoders": {"tiny": {"path": "google-bert/bert-base-uncased"}},
            "methods": {"ce": {}},
            "seeds": [1],
        }
    )
    costs_of = Costs(Sizes(study, tmp_path / "small"), on_gpu=True)
    assert costs_of.limit_minutes(Run("own", "tiny", "ce", 1)) == 240


@pytest.mark.parametrize(
    ("slots", "threads", "on_gpu", "at_a_time"),
    [
        (Slots(None, cores=8, gpus=2), 2, False, 4),
        (Slots(None, cores=8, gpus=2), 2, True, 2),
        (Slots(None, cores=8, gpus=None), 2, True, 4),
        (Slots(None, cores=1, gpus=1), 4, False, 1),
        (Slots(64, cores=2, gpus=1), 4, True, 64),
    ],
)
def test_cores_and_gpus_bound_what_runs_at_a_time(
    slots: Slots, threads: int, on_gpu: bool, at_a_time: int
) -> None:
    assert slots.at_a_time(on_gpu, threads) == at_a_time
    assert not slots.on_gpu("cpu")


def test_the_gpus_here_are_asked_for(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path / "bin", TWO)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    here = Slots(None, 1, 1)
    assert here.on_gpu("auto") and not here.on_gpu("cpu")
    found = Costs(Sizes(study, tmp_path), on_gpu=True)
    assert found.source.startswith("an estimate for H100")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert not here.on_gpu("auto") and Slots(8, 1, None).on_gpu("auto")
