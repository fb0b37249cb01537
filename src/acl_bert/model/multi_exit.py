"""A classifier on every layer, for exits that learn together and for early exiting."""

from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from acl_bert.model.classifier import ClassifierConfig, EncoderClassifier


class MultiExitConfig(ClassifierConfig):
    """The classifier's config; its type tells transformers' Auto classes which model it is."""

    model_type = "acl_bert_multi_exit"


class MultiExitForSequenceClassification(EncoderClassifier):
    """An encoder with a `Head` of its own on each layer (docs/paper.md §2.6)."""

    config_class = MultiExitConfig

    @staticmethod
    def _exits(depth: int) -> tuple[int, ...]:
        return tuple(range(1, depth + 1))

    def represent(self, **inputs: Tensor) -> list[Tensor]:
        """Token ids, mask (and types), each (batch, length) → h of each exit, (batch, hidden)."""
        output = self.encoder(**inputs, output_hidden_states=True)
        # The first are the embeddings. The last exit reads the encoder's output: some encoders have
        # more after their last layer.
        layers = [*output.hidden_states[1:-1], output.last_hidden_state]
        return [head.represent(layer) for head, layer in zip(self.heads, layers, strict=True)]

    def forward(self, labels: Tensor | None = None, **inputs: Tensor) -> SequenceClassifierOutput:
        """Logits, (batch, exits, classes); given labels, (batch,), the sum of the exits' CE."""
        logits = self.exit_logits(**inputs)
        loss = None
        if labels is not None:
            every = labels[:, None].expand(logits.shape[:2])
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), every) * len(self.exits)
        return SequenceClassifierOutput(loss=loss, logits=logits)
