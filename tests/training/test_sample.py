"""Training on a sample of the train rows, as runs do that try a λ."""

from pathlib import Path

import numpy as np
import pytest

from acl_bert.config.method import known_methods
from acl_bert.config.study import Encoder, RunSettings
from acl_bert.config.training import Training
from acl_bert.data.split import sample
from acl_bert.data.tokens import Split, TokenStore
from acl_bert.runs.files import RunFolder
from acl_bert.runs.store import Store
from acl_bert.training.jobs import Job
from acl_bert.training.obtain import Trainer

TRAINING = Training(epochs=2, batch_size=16, device="cpu", precision="fp32")


def job(method: str, rows: int | None, encoder: Path, tokens: Path) -> Job:
    row = known_methods()[method]
    settings = RunSettings(
        task="tiny",
        encoder="tiny",
        method_id=method,
        seed=1,
        selection_metric="accuracy",
        method=row,
        training=TRAINING,
        train_rows=rows,
    )
    return Job(
        settings,
        Encoder(path=str(encoder)),
        TokenStore(tokens),
        teacher=job(row.teacher, rows, encoder, tokens) if row.teacher else None,
        saves_model=method == "acl",
    )


def trained(folder: Path, method: str, rows: int | None, encoder: Path, tokens: Path) -> RunFolder:
    store = Store(folder / "store")
    trainer = Trainer(store, report=lambda line: None)
    return store.run(trainer.obtain(job(method, rows, encoder, tokens)))


def test_epochs_are_those_of_the_sample(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path
) -> None:
    """Of 96 rows 40 in batches of 16, with the tokens of these rows; a student's likewise."""
    split = TokenStore(tiny_task).split("train")
    chosen = sample(split.targets, 40, "tiny")
    assert len(chosen) == 40
    for method in ("acl", "acl_cl"):
        run = trained(tmp_path, method, 40, tiny_encoder, tiny_task)
        history = run.history()
        assert len(history) == 2 * 3
        assert sum(row["tokens"] or 0 for row in history[:3]) == split.lengths[chosen].sum()


def test_rows_outside_the_sample_change_nothing(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what a student reads of its teacher, which is of all rows."""
    split = TokenStore(tiny_task).split("train")
    chosen = sample(split.targets, 40, "tiny")
    before = trained(tmp_path / "a", "acl_cl", 40, tiny_encoder, tiny_task)

    original = Split.batch

    def batch(self: Split, rows: np.ndarray) -> dict[str, np.ndarray]:
        made = original(self, rows)
        if len(self) == len(split):
            made["input_ids"][~np.isin(rows, chosen)] = 5
        return made

    monkeypatch.setattr(Split, "batch", batch)
    after = trained(tmp_path / "b", "acl_cl", 40, tiny_encoder, tiny_task)
    assert [row["loss"] for row in before.history()] == [row["loss"] for row in after.history()]


@pytest.mark.parametrize("rows", [96, 1000])
def test_a_sample_of_all_rows_is_no_sample(
    tmp_path: Path, tiny_encoder: Path, tiny_task: Path, rows: int
) -> None:
    whole, sampled = (
        trained(tmp_path / str(some), "ce", some, tiny_encoder, tiny_task).predictions_path
        for some in (None, rows)
    )
    assert whole.read_bytes() == sampled.read_bytes()
