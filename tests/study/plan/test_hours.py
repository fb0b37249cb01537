"""How long runs should take, and from what that is known."""

from pathlib import Path

import pytest
import yaml
from pretend_gpus import TWO, nvidia_smi
from run_folders import finish_run

from acl_bert.errors import InputError
from acl_bert.files import write_json
from acl_bert.runs.files import CALIBRATION
from acl_bert.settings.study import Study, load_study
from acl_bert.study.plan.hours import Correction, Rates, Slots, Speed, rates
from acl_bert.study.plan.sizes import Sizes
from acl_bert.study.planned import Run, planned_runs


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


def seconds(study: Study, method: str, known: Rates, weight: float | None = None) -> float:
    run = Run("rte", "tiny", method, 1, weight)
    return known.training(run, Sizes(study, Path("nowhere")).cell(*run.cell))


def test_methods_cost_what_was_measured_against_ce(study: Study) -> None:
    known = Rates({"tiny": Speed(0.0, 1e12)}, "", measured=True)
    ce = seconds(study, "ce", known)
    # An evaluation of 249 rows after each epoch, and of 277 at the end, costs all the same.
    sizes = Sizes(study, Path("nowhere"))
    evaluating = known.forward("tiny", sizes.cell("rte", "tiny", "ce"), 3 * 249 + 277)
    training = ce - evaluating
    assert training == pytest.approx(
        3 * 2241 * 66.6 * 1.03 * sizes.cell("rte", "tiny", "ce").flop_per_token / 1e12
    )

    def ratio(method: str) -> float:
        return (seconds(study, method, known) - evaluating) / training

    assert ratio("acl_embed") == pytest.approx(1.05)
    assert ratio("acl") == pytest.approx(1.6)
    assert ratio("jt") == pytest.approx(1.1)
    assert ratio("jt_acl") == ratio("acl_cl") == pytest.approx(1.1 * 1.05)
    assert seconds(study, "static", known) == pytest.approx(ce / 2)
    assert seconds(study, "jt_2x", known) > 1.9 * seconds(study, "jt", known)
    tried = seconds(study, "acl", known, weight=0.5)  # never sees dev
    assert seconds(study, "acl", known) - tried == pytest.approx(
        known.forward("tiny", sizes.cell("rte", "tiny", "acl"), 277)
    )


def test_short_steps_cost_what_each_costs(study: Study) -> None:
    known = Rates({"tiny": Speed(0.001, 1e30)}, "", measured=True)
    steps = 3 * 71 + 0.33 * 16  # 3 × 249 and 277 rows in batches of 64
    assert seconds(study, "ce", known) == pytest.approx(steps * 12 * 0.001)


def test_a_calibration_comes_before_what_is_known_of_hardware(study: Study, tmp_path: Path) -> None:
    sizes = Sizes(study, tmp_path)
    assert not rates(sizes, tmp_path, None, on_gpu=False, threads=1).measured
    steps = [(16, 0.5), (64, 1.4)]
    entry = {"device": "chip", "precision": "fp32", "threads": 1, "batch_size": 32, "steps": steps}
    write_json(tmp_path / CALIBRATION, {"tiny": entry})
    known = rates(sizes, tmp_path, None, on_gpu=False, threads=1)
    assert known.measured and "chip" in known.source
    size, speed = sizes.encoders["tiny"], known.speeds["tiny"]
    for length, taken in steps:
        flop = 32 * length * size.flop_per_token(length)
        assert 12 * speed.update + flop / speed.flops == pytest.approx(taken)
    assert not rates(sizes, tmp_path, "A100", on_gpu=True, threads=1).measured
    for content, said in (
        ('{"other": {}}', "lacks tiny; calibrate again"),
        ('{"tiny": 3}', "tiny is not whole; calibrate again"),
        ('{"tiny": {"device": "chip"}', "not JSON .*; calibrate again"),
    ):
        (tmp_path / CALIBRATION).write_text(content)
        with pytest.raises(InputError, match=said):
            rates(sizes, tmp_path, None, on_gpu=False, threads=1)


def test_hardware_has_to_be_known(study: Study, tmp_path: Path) -> None:
    sizes = Sizes(study, tmp_path)
    quick, slow = (rates(sizes, tmp_path, name, True, 1).speeds["tiny"] for name in ("H100", "T4"))
    assert quick.flops > 50 * slow.flops
    with pytest.raises(InputError, match="'A10O' is not known; did you mean 'A100'"):
        rates(sizes, tmp_path, "A10O", on_gpu=True, threads=1)


def test_finished_runs_correct_what_was_reckoned(study: Study, tmp_path: Path) -> None:
    sizes = Sizes(study, tmp_path)
    known = Rates({"tiny": Speed(0.0, 1e12)}, "", measured=False)
    runs = list(planned_runs(study))
    assert Correction(runs, sizes, tmp_path, known)(runs[0]) == 1
    for task, method, factor in (("rte", "ce", 2.0), ("rte", "acl", 4.0), ("mrpc", "ce", 8.0)):
        run = Run(task, "tiny", method, 1)
        taken = factor * known.training(run, sizes.cell(*run.cell))
        finish_run(tmp_path, task=task, method=method, seconds=taken)
    correction = Correction(runs, sizes, tmp_path, known)
    assert correction.runs == 3
    assert correction(Run("rte", "tiny", "ce", 2)) == pytest.approx(2)
    assert correction(Run("rte", "tiny", "acl", 101, 0.5)) == pytest.approx(4)
    assert correction(Run("rte", "tiny", "jt", 1)) == pytest.approx(3), "of its task"
    assert correction(Run("mrpc", "tiny", "jt", 1)) == pytest.approx(8)
    assert correction(Run("cola", "tiny", "jt", 1)) == pytest.approx(4), "of its encoder"


@pytest.mark.parametrize(
    ("profile", "cores", "threads", "on_gpu", "at_a_time"),
    [
        ({"cores": 8, "resources": ["gpu=2"]}, None, 2, False, 4),
        ({"cores": 8, "resources": ["gpu=2"]}, None, 2, True, 2),
        ({"cores": 8, "resources": {"gpu": 6}}, None, 2, True, 4),
        ({"cores": "all"}, "3", 2, False, 1),
        ({"cores": 1}, None, 4, False, 1),
        ({"executor": "slurm", "jobs": 64}, "2", 4, True, 64),
    ],
)
def test_what_a_profile_lets_run_at_a_time(
    tmp_path: Path,
    profile: dict[str, object],
    cores: str | None,
    threads: int,
    on_gpu: bool,
    at_a_time: int,
) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(profile))
    slots = Slots.of_profile(tmp_path, cores)
    assert slots.at_a_time(on_gpu, threads) == at_a_time
    assert slots.on_gpu("cpu") is False
    if slots.jobs is not None:
        assert Slots.of_profile(tmp_path, jobs=7).at_a_time(on_gpu, threads) == 7
    else:
        more = Slots.of_profile(tmp_path, cores="16", gpus=3)
        assert more.at_a_time(on_gpu=True, threads=2) == 3


def test_the_gpus_here_are_asked_for(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path / "bin", TWO)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    here = Slots(None, 1, 1)
    assert here.on_gpu("auto") and not here.on_gpu("cpu")
    found = rates(Sizes(study, tmp_path), tmp_path, None, on_gpu=True, threads=1)
    assert found.source.startswith("H100, ")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert not here.on_gpu("auto") and Slots(8, 1, None).on_gpu("auto")
