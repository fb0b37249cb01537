"""Every finished run of a study in two CSV files: what it scored, and what it took."""

from collections.abc import Iterable
from pathlib import Path

from acl_bert.errors import InputError
from acl_bert.files import write_csv
from acl_bert.run_files import Metrics, RunFolder, Timings

# One row a run and metric. Values are fractions, as the runs wrote them; tables turn to percent.
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


def collect(run_folders: Iterable[Path], out_runs: Path, out_timings: Path) -> None:
    """Write `runs.csv` and `timings.csv` from finished runs, ordered whatever the order given.

    Degenerate runs (one class predicted, Matthews 0) are flagged and kept.
    Raises InputError where a run has no readable result, two folders hold the same task, encoder,
    method and seed, or no folder is given.
    """
    found: dict[tuple[str, str, str, int], tuple[Path, Metrics, Timings]] = {}
    for folder in run_folders:
        run = RunFolder(Path(folder))
        metrics = run.metrics()
        key = (metrics["task"], metrics["encoder"], metrics["method"], metrics["seed"])
        if key in found:
            raise InputError(
                f"{folder}: holds the same run as {found[key][0]} ({' · '.join(map(str, key))}); "
                "remove one of them"
            )
        found[key] = (run.path, metrics, run.timings())
    if not found:
        raise InputError("collect: no finished run to collect; run the study first")
    ordered = [(key, *found[key][1:]) for key in sorted(found)]
    write_csv(
        out_runs,
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
        out_timings,
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
