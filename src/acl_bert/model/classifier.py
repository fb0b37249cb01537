"""A pre-trained encoder with a classifier on it, the model every method fine-tunes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from acl_bert.errors import InputError
from acl_bert.objectives.items import unit_rows


class ClassifierConfig(PreTrainedConfig):
    """The encoder's own config, and that of the heads.

    `representation`, `cosine_temperature`: as for `Head`. `texts`: how many texts a row has, one or
    two.
    """

    model_type = "acl_bert_classifier"
    sub_configs = {"encoder": AutoConfig}

    encoder: PreTrainedConfig | dict | None = None
    representation: str = "pooler"
    cosine_temperature: float | None = None
    texts: int = 1

    def __post_init__(self, **kwargs) -> None:  # type: ignore[no-untyped-def]
        if isinstance(self.encoder, dict):
            self.encoder = AutoConfig.for_model(**self.encoder)
        super().__post_init__(**kwargs)


class Head(nn.Module):
    """An exit: from a layer's hidden states to h, and from h to logits (docs/paper.md §2.1).

    `representation`: what h is, as `Method` has it. `cosine_temperature`: logits are the cosines of
    h and the label embeddings, divided by it; without it they are linear in h.
    """

    def __init__(
        self,
        hidden: int,
        classes: int,
        dropout: float,
        representation: str,
        cosine_temperature: float | None = None,
    ) -> None:
        super().__init__()
        self.representation = representation
        self.cosine_temperature = cosine_temperature
        self.pooler: nn.Module | None = None
        if representation == "mlp":  # LaCon's projection
            linear = [nn.Linear(hidden, hidden) for _ in range(3)]
            self.pooler = nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2])
        elif representation != "cls":
            self.pooler = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, classes, bias=cosine_temperature is None)

    def represent(self, hidden_states: Tensor) -> Tensor:
        """(batch, length, hidden) → h, (batch, hidden), float32."""
        # A head costs nothing beside the encoder: it keeps its parameters' precision.
        with torch.autocast(hidden_states.device.type, enabled=False):
            h = hidden_states[:, 0].to(self.classifier.weight.dtype)
            if self.pooler is not None:
                h = self.pooler(h)
                if self.representation != "mlp":
                    h = torch.tanh(h)
            return self.dropout(h) if self.representation == "dropout" else h

    def classify(self, h: Tensor) -> Tensor:
        """h, (batch, hidden) → logits, (batch, classes), float32."""
        with torch.autocast(h.device.type, enabled=False):
            h = h if self.representation == "dropout" else self.dropout(h)
            if self.cosine_temperature is None:
                return self.classifier(h)
            return unit_rows(h) @ unit_rows(self.label_embeddings).T / self.cosine_temperature

    @property
    def label_embeddings(self) -> Tensor:
        """l_k, (classes, hidden): the classifier's own weight, not a copy."""
        return self.classifier.weight


class EncoderClassifier(PreTrainedModel):
    """An encoder without its own pooler, and a `Head` on its last layer: its one exit."""

    config_class = ClassifierConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True
    heads: Sequence[Head]

    def __init__(self, config: ClassifierConfig, encoder: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        inner: Any = config.encoder
        self.encoder = AutoModel.from_config(inner) if encoder is None else encoder
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None  # the head has its own
        dropout: Any = getattr(inner, "classifier_dropout", None)
        if dropout is None:  # DistilBERT calls it otherwise
            dropout = getattr(inner, "hidden_dropout_prob", getattr(inner, "dropout", 0.1))
        classes = len(config.id2label or {})
        self.exits = self._exits(inner.num_hidden_layers)
        head_options = (config.representation, config.cosine_temperature)
        self.heads = nn.ModuleList(  # type: ignore[assignment]  # to its readers a list of Head
            Head(inner.hidden_size, classes, dropout, *head_options) for _ in self.exits
        )
        self.post_init()

    @staticmethod
    def _exits(depth: int) -> tuple[int, ...]:
        """The layers, from 1, that have a head."""
        return (depth,)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            std = getattr(self.config.encoder, "initializer_range", 0.02)
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def represent(self, **inputs: Tensor) -> list[Tensor]:
        """Token ids, mask (and types), each (batch, length) → h of each exit, (batch, hidden)."""
        return [self.heads[0].represent(self.encoder(**inputs).last_hidden_state)]

    def exit_logits(self, **inputs: Tensor) -> Tensor:
        """Logits of each exit, (batch, exits, classes)."""
        exits = zip(self.heads, self.represent(**inputs), strict=True)
        return torch.stack([head.classify(h) for head, h in exits], dim=1)

    def forward(self, labels: Tensor | None = None, **inputs: Tensor) -> SequenceClassifierOutput:
        """As transformers' sequence classifiers: logits, (batch, classes), and CE given labels."""
        logits = self.exit_logits(**inputs)[:, 0]
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def layer(self, number: int) -> nn.Module:
        """A transformer layer of the encoder, from 1."""
        depth = self.config.encoder.num_hidden_layers
        for module in self.encoder.modules():
            if isinstance(module, nn.ModuleList) and len(module) == depth:
                return module[number - 1]
        raise InputError(
            f"{type(self.encoder).__name__}: no list of {depth} layers found; "
            "gate.scope last_layer works on encoders made of such a list"
        )
