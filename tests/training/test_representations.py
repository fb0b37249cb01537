"""The representations that a run keeps are those of its model, at the exits that are compared."""

from pathlib import Path

import numpy as np
import pytest
import torch

from acl_bert.config.training import Training
from acl_bert.data.tokens import TokenStore
from acl_bert.errors import InputError
from acl_bert.model.build import build_classifier
from acl_bert.runs.files import REPRESENTATIONS, RunFolder
from acl_bert.training import representations
from acl_bert.training.batches import load_batch
from acl_bert.training.representations import write_representations


@pytest.mark.parametrize("every_layer", [False, True])
def test_h_and_label_embeddings_are_the_models(
    tiny_encoder: Path,
    tiny_task: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    every_layer: bool,
) -> None:
    monkeypatch.setattr(representations, "ROWS", 7)
    torch.manual_seed(0)
    model = build_classifier(str(tiny_encoder), None, ["no", "yes"], "pooler", every_layer).train()
    dev = TokenStore(tiny_task).split("dev")
    write_representations(model, dev, Training(batch_size=2), tmp_path / REPRESENTATIONS)

    kept = RunFolder(tmp_path).representations()
    rows = np.linspace(0, len(dev) - 1, 7).round().astype(int)
    inputs, labels = load_batch(dev, rows, torch.device("cpu"))
    assert kept.labels.tolist() == labels.tolist()
    assert set(kept.h) == set(kept.label_embeddings) == ({1, 3} if every_layer else {3})
    with torch.no_grad():
        made = dict(zip(model.exits, model.eval().represent(**inputs), strict=True))
    for layer, h in kept.h.items():
        np.testing.assert_allclose(h, made[layer].numpy(), atol=1e-6)
        head = model.heads[model.exits.index(layer)]
        np.testing.assert_array_equal(
            kept.label_embeddings[layer], head.label_embeddings.detach().numpy()
        )


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / REPRESENTATIONS).write_bytes(b"\x10\0\0")
    with pytest.raises(InputError, match=r"representations\.safetensors: cannot be read"):
        RunFolder(tmp_path).representations()
