"""An encoder run one layer at a time, for batches that shrink on the way."""

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask

from acl_bert.errors import InputError

# Where transformers keeps the layers, by config.model_type. A new type must embed, mask and call
# its layers as these do; tests/inference/test_layers.py compares each with its full forward pass.
LAYERS = {
    "bert": "encoder.layer",
    "roberta": "encoder.layer",
    "distilbert": "transformer.layer",
    "mpnet": "encoder.layer",
}


def layers_of(encoder: PreTrainedModel) -> nn.ModuleList:
    """The encoder's layers. Raises InputError for a type that cannot be run one by one."""
    kind = encoder.config.model_type
    if kind not in LAYERS or getattr(encoder.config, "is_decoder", False):
        raise InputError(
            f"encoder type {kind!r}: early exiting works on {', '.join(LAYERS)} encoders; "
            "predict with the full model, without a criterion"
        )
    layers: Any = encoder.get_submodule(LAYERS[kind])
    return layers


class LayerByLayer:
    """A batch on its way through the encoder; samples may be taken out between two layers.

    `hidden`, (samples, length, hidden size), is the output of layer number `layer`, as it is in the
    encoder's full forward pass; at first the embeddings, layer 0.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> None:
        self._layers = layers_of(encoder)
        self._config: Any = encoder.config
        embeddings: Any = encoder.embeddings
        segments = {}
        if token_type_ids is not None and hasattr(embeddings, "token_type_embeddings"):
            segments["token_type_ids"] = token_type_ids
        self.hidden: Tensor = embeddings(input_ids=input_ids, **segments)
        self.layer = 0
        self._real = attention_mask
        self._more: dict[str, Tensor] = {}
        if self._config.model_type == "mpnet":
            # The same for all samples and layers: it depends on two tokens' distance alone.
            inner: Any = encoder.encoder
            self._more["position_bias"] = inner.compute_position_bias(self.hidden[:1])
        self._set_mask()

    def _set_mask(self) -> None:
        """Make the mask that the layers take; it is None where no sample is padded."""
        self._mask = create_bidirectional_mask(self._config, self.hidden, self._real)

    def advance(self, layer: int) -> Tensor:
        """Run the layers up to and including this one, from 1, and return its output, `hidden`."""
        while self.layer < layer:
            output = self._layers[self.layer](self.hidden, self._mask, **self._more)
            self.hidden = output[0] if isinstance(output, tuple) else output  # MPNet's are tuples
            self.layer += 1
        return self.hidden

    def keep(self, staying: Tensor) -> None:
        """Keep the samples at these indices, without the padding that they all have."""
        real = self._real[staying]
        length = int(real.any(dim=0).nonzero()[-1]) + 1
        self._real = real[:, :length]
        self.hidden = self.hidden[:, :length].index_select(0, staying)
        if "position_bias" in self._more:
            self._more["position_bias"] = self._more["position_bias"][:, :, :length, :length]
        self._set_mask()
