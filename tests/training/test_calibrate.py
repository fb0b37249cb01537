"""Steps are timed with a run's own code."""

from pathlib import Path

import pytest

from acl_bert.config.study import Encoder
from acl_bert.config.training import Training
from acl_bert.training import calibrate as timing
from acl_bert.training.calibrate import calibrate


def test_short_and_long_steps(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    training = Training(device="cpu", precision="fp32", batch_size=4, max_length=64)
    found = calibrate(Encoder(path=str(tiny_encoder)), training)
    assert [length for length, _ in found["steps"]] == [16, 32]
    assert all(seconds > 0 for _, seconds in found["steps"])
    assert (found["batch_size"], found["precision"], found["threads"]) == (4, "fp32", 1)
    assert found["device"]
