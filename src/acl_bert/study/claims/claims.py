"""The claims as data: one file says what the paper claims and which number decides it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from acl_bert.config.base import Section
from acl_bert.config.explain import explain, unknown
from acl_bert.config.yaml_file import read_yaml
from acl_bert.errors import InputError
from acl_bert.study.claims.evidence import QUANTITIES
from acl_bert.study.claims.statistics import (
    Mean,
    SdRatio,
    Side,
    SpreadRatio,
    Statistic,
    TasksReached,
)

GLUE = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte")
LOG_RATIO = "log ratio"

Words = Annotated[str, StringConstraints(pattern=r"^[^\r\n]*\S[^\r\n]*$")]
Quarter = Annotated[int, Field(ge=1, le=4)]


class Part(Section):
    """A number that has to be on one side of a margin. Methods are ids, encoders hub ids."""

    short: Words = Field(description="the part's name in tables")
    statistic: str = Field(description="of STATISTICS")
    quantity: str = Field("score", description="of QUANTITIES: what the statistic is of")
    method: str = Field(description="ours")
    encoder: str = Field("google-bert/bert-base-uncased", description="the paper's")
    quarter: Quarter = Field(
        4,
        description="of the encoder's depth, whose exit both sides are read at: 1 is exit 3 of 12",
    )
    baselines: tuple[str, ...] = Field((), description="theirs; of several, the best on each task")
    baseline_encoders: tuple[str, ...] = Field(
        (),
        description="the baselines' encoders, each read at its last exit; where empty, they are "
        "read with the same encoder at the same exit",
    )
    minus_quarter: Quarter | None = Field(
        None, description="the gain at that exit is taken away from the gain at `quarter`"
    )
    combination: str | None = Field(None, description="of a spread over λ: convex or additive")
    at_least: int | None = Field(None, ge=1, description="of tasks_reached: so many of the tasks")
    unit: str = Field(description="of effect, interval and margin")
    margin: float = Field(description="that the effect has to be beyond")
    side: Side = Field(description="of the margin, where the claim holds")
    tasks: tuple[str, ...] = Field(GLUE, min_length=1, description="all that the claim is about")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        if self.quantity not in QUANTITIES:
            yield f"quantity: {unknown(self.quantity, QUANTITIES)}"
        if self.statistic not in STATISTICS:
            yield f"statistic: {unknown(self.statistic, STATISTICS)}"
        ratio = self.statistic.endswith("_ratio")
        unit = LOG_RATIO if ratio else QUANTITIES[self.quantity].unit
        if self.unit != unit:
            yield f"unit: {self.statistic} of {self.quantity} is in {unit}, not {self.unit}"
        if ratio and len(self.baselines) != 1:
            yield f"baselines: {self.statistic} takes one, not {len(self.baselines)}"
        if self.statistic == "tasks_reached" and not self.baselines:
            yield "baselines: tasks_reached needs one or more"
        if self.baseline_encoders and not self.baselines:
            yield "baseline_encoders: the baselines that run with them are not named"
        for key, of in (
            ("combination", "spread_ratio"),
            ("at_least", "tasks_reached"),
        ):
            if (getattr(self, key) is None) == (self.statistic == of):
                given = "is missing" if getattr(self, key) is None else "is for it alone"
                yield f"{key}: {given}, statistic {of}"
        if self.minus_quarter is not None and (self.statistic != "mean" or not self.baselines):
            yield "minus_quarter: is for the statistic mean with baselines"
        if self.combination is not None:
            if self.combination not in (forms := ("convex", "additive")):
                yield f"combination: {unknown(self.combination, forms)}"
            if self.quantity != "score":
                yield f"quantity: spread_ratio is of score, not {self.quantity}"
        if self.statistic == "tasks_reached" and self.side == "below":
            yield "side: tasks_reached counts tasks above the margin"
        if self.at_least is not None and self.at_least > len(self.tasks):
            yield f"at_least: {self.at_least}, of {len(self.tasks)} tasks"

    @property
    def encoders(self) -> tuple[str, ...]:
        """The hub ids of all that it needs, its own first."""
        return tuple(dict.fromkeys((self.encoder, *self.baseline_encoders)))

    def make_statistic(self) -> Statistic:
        return STATISTICS[self.statistic](self)


# mean: ours less the best baseline's (ours alone without one), over seeds and tasks.
# tasks_reached: the same, task by task. sd_ratio: of the sd over seeds. spread_ratio: of the range
# of the mean over λ.
STATISTICS: Mapping[str, Callable[[Part], Statistic]] = {
    "mean": lambda part: Mean(),
    "tasks_reached": lambda part: TasksReached((part.at_least or 0) / len(part.tasks)),
    "sd_ratio": lambda part: SdRatio(),
    "spread_ratio": lambda part: SpreadRatio(),
}


class Claim(Section):
    """A claim holds where each of its parts does."""

    title: Words = Field(description="what the paper says")
    section: Words = Field(description="the section of docs/paper.md")
    parts: dict[str, Part] = Field(min_length=1, description="by a name of their own")


class Claims(Section):
    claims: dict[str, Claim] = Field(min_length=1, description="by id")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [part.short for claim in self.claims.values() for part in claim.parts.values()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"claims: {twice} is the short name of two parts; give each its own")
        return self


def load_claims(path: Path) -> dict[str, Claim]:
    """The claims by id, in the file's order.

    Raises InputError naming the file, the key, the fault and the nearest valid key.
    """
    try:
        return Claims.model_validate(read_yaml(path)).claims
    except ValidationError as error:
        faults = str(explain(error, Claims)).splitlines()
        raise InputError("\n".join(f"{path}: {fault}" for fault in faults)) from None
