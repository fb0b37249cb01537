"""A pre-trained encoder with a classifier on it, the model every method fine-tunes."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from acl_bert.errors import InputError
from acl_bert.model.encoder import resolve_path


class ClassifierConfig(PreTrainedConfig):
    """The encoder's own config, and what the head reads from it."""

    model_type = "acl_bert_classifier"
    sub_configs = {"encoder": AutoConfig}

    encoder: PreTrainedConfig | dict | None = None
    representation: str = "pooler"

    def __post_init__(self, **kwargs) -> None:  # type: ignore[no-untyped-def]
        if isinstance(self.encoder, dict):
            self.encoder = AutoConfig.for_model(**self.encoder)
        super().__post_init__(**kwargs)


class Head(nn.Module):
    """From the encoder's last hidden states to h, and from h to logits (paper.md §2).

    The rows of `classifier.weight`, (classes, hidden), are the label embeddings l_k.
    """

    def __init__(self, hidden: int, classes: int, dropout: float, representation: str) -> None:
        super().__init__()
        self.representation = representation
        self.pooler = None if representation == "first_token" else nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, classes)

    def represent(self, hidden_states: Tensor) -> Tensor:
        """(batch, length, hidden) → h, (batch, hidden), float32."""
        # A head costs nothing beside the encoder: it keeps its parameters' precision.
        with torch.autocast(hidden_states.device.type, enabled=False):
            h = hidden_states[:, 0].to(self.classifier.weight.dtype)
            if self.pooler is not None:
                h = torch.tanh(self.pooler(h))
            return self.dropout(h) if self.representation == "dropout" else h

    def classify(self, h: Tensor) -> Tensor:
        """h, (batch, hidden) → logits, (batch, classes), float32."""
        with torch.autocast(h.device.type, enabled=False):
            return self.classifier(h if self.representation == "dropout" else self.dropout(h))


class EncoderClassifier(PreTrainedModel):
    """An encoder without its own pooler, and a `Head` on its last layer."""

    config_class = ClassifierConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True

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
        self.head = Head(inner.hidden_size, classes, dropout, config.representation)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            std = getattr(self.config.encoder, "initializer_range", 0.02)
            nn.init.normal_(module.weight, std=std)
            nn.init.zeros_(module.bias)

    def represent(self, **inputs: Tensor) -> Tensor:
        """Token ids, mask (and types), each (batch, length) → h, (batch, hidden)."""
        return self.head.represent(self.encoder(**inputs).last_hidden_state)

    def forward(self, labels: Tensor | None = None, **inputs: Tensor) -> SequenceClassifierOutput:
        """As transformers' sequence classifiers: logits, (batch, classes), and CE given labels."""
        logits = self.head.classify(self.represent(**inputs))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    @property
    def label_embeddings(self) -> Tensor:
        """l_k, (classes, hidden): the classifier's own weight, not a copy."""
        return self.head.classifier.weight

    def last_layer(self) -> nn.Module:
        """The encoder's last transformer layer."""
        depth = self.config.encoder.num_hidden_layers
        for module in self.encoder.modules():
            if isinstance(module, nn.ModuleList) and len(module) == depth:
                return module[-1]
        raise InputError(
            f"{type(self.encoder).__name__}: no list of {depth} layers found; "
            "gate.scope last_layer works on encoders made of such a list"
        )


def build_classifier(
    path: str, revision: str | None, labels: list[str], representation: str
) -> EncoderClassifier:
    """A pre-trained encoder under a new head; draws the head from torch's global generator.

    The head's pooler starts from the pre-trained pooler where the checkpoint has one. Raises
    InputError where the encoder cannot be loaded.
    """
    resolved = resolve_path(path)
    try:
        encoder, loading = AutoModel.from_pretrained(
            resolved, revision=revision, output_loading_info=True, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"encoder {path!r}{f' at {revision}' if revision else ''} could not be loaded: {error}"
        ) from error
    pooler: Any = getattr(encoder, "pooler", None)
    config = ClassifierConfig(  # type: ignore[call-arg]
        encoder=encoder.config,
        attn_implementation=encoder.config._attn_implementation,  # else the encoder loses its own
        representation=representation,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    model = EncoderClassifier(config, encoder)
    pretrained = not any("pooler" in key for key in loading["missing_keys"])
    if pretrained and model.head.pooler is not None and hasattr(pooler, "dense"):
        model.head.pooler.load_state_dict(pooler.dense.state_dict())
    return model.float()
