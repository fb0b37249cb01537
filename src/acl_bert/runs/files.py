"""Names and shapes of a run's result files: the contract of those who write and read them.

Training writes them, tracking and study read them; neither knows the other. The folders lie in
the store (`runs/store.py`). A study names its runs in small files, one a run, such as
`runs/<task>/<encoder>/<method>/seed-<n>.json`, and those in progress in `in-progress/`.
"""

import csv
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from acl_bert.errors import InputError
from acl_bert.files import read_json

if TYPE_CHECKING:
    import numpy as np

METRICS = "metrics.json"
CONFIG = "config.json"
TIMINGS = "timings.json"
HISTORY = "history.csv"
EPOCHS = "epochs.csv"
PREDICTIONS = "predictions.csv"
TEST_PREDICTIONS = "test_predictions.csv"  # where the task has test sets
LOGITS = "logits.safetensors"  # of every exit on the dev sets: `<set>.logits`, `<set>.labels`
REPRESENTATIONS = "representations.safetensors"  # h of some dev rows, and the label embeddings
MODEL = "model"  # of the heavy parts, as is:
TEACHER_OUTPUTS = "teacher_outputs.safetensors"  # what a teacher makes of its training rows

TASK = "task.json"  # beside a task's prepared rows
TOKENS = "tokens.json"  # beside their tokens
LAMBDA = "lambda.json"  # the λ chosen from tuning runs, and beside it the scores it was chosen by
LAMBDA_SCORES = "scores.json"
CALIBRATION = "calibration.json"  # in the study's folder: how long steps take on its hardware
TUNING = "tuning"

# Of every finished run.
PUBLISHED = (
    CONFIG,
    HISTORY,
    EPOCHS,
    PREDICTIONS,
    LOGITS,
    REPRESENTATIONS,
    TIMINGS,
    METRICS,
)

# One row a step; an empty cell: the column does not apply (no contrastive term, no gate).
# `kept`: 1 where the contrastive term's gradient was used as it is, 0 where it was dropped or (by
# project and gradvac) changed; over several micro-batches or exits the share of those that kept it,
# as `angle` is their mean. `angle_h`: the angle over h, where `angle` is over parameters.
HISTORY_COLUMNS = (
    "step",
    "epoch",
    "loss",
    "ce",
    "contrastive",
    "distillation",
    "angle",
    "angle_h",
    "kept",
    "lr",
    "grad_norm",
    "tokens",
)

# What `config.json` has at least: `method` is the method's row, `method_id` its name. Optional and
# used by tracking while a run goes on: `data_fingerprint` and `commit`.
CONFIG_KEYS = frozenset({"task", "encoder", "method_id", "method", "seed", "training"})


def epoch_columns(selection_metrics: list[str]) -> tuple[str, ...]:
    """Columns of `epochs.csv` (one row an epoch) for the selection split's metrics."""
    return ("epoch", "step", "train_loss", *(f"selection_{name}" for name in selection_metrics))


def prediction_columns(classes: int) -> tuple[str, ...]:
    """Columns of `predictions.csv` (one row an example of a dev set)."""
    return ("split", "index", "label", "prediction", *(f"logit_{k}" for k in range(classes)))


# Of `test_predictions.csv` (one row an example of a test set).
TEST_COLUMNS = ("split", "index", "prediction")


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
    ended: NotRequired[str]
    seconds: dict[str, float]
    steps: int
    tokens: int
    tokens_per_second: float
    device: str
    precision: str
    threads: int
    peak_memory_mib: NotRequired[float | None]
    versions: NotRequired[dict[str, str]]


class Calibration(TypedDict):
    """`calibration.json`, an entry an encoder: how long CE steps of two lengths took."""

    device: str
    gpu: bool
    precision: str
    threads: int
    batch_size: int
    steps: list[tuple[int, float]]
    """Tokens of a row, all rows of a batch being as long, and seconds of an update."""


Row = dict[str, float | None]
# Task, encoder, method and seed.
RunKey = tuple[str, str, str, int]


@dataclass(frozen=True)
class Representations:
    """What some exits make of some dev rows, by layer; `representations.safetensors`."""

    labels: "np.ndarray"
    """(rows,), class numbers."""
    h: "dict[int, np.ndarray]"
    """(rows, hidden), float32."""
    label_embeddings: "dict[int, np.ndarray]"
    """(classes, hidden), float32."""


def data_path(study: Path, task: str) -> Path:
    """Where a task's prepared rows lie."""
    return study / "data" / task


def tokens_path(study: Path, task: str, encoder: str) -> Path:
    """Where they lie tokenised."""
    return study / "tokens" / task / encoder


def name_path(study: Path, task: str, encoder: str, method: str, seed: int | str) -> Path:
    """The small file that names a finished run of a study."""
    return study / "runs" / task / encoder / method / f"seed-{seed}.json"


def tuning_path(study: Path, task: str, encoder: str, method: str) -> Path:
    """Where the runs are named that a λ is chosen from, and the choice lies."""
    return study / TUNING / task / encoder / method


def tuning_name_path(tuning: Path, weight: float | str, seed: int | str) -> Path:
    """The small file, below a `tuning_path`, that names the run that tries a λ."""
    return tuning / f"lambda-{weight}" / f"seed-{seed}.json"


def chosen_lambda(tuning: Path) -> float:
    """The λ that was chosen from the runs below a `tuning_path`. Raises InputError without one."""
    choice = tuning / LAMBDA
    if not choice.is_file():
        raise InputError(
            f"{choice}: no such file; λ of {tuning.name} is tuned in this study: run the workflow "
            "up to the choice, or give --lambda"
        )
    return float(read_json(choice)["lambda"])


def variant_of(name: Path) -> str | None:
    """`lambda-<λ>` for the small file of a tuning run, None for that of a run of the study."""
    match name.parts:
        case (*_, parent, _, _, _, variant, _) if parent == TUNING and "lambda-" in variant:
            return variant
    return None


def in_progress_path(study: Path, address: str) -> Path:
    """The small file that says for which of a study's runs an unfinished folder of the store is.

    It is there from before a run's training until the run is named; one that was killed leaves it.
    """
    return study / "in-progress" / f"{address}.json"


class InProgress(TypedDict):
    """Its content: the small file, relative to the study's folder, that will name the run."""

    name: str


def is_drawn(step: int) -> bool:
    """Whether a step of `history.csv` is a point of MLflow's curves: 1,000, then every tenth.

    All steps of a long run would take MLflow more room than all of its results; the file has them.
    """
    return step <= 1000 or step % 10 == 0


def drawn(steps: int) -> int:
    """How many of so many steps are."""
    return min(steps, 1000) + max(0, steps // 10 - 100)


def lease_path(folder: Path) -> Path:
    """The file that tells who writes a work folder of the store now."""
    return folder.with_name(f".{folder.name}.lease")


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, finished or in progress.

    `called`: what the study that is looked at calls it, and `method` its method's title and
    teacher. Without them the names are those of the study that trained the run: of two studies
    that share a run each may have names of its own.
    """

    path: Path
    called: RunKey | None = None
    method: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metrics_path(self) -> Path:
        return self.path / METRICS

    @property
    def config_path(self) -> Path:
        return self.path / CONFIG

    @property
    def timings_path(self) -> Path:
        return self.path / TIMINGS

    @property
    def history_path(self) -> Path:
        return self.path / HISTORY

    @property
    def epochs_path(self) -> Path:
        return self.path / EPOCHS

    @property
    def predictions_path(self) -> Path:
        return self.path / PREDICTIONS

    def dev_logits(self) -> "dict[str, tuple[np.ndarray, np.ndarray]]":
        """By dev set: every exit's logits, (rows, exits, classes) float32, and labels, (rows,).

        Raises InputError where the file is absent or torn, or does not fit the run's metrics.
        """
        import numpy as np  # not above: every verb and the Snakefile import this module

        path = self.path / LOGITS
        tensors = _load_tensors(path)
        exits = len(self.metrics()["exits"])
        sets = {}
        for name in (key.removesuffix(".logits") for key in tensors if key.endswith(".logits")):
            logits, labels = tensors[f"{name}.logits"], tensors.get(f"{name}.labels")
            if labels is None or logits.shape[:2] != (len(labels), exits):
                raise InputError(
                    f"{path}: {name} is not of {exits} exits, or of other rows; run it again"
                )
            if not np.isfinite(logits).all():
                raise InputError(f"{path}: {name} holds numbers that are not finite; run it again")
            sets[name] = (logits, labels)
        return sets

    def representations(self) -> Representations:
        """Raises InputError where the file is absent or torn, or lacks a part."""
        import numpy as np  # as in dev_logits

        path = self.path / REPRESENTATIONS
        tensors = _load_tensors(path)
        by_layer: dict[str, dict[int, Any]] = {"h": {}, "label_embeddings": {}}
        for kind, layers in by_layer.items():
            for name in (name for name in tensors if name.startswith(f"{kind}.")):
                layers[int(name.removeprefix(f"{kind}."))] = tensors[name]
        finite = all(np.isfinite(x).all() for layers in by_layer.values() for x in layers.values())
        if "labels" not in tensors or by_layer["h"].keys() != by_layer["label_embeddings"].keys():
            raise InputError(f"{path}: lacks labels, h or label_embeddings; run it again")
        if not finite:
            raise InputError(f"{path}: holds numbers that are not finite; run it again")
        return Representations(tensors["labels"], **by_layer)

    @property
    def finished(self) -> bool:
        return self.metrics_path.is_file()

    @property
    def run_hash(self) -> str:
        """The run's address in the store, which is its folder's name."""
        return self.path.name

    def metrics(self) -> Metrics:
        """Raises InputError where the file is absent, torn, or lacks a part."""
        metrics = _checked(self.metrics_path, Metrics.__required_keys__)
        return cast(Metrics, metrics | self._names("method"))

    def timings(self) -> Timings:
        """Raises InputError where the file is absent, torn, or lacks a part."""
        timings = cast(Timings, _checked(self.timings_path, Timings.__required_keys__))
        if "total" not in timings["seconds"]:
            raise InputError(f"{self.timings_path}: lacks the total of its seconds; run it again")
        return timings

    def span(self) -> tuple[float, float]:
        """When it started and ended, in seconds of POSIX; raises InputError as `timings`."""
        timings = self.timings()
        start = datetime.fromisoformat(timings["started"]).timestamp()
        if "ended" not in timings:
            return start, start + timings["seconds"]["total"]
        return start, datetime.fromisoformat(timings["ended"]).timestamp()

    def config(self) -> dict[str, Any]:
        """The resolved settings: at least task, encoder, method_id, seed and the method's row."""
        config = _checked(self.config_path, CONFIG_KEYS) | self._names("method_id")
        return config | {"method": config["method"] | self.method}

    def _names(self, method: str) -> dict[str, Any]:
        if self.called is None:
            return {}
        return dict(zip(("task", "encoder", method, "seed"), self.called, strict=True))

    def history(self, start: int = 0) -> list[Row]:
        """Rows of `history.csv` from row `start` on (the first step is row 0); see `read_rows`."""
        return read_rows(self.history_path, start)

    def steps(self) -> int:
        """Complete rows of `history.csv`, without reading them."""
        try:
            return max(0, self.history_path.read_bytes().count(b"\n") - 1)
        except FileNotFoundError:
            return 0

    def epochs(self, start: int = 0) -> list[Row]:
        """Rows of `epochs.csv` from row `start` on; see `read_rows`."""
        return read_rows(self.epochs_path, start)


def read_rows(path: Path, start: int = 0) -> list[Row]:
    """Numbers of a CSV file that may still grow, from data row `start` on; an empty cell is None.

    A last line without its newline is still being written and is left for the next call; a file
    that is not there yet has no rows. Raises InputError at a complete line that is not as wide as
    the header or not numeric.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines:
        return []
    header, *body = csv.reader([lines[0], *lines[1 + start :]])
    rows: list[Row] = []
    for number, cells in enumerate(body, start=start + 2):
        try:
            rows.append(
                {
                    name: float(cell) if cell else None
                    for name, cell in zip(header, cells, strict=True)
                }
            )
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}: not a row of {len(header)} numbers; "
                "the file was damaged: remove the run's folder and run it again"
            ) from error
    return rows


def find_names(study: Path, tuning: bool = False) -> Iterator[Path]:
    """The small files of a study's finished runs, by task, encoder, method, seed; or of its tuning.

    They may name what the store has not (any more); see `called_by`.
    """
    pattern = f"{TUNING}/*/*/*/lambda-*/seed-*.json" if tuning else "runs/*/*/*/seed-*.json"

    def order(path: Path) -> tuple[tuple[str, ...], int, str]:
        number = path.stem.removeprefix("seed-")
        return path.parts[:-1], int(number) if number.isdigit() else -1, path.name

    yield from sorted(study.glob(pattern), key=order)


def called_by(name: Path) -> RunKey:
    """What the study calls the run that a small file of it names, tuning runs included."""
    parts = name.parts[-6:-2] if variant_of(name) else name.parts[-5:-1]
    return (*parts[1:], int(name.stem.removeprefix("seed-")))  # type: ignore[return-value]


def runs_of(
    runs: Iterable[RunFolder], methods: Container[str]
) -> "list[tuple[RunKey, Metrics, RunFolder]]":
    """The runs of some methods among finished ones, ordered by their keys: the order given is not.

    Of two with one key the last counts. Raises InputError where a run has no readable metrics.
    """
    found = {}
    for run in runs:
        metrics = run.metrics()
        if metrics["method"] in methods:
            key = (metrics["task"], metrics["encoder"], metrics["method"], metrics["seed"])
            found[key] = (metrics, run)
    return [(key, *found[key]) for key in sorted(found)]


def _load_tensors(path: Path) -> "dict[str, np.ndarray]":
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run it again") from error


def calibration(study: Path, encoders: Collection[str]) -> dict[str, Calibration] | None:
    """Of each of these; None where nothing was calibrated.

    Raises InputError where the file is torn, or lacks one of them.
    """
    path, remedy = study / CALIBRATION, "calibrate again"
    if not path.is_file():
        return None
    found = _checked(path, frozenset(encoders), remedy)
    for name in encoders:
        if not isinstance(found[name], dict) or Calibration.__required_keys__ - found[name].keys():
            raise InputError(f"{path}: {name} is not whole; {remedy}")
    return found


def _checked(path: Path, keys: frozenset[str], remedy: str = "run it again") -> dict[str, Any]:
    try:
        value = read_json(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, the run is not finished; {remedy}") from error
    except ValueError as error:  # of the decoding of bytes, or of JSON
        raise InputError(f"{path}: not JSON ({error}); {remedy}") from error
    missing = sorted(keys - value.keys()) if isinstance(value, dict) else sorted(keys)
    if missing:
        raise InputError(f"{path}: lacks {', '.join(missing)}; {remedy}")
    return cast(dict[str, Any], value)
