"""How a model is fine-tuned, whatever the method."""

from typing import Literal

from pydantic import Field

from acl_bert.config.base import Section, patch_of


class Training(Section):
    epochs: int = Field(3, ge=1, description="passes over train; the best one is kept")
    batch_size: int = Field(32, ge=1, description="items of a micro-batch")
    gradient_accumulation_steps: int = Field(
        1, ge=1,
        description="micro-batches per update; a contrastive batch is ONE micro-batch, and the "
        "gate decides on each",
    )  # fmt: skip
    learning_rate: float = Field(2e-5, gt=0, description="of AdamW, at its peak")
    warmup_ratio: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="fraction of the updates over which the learning rate rises, linearly",
    )
    weight_decay: float = Field(0.01, ge=0, description="not on biases and LayerNorm")
    max_grad_norm: float = Field(1.0, gt=0, description="of all gradients together")
    max_length: int = Field(128, ge=4, description="tokens, special ones included")
    group_by_length: bool = Field(
        True, description="rows of similar length share a batch, for less padding"
    )
    selection_split: Literal["selection", "dev"] = Field(
        "selection", description="the rows that choose the epoch; dev: as older work did"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 autocast where the hardware is quick at it"
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: a GPU if there is one"
    )
    threads: int = Field(
        1, ge=1, description="CPU threads of a run; results are reproducible for a given number"
    )

    def batches_of(self, rows: int) -> int:
        """Micro-batches of so many train rows, over all epochs."""
        return self.epochs * -(-rows // self.batch_size)

    def updates_of(self, rows: int) -> int:
        """Updates of the optimiser likewise; an epoch's last one may be short."""
        return self.epochs * -(-rows // (self.batch_size * self.gradient_accumulation_steps))


# What a task, or a method, may have otherwise than its study.
TrainingPatch = patch_of(Training)
# A method's rows are tokenised as those of the others are, and run on the same hardware.
MethodTrainingPatch = patch_of(Training, without=("max_length", "precision", "device", "threads"))
