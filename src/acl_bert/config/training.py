"""How a model is fine-tuned, whatever the method."""

from typing import Literal

from pydantic import Field

from acl_bert.config.base import Section, patch_of


class Training(Section):
    epochs: int = Field(3, ge=1)
    """Passes over train, each followed by an evaluation on the selection split; the best is kept.
    `paper.yaml`: 10 on CoLA, MRPC and RTE."""
    batch_size: int = Field(32, ge=1)
    """Rows of a micro-batch."""
    gradient_accumulation_steps: int = Field(1, ge=1)
    """Micro-batches per update. A contrastive batch is one micro-batch: items of different
    micro-batches do not meet, and the gate decides on each."""
    learning_rate: float = Field(2e-5, gt=0)
    """Of AdamW, at its peak; it falls linearly to 0."""
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    """Fraction of the updates over which the learning rate rises, linearly."""
    weight_decay: float = Field(0.01, ge=0)
    """Of AdamW; not on biases and LayerNorm."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are clipped so that their norm, all together, is at most this."""
    max_length: int = Field(128, ge=4)
    """Tokens of an item, special ones included; longer texts are cut. More than an encoder has
    positions for is refused: 512 with BERT, and with RoBERTa and MPNet, of whose 514 two are not
    used."""
    group_by_length: bool = True
    """Rows of similar length share a batch, which saves padding but changes who meets whom in a
    contrastive batch. `false`: a plain shuffle."""
    selection_split: Literal["selection", "dev"] = "selection"
    """The rows that choose the epoch: `selection`, or `dev`, as older work did; the held-out rows
    stay held out."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`fp32`, `bf16` (autocast), or `auto`: bf16 where the hardware is quick at it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`cpu`, `cuda`, or `auto`: a GPU if there is one."""
    threads: int = Field(1, ge=1)
    """CPU threads of a run. Its numbers are reproducible for a given number of threads, so the
    workflow never chooses it."""

    def batches_of(self, rows: int) -> int:
        """Micro-batches of so many train rows, over all epochs."""
        return self.epochs * -(-rows // self.batch_size)

    def updates_of(self, rows: int) -> int:
        """Updates of the optimiser likewise; an epoch's last one may be short."""
        return self.epochs * -(-rows // (self.batch_size * self.gradient_accumulation_steps))


# The keys that a task may change.
TrainingPatch = patch_of(Training)
# All methods share the tokens and the hardware.
MethodTrainingPatch = patch_of(Training, without=("max_length", "precision", "device", "threads"))
