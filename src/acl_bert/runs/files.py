"""Names of a run's files, for those who write them (training) and read them (tracking, study).

The folders lie in the store (`runs/store.py`). A study names its runs in small files, one a run,
such as `runs/<task>/<encoder>/<method>/seed-<n>.json`, and those in progress in `in-progress/`.
"""

import csv
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from acl_bert.errors import InputError
from acl_bert.files import read_json
from acl_bert.runs.results import Metrics, Timings
from acl_bert.runs.tensors import Representations, read_logits, read_representations

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
# The heavy parts: a model's folder, and what a teacher outputs for the training rows.
MODEL = "model"
TEACHER_OUTPUTS = "teacher_outputs.safetensors"

TASK = "task.json"  # beside a task's prepared rows
TOKENS = "tokens.json"  # beside their tokens
LAMBDA = "lambda.json"  # the λ chosen from tuning runs, and beside it the scores it was chosen by
LAMBDA_SCORES = "scores.json"
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

# One row a step; an empty cell: the column does not apply (no auxiliary loss, no gate).
# `kept`: 1 where the auxiliary loss's gradient was used as it is, 0 where it was dropped or (by
# project and gradvac) changed; over several micro-batches or exits the fraction that kept it, as
# `angle` is their mean. `angle_h`: the angle over h, where `angle` is over parameters.
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

# What `config.json` has at least: `method` are the method's settings, `method_id` is its name.
CONFIG_KEYS = frozenset({"task", "encoder", "method_id", "method", "seed", "training"})


def epoch_columns(selection_metrics: list[str]) -> tuple[str, ...]:
    """Columns of `epochs.csv` (one row an epoch) for the selection split's metrics."""
    return ("epoch", "step", "train_loss", *(f"selection_{name}" for name in selection_metrics))


def prediction_columns(classes: int) -> tuple[str, ...]:
    """Columns of `predictions.csv` (one row an example of a dev set)."""
    return ("split", "index", "label", "prediction", *(f"logit_{k}" for k in range(classes)))


# Of `test_predictions.csv` (one row an example of a test set).
TEST_COLUMNS = ("split", "index", "prediction")


Row = dict[str, float | None]
# Task, encoder, method and seed.
RunKey = tuple[str, str, str, int]


def data_path(study: Path, task: str) -> Path:
    """Where a task's prepared rows lie."""
    return study / "data" / task


def tokens_path(study: Path, task: str, encoder: str) -> Path:
    """Where the rows' tokens for an encoder lie."""
    return study / "tokens" / task / encoder


def name_path(study: Path, task: str, encoder: str, method: str, seed: int | str) -> Path:
    """The small file that names a finished run of a study."""
    return study / "runs" / task / encoder / method / f"seed-{seed}.json"


def tuning_path(study: Path, task: str, encoder: str, method: str) -> Path:
    """The folder of the choice of λ, and of the names of the runs that it is chosen from."""
    return study / TUNING / task / encoder / method


def tuning_name_path(tuning: Path, weight: float | str, seed: int | str) -> Path:
    """The small file, below a `tuning_path`, that names a run which tries a λ."""
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
    """The small file that says which of a study's runs an unfinished folder of the store is.

    It is written before the training and removed once the run is named; a killed run leaves it.
    """
    return study / "in-progress" / f"{address}.json"


class InProgress(TypedDict):
    """Its content: the small file, relative to the study's folder, that will name the run."""

    name: str


def is_drawn(step: int) -> bool:
    """Whether a step of `history.csv` is a point of MLflow's curves: the first 1,000, then every
    tenth. All steps of a long run would take more room in MLflow than all of its results.
    """
    return step <= 1000 or step % 10 == 0


def drawn(steps: int) -> int:
    """How many of the first `steps` steps are drawn."""
    return min(steps, 1000) + max(0, steps // 10 - 100)


def lease_path(folder: Path) -> Path:
    """The file that names the process which writes a work folder, or teacher outputs, now."""
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
    def history_path(self) -> Path:
        return self.path / HISTORY

    @property
    def epochs_path(self) -> Path:
        return self.path / EPOCHS

    @property
    def predictions_path(self) -> Path:
        return self.path / PREDICTIONS

    def dev_logits(self) -> "dict[str, tuple[np.ndarray, np.ndarray]]":
        """As `read_logits`; they fit the run's metrics."""
        return read_logits(self.path / LOGITS, len(self.metrics()["exits"]))

    def representations(self) -> Representations:
        """As `read_representations`."""
        return read_representations(self.path / REPRESENTATIONS)

    @property
    def finished(self) -> bool:
        return self.metrics_path.is_file()

    @property
    def run_hash(self) -> str:
        """The run's address in the store, which is its folder's name."""
        return self.path.name

    def metrics(self) -> Metrics:
        """Raises InputError where the file is absent, torn, or lacks a key."""
        metrics = read_checked(self.metrics_path, Metrics.__required_keys__)
        return cast(Metrics, metrics | self._names("method"))

    def timings(self) -> Timings:
        """Raises InputError where the file is absent, torn, or lacks a key."""
        timings = cast(Timings, read_checked(self.path / TIMINGS, Timings.__required_keys__))
        if "total" not in timings["seconds"]:
            raise InputError(f"{self.path / TIMINGS}: lacks the total of its seconds; run it again")
        return timings

    def span(self) -> tuple[float, float]:
        """When it started and ended, in seconds of POSIX; raises InputError as `timings`."""
        timings = self.timings()
        start, end = (datetime.fromisoformat(timings[key]) for key in ("started", "ended"))
        return start.timestamp(), end.timestamp()

    def config(self) -> dict[str, Any]:
        """The resolved settings: at least task, encoder, method_id, seed and the method's row."""
        config = read_checked(self.config_path, CONFIG_KEYS) | self._names("method_id")
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


def read_checked(path: Path, keys: frozenset[str], remedy: str = "run it again") -> dict[str, Any]:
    """A JSON object with at least these keys. Raises InputError for any other content."""
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
