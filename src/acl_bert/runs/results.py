"""What a finished run's `metrics.json` and `timings.json` hold."""

from typing import Any, NotRequired, TypedDict


class Selection(TypedDict):
    """What the best epoch was chosen by: a metric's fraction on the selection split."""

    metric: str
    value: float
    epoch: int


class RunData(TypedDict):
    fingerprint: str
    rows: dict[str, int]
    subset: bool
    stand_in: str | None
    source: str


class Metrics(TypedDict):
    """`metrics.json`. Values are fractions on dev at the best epoch.

    `metrics` are the last exit's; `exits` has each exit's, by its layer (as text), from 1 to the
    model's `depth`. `degenerate`: the last predicts one class on dev, or has Matthews 0;
    `degenerate_exits` are the layers of all such exits. `run_hash` is the run's address in the
    store, `teacher` that of the run that came first.
    """

    task: str
    encoder: str
    method: str
    seed: int
    run_hash: str
    depth: int
    metrics: dict[str, float]
    exits: dict[str, dict[str, float]]
    teacher: NotRequired[str | None]
    selection: Selection
    degenerate: bool
    degenerate_exits: list[str]
    gate: dict[str, Any] | None
    data: RunData


class Timings(TypedDict):
    """`timings.json`: all that may differ between two equal runs.

    `started` and `ended` are ISO 8601 with their offset from UTC, and between them are also the
    times in which an interrupted run did not go on. `code`: a digest of what the numbers come from.
    """

    commit: str | None
    code: NotRequired[str]
    started: str
    ended: str
    seconds: dict[str, float]
    steps: int
    tokens: int
    tokens_per_second: float
    device: str
    precision: str
    threads: int
    peak_memory_mib: NotRequired[float | None]
    versions: NotRequired[dict[str, str]]
