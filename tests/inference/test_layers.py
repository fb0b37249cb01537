from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    PreTrainedModel,
    RobertaConfig,
)

from acl_bert.errors import InputError
from acl_bert.inference.layers import LAYERS, LayerByLayer, layers_of

LENGTHS = (7, 20, 3, 12, 5)
# Wide weights: what a layer does wrong is to show beside the residual stream.
SMALL: dict[str, Any] = {"vocab_size": 50, "max_position_embeddings": 40, "initializer_range": 0.3}
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
CONFIGS = {
    "bert": lambda: BertConfig(**SMALL, **SHAPE),
    "roberta": lambda: RobertaConfig(**SMALL, **SHAPE),
    "distilbert": lambda: DistilBertConfig(**SMALL, dim=32, n_layers=4, n_heads=4, hidden_dim=64),
    "mpnet": lambda: MPNetConfig(**SMALL, **SHAPE),
}
CASES = [(kind, "eager") for kind in CONFIGS] + [
    (kind, "sdpa") for kind in CONFIGS if kind != "mpnet"
]


def build(kind: str, attention: str) -> PreTrainedModel:
    torch.manual_seed(0)
    encoder: PreTrainedModel = AutoModel.from_config(CONFIGS[kind](), attn_implementation=attention)
    assert encoder.config._attn_implementation == attention
    return encoder.eval()


def batch(encoder: PreTrainedModel, padding: int = 4, segments: bool = True) -> dict[str, Tensor]:
    torch.manual_seed(1)
    real = torch.arange(max(LENGTHS) + padding) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(5, 50, real.shape).where(real, torch.tensor(encoder.config.pad_token_id))
    inputs = {"input_ids": ids, "attention_mask": real.long()}
    if segments and encoder.config.model_type == "bert":
        inputs["token_type_ids"] = (torch.arange(real.shape[1]) > 2).long() * real
    return inputs


def test_every_type_is_tested() -> None:
    assert list(CONFIGS) == list(LAYERS)


@pytest.mark.parametrize(("kind", "attention"), CASES)
@torch.inference_mode()
def test_layer_by_layer_is_the_full_forward_pass(kind: str, attention: str) -> None:
    encoder = build(kind, attention)
    for padding in (4, 0):
        inputs = batch(encoder, padding)
        expected = encoder(**inputs, output_hidden_states=True).hidden_states
        steps = LayerByLayer(encoder, **inputs)
        torch.testing.assert_close(steps.hidden, expected[0], atol=1e-5, rtol=0)
        for layer in range(1, 5):
            found = steps.advance(layer)
            for row, length in enumerate(LENGTHS):
                torch.testing.assert_close(
                    found[row, :length], expected[layer][row, :length], atol=1e-5, rtol=0
                )


@pytest.mark.parametrize(("kind", "attention"), CASES)
@torch.inference_mode()
def test_samples_that_leave_change_nothing_for_the_others(kind: str, attention: str) -> None:
    """The longest leaves first, then all but two of unlike length, then all but one."""
    encoder = build(kind, attention)
    inputs = batch(encoder)
    expected = encoder(**inputs, output_hidden_states=True).hidden_states
    steps = LayerByLayer(encoder, **inputs)
    rows = torch.arange(len(LENGTHS))
    widths = []
    for layer, staying in ((1, [0, 2, 3, 4]), (2, [0, 1, 2]), (3, [1]), (4, [0])):
        found = steps.advance(layer)
        widths.append(found.shape[1])
        for place, row in enumerate(rows.tolist()):
            torch.testing.assert_close(
                found[place, : LENGTHS[row]],
                expected[layer][row, : LENGTHS[row]],
                atol=1e-5,
                rtol=0,
            )
        kept = torch.tensor(staying)
        steps.keep(kept)
        rows = rows[kept]
    assert widths == [24, 12, 12, 3]


@torch.inference_mode()
def test_padding_at_the_start_is_not_taken_for_text() -> None:
    encoder = build("bert", "sdpa")
    inputs = {name: x.flip(1) for name, x in batch(encoder, segments=False).items()}
    expected = encoder(**inputs, output_hidden_states=True).hidden_states
    steps = LayerByLayer(encoder, **inputs)
    steps.advance(1)
    steps.keep(torch.tensor([0, 2]))
    for place, row in enumerate((0, 2)):
        torch.testing.assert_close(
            steps.advance(3)[place, -LENGTHS[row] :],
            expected[3][row, -LENGTHS[row] :],
            atol=1e-5,
            rtol=0,
        )


def test_segments_that_an_encoder_has_not_are_left_out() -> None:
    encoder = build("distilbert", "sdpa")
    inputs = batch(encoder)
    plain = LayerByLayer(encoder, **inputs).advance(4)
    given = LayerByLayer(encoder, **inputs, token_type_ids=torch.ones_like(inputs["input_ids"]))
    assert torch.equal(plain, given.advance(4))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (ElectraConfig(**SMALL, **SHAPE, embedding_size=32), "electra"),
        (BertConfig(**SMALL, **SHAPE, is_decoder=True), "bert"),
    ],
)
def test_another_encoder_is_refused(config: Any, kind: str) -> None:
    with pytest.raises(InputError, match=f"'{kind}'.*bert, roberta, distilbert, mpnet"):
        layers_of(AutoModel.from_config(config))
