"""The claims file: what the paper claims, and the statistics that decide each claim."""

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
    """A statistic that has to lie on one side of a margin. Methods are ids, encoders hub ids."""

    short: Words = Field(description="its name in tables, unlike that of every other part")
    statistic: str = Field(description="one of STATISTICS")
    quantity: str = Field("score", description="what it is computed of, one of QUANTITIES")
    method: str = Field(description="the method that the claim is about")
    encoder: str = Field("google-bert/bert-base-uncased", description="the method's encoder")
    quarter: Quarter = Field(
        4,
        description="of the encoder's depth: the exit that is compared; 1 is exit 3 of 12",
    )
    baselines: tuple[str, ...] = Field(
        (), description="what it is compared with; of several, the best on each task"
    )
    baseline_encoders: tuple[str, ...] = Field(
        (),
        description="the baselines' encoders, compared at their last exit; where empty, the "
        "baselines have the same encoder and exit as the method",
    )
    minus_quarter: Quarter | None = Field(
        None, description="subtract the gain at this quarter from that at `quarter`"
    )
    combination: str | None = Field(None, description="of spread_ratio: convex or additive")
    at_least: int | None = Field(None, ge=1, description="of tasks_reached: the number of tasks")
    margin: float = Field(description="what the effect is compared with")
    side: Side = Field(description="of the margin, on which the claim holds")
    tasks: tuple[str, ...] = Field(
        GLUE, min_length=1, description="the tasks that the claim is about"
    )

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
        if self.is_ratio and len(self.baselines) != 1:
            yield f"baselines: {self.statistic} takes one, not {len(self.baselines)}"
        if self.statistic == "tasks_reached" and not self.baselines:
            yield "baselines: tasks_reached needs one or more"
        if self.baseline_encoders and not self.baselines:
            yield "baseline_encoders: need baselines; give one or more"
        for key, of in (("combination", "spread_ratio"), ("at_least", "tasks_reached")):
            if (getattr(self, key) is None) == (self.statistic == of):
                fault = "is missing for" if getattr(self, key) is None else "is only for"
                yield f"{key}: {fault} statistic {of}"
        if self.minus_quarter is not None and (self.statistic != "mean" or not self.baselines):
            yield "minus_quarter: is only for statistic mean with baselines"
        if self.combination is not None:
            if self.combination not in (forms := ("convex", "additive")):
                yield f"combination: {unknown(self.combination, forms)}"
            if self.quantity != "score":
                yield f"quantity: spread_ratio is of score, not {self.quantity}"
        if self.statistic == "tasks_reached" and self.side == "below":
            yield "side: tasks_reached counts tasks above the margin"
        if self.at_least is not None and self.at_least > len(self.tasks):
            yield f"at_least: {self.at_least} is more than the {len(self.tasks)} tasks"

    @property
    def is_ratio(self) -> bool:
        return self.statistic.endswith("_ratio")

    @property
    def unit(self) -> str:
        """The unit of effect, interval and margin."""
        return LOG_RATIO if self.is_ratio else QUANTITIES[self.quantity].unit

    @property
    def encoders(self) -> tuple[str, ...]:
        """The hub ids of all its encoders, the method's first."""
        return tuple(dict.fromkeys((self.encoder, *self.baseline_encoders)))

    def make_statistic(self) -> Statistic:
        return STATISTICS[self.statistic](self)


# mean: the method's quantity less the best baseline's (alone without one), over seeds and tasks.
# tasks_reached: the same, task by task. sd_ratio: the ratio of the standard deviations over seeds.
# spread_ratio: the ratio of the ranges, over λ, of the mean over seeds.
STATISTICS: Mapping[str, Callable[[Part], Statistic]] = {
    "mean": lambda part: Mean(),
    "tasks_reached": lambda part: TasksReached((part.at_least or 0) / len(part.tasks)),
    "sd_ratio": lambda part: SdRatio(),
    "spread_ratio": lambda part: SpreadRatio(),
}


class Claim(Section):
    """A claim of the paper: it holds where each of its parts does."""

    title: Words = Field(description="what the paper says")
    section: Words = Field(description="where it is described, such as docs/paper.md §1.2")
    parts: dict[str, Part] = Field(min_length=1, description="by id")


class Claims(Section):
    claims: dict[str, Claim] = Field(min_length=1, description="by id")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [part.short for claim in self.claims.values() for part in claim.parts.values()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"claims: {twice} names two parts; give each its own `short`")
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
