"""Every finished run of a study in three CSV files: its scores, those of its exits, its times."""

from collections.abc import Iterable
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, RunKey
from acl_bert.runs.results import Metrics, Timings

RUNS = "runs.csv"
EXITS = "exits.csv"
TIMINGS = "timings.csv"

# One row a run and metric, of the last exit. Values are fractions, as the runs wrote them; tables
# turn them to percent.
# Nothing here depends on when, where or how fast a run went: equal studies have equal bytes.
RUNS_COLUMNS = (
    "task",
    "encoder",
    "method",
    "seed",
    "metric",
    "value",
    "selection_value",
    "epoch",
    "degenerate",
    "run_hash",
)

# One row a run, exit and metric, in fractions. An exit is the number of its layer, from 1 to the
# model's depth; a run with one classifier has one, at its depth.
EXITS_COLUMNS = (
    "task",
    "encoder",
    "method",
    "seed",
    "exit",
    "depth",
    "metric",
    "value",
    "degenerate",
    "run_hash",
)

PHASES = ("start", "train", "selection", "dev", "total")

# One row a run.
TIMINGS_COLUMNS = (
    "task",
    "encoder",
    "method",
    "seed",
    "run_hash",
    "commit",
    "started",
    *(f"{phase}_seconds" for phase in PHASES),
    "steps",
    "tokens",
    "tokens_per_second",
    "device",
    "precision",
    "threads",
    "peak_memory_mib",
)


def collect(runs: Iterable[RunFolder], folder: Path) -> None:
    """Write RUNS, EXITS and TIMINGS to `folder` from finished runs, ordered whatever the order.

    Degenerate runs and exits (one class predicted, Matthews 0) are flagged and kept.
    Raises InputError where a run has no readable result, two seeds have models of different depth,
    or there is no run.
    """
    found: dict[RunKey, tuple[Metrics, Timings]] = {}
    depths: dict[tuple[str, str, str], tuple[int, Path]] = {}
    for run in runs:
        metrics = run.metrics()
        configuration = metrics["task"], metrics["encoder"], metrics["method"]
        found[*configuration, metrics["seed"]] = metrics, run.timings()
        depth, first = depths.setdefault(configuration, (metrics["depth"], run.path))
        if depth != metrics["depth"]:
            raise InputError(
                f"{run.path}: has {metrics['depth']} layers, {first} {depth}; the seeds of a "
                "method have as many: run those again that were made before the study was changed"
            )
    if not found:
        raise InputError("collect: no finished run to collect; run the study first")
    ordered = [(key, *found[key]) for key in sorted(found)]
    write_csv(
        folder / RUNS,
        RUNS_COLUMNS,
        (
            (
                *key,
                name,
                value,
                metrics["selection"]["value"],
                metrics["selection"]["epoch"],
                str(metrics["degenerate"]).lower(),
                metrics["run_hash"],
            )
            for key, metrics, _ in ordered
            for name, value in sorted(metrics["metrics"].items())
        ),
    )
    write_csv(
        folder / EXITS,
        EXITS_COLUMNS,
        (
            (
                *key,
                number,
                metrics["depth"],
                name,
                value,
                str(str(number) in metrics["degenerate_exits"]).lower(),
                metrics["run_hash"],
            )
            for key, metrics, _ in ordered
            for number, scores in sorted((int(text), s) for text, s in metrics["exits"].items())
            for name, value in sorted(scores.items())
        ),
    )
    write_csv(
        folder / TIMINGS,
        TIMINGS_COLUMNS,
        (
            (
                *key,
                metrics["run_hash"],
                timings["commit"],
                timings["started"],
                *(timings["seconds"].get(phase) for phase in PHASES),
                timings["steps"],
                timings["tokens"],
                timings["tokens_per_second"],
                timings["device"],
                timings["precision"],
                timings["threads"],
                timings.get("peak_memory_mib"),
            )
            for key, metrics, timings in ordered
        ),
    )
