"""Names and shapes of a run's result files: the contract of those who write and read them.

Training writes them, tracking and study read them; neither knows the other. A run in progress
grows in the study's `work_path`, named by its hash, and moves, whole, to
`runs/<task>/<encoder>/<method>/seed-<n>/`. `metrics.json` is written last: a folder that
has it is a finished run.
"""

import csv
import logging
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
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
MODEL = "model"

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
    `degenerate_exits` are the layers of all such exits. `teacher` is the hash of the run that came
    first.
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


def run_path(study: Path, task: str, encoder: str, method: str, seed: int | str) -> Path:
    """Where a finished run lies."""
    return study / "runs" / task / encoder / method / f"seed-{seed}"


def teacher_path(study: Path, task: str, encoder: str, method: str, seed: int | str) -> Path:
    """Where the file lies that holds what a teacher makes of its training rows."""
    return study / "teachers" / task / encoder / method / f"seed-{seed}.safetensors"


def tuning_path(study: Path, task: str, encoder: str, method: str) -> Path:
    """Where the runs lie that a λ is chosen from, and the choice."""
    return study / TUNING / task / encoder / method


def tuning_run_path(tuning: Path, weight: float | str, seed: int | str) -> Path:
    """Where the run lies, below a `tuning_path`, that tries a λ."""
    return tuning / f"lambda-{weight}" / f"seed-{seed}"


def variant_of(run_folder: Path) -> str | None:
    """`lambda-<λ>` for the folder of a tuning run, None for that of a run of the study."""
    match run_folder.parts:
        case (*_, parent, _, _, _, variant, _) if parent == TUNING and "lambda-" in variant:
            return variant
    return None


def work_path(study: Path, run_hash: str) -> Path:
    """Where a run in progress lies. The folder's name is the run's hash."""
    return study / "work" / run_hash


def is_drawn(step: int) -> bool:
    """Whether a step of `history.csv` is a point of MLflow's curves: 1,000, then every tenth.

    All steps of a long run would take MLflow more room than all of its results; the file has them.
    """
    return step <= 1000 or step % 10 == 0


def drawn(steps: int) -> int:
    """How many of so many steps are."""
    return min(steps, 1000) + max(0, steps // 10 - 100)


def lease_path(folder: Path) -> Path:
    """The file that tells who writes a run's folder, work or finished, now."""
    return folder.with_name(f".{folder.name}.lease")


@dataclass(frozen=True)
class RunFolder:
    """The files of one run, finished or in progress."""

    path: Path

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

    @property
    def model_path(self) -> Path:
        return self.path / MODEL

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
        """The run's hash: in `metrics.json` once finished, before that the work folder's name."""
        return self.metrics()["run_hash"] if self.finished else self.path.name

    def metrics(self) -> Metrics:
        """Raises InputError where the file is absent, torn, or lacks a part."""
        return cast(Metrics, _checked(self.metrics_path, Metrics.__required_keys__))

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
        return _checked(self.config_path, CONFIG_KEYS)

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


def find_runs(study: Path, tuning: bool = False) -> Iterator[RunFolder]:
    """Finished runs of a study, ordered by task, encoder, method and seed; or its tuning runs.

    One whose `metrics.json` cannot be read is logged, not yielded.
    """
    pattern = f"{TUNING}/*/*/*/lambda-*/seed-*" if tuning else "runs/*/*/*/seed-*"

    def order(path: Path) -> tuple[tuple[str, ...], int, str]:
        number = path.name.removeprefix("seed-")
        return path.parts[:-1], int(number) if number.isdigit() else -1, path.name

    folders = (path.parent for path in study.glob(f"{pattern}/{METRICS}"))
    for path in sorted(folders, key=order):
        run = RunFolder(path)
        try:
            run.metrics()
        except InputError as error:
            logging.getLogger(__name__).warning("left out: %s", error)
            continue
        yield run


def runs_of(
    run_folders: Iterable[Path], methods: Container[str]
) -> "list[tuple[RunKey, Metrics, RunFolder]]":
    """The runs of some methods among finished ones, ordered by their keys: the order given is not.

    Of two with one key the last counts. Raises InputError where a run has no readable metrics.
    """
    found = {}
    for path in run_folders:
        run = RunFolder(Path(path))
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
