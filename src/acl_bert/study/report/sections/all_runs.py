"""Every finished run, and how to find it in MLflow."""

from typing import NamedTuple

from acl_bert.config.method import Method
from acl_bert.study.grids import MISSING, metric_title
from acl_bert.study.report.report import Block, Command, Entry, Notes, table
from acl_bert.study.report.sections import Material


class Mirror(NamedTuple):
    """How a run is looked up in MLflow: the tag that has its hash, and what serves the pages."""

    tag: str
    command: str


COLUMNS = [
    *("method", "task", "encoder", "seed", "metric", "dev", "epoch", "λ", "seconds", "commit"),
    *("run hash", "marks"),
]


def all_runs(study: Material, mirror: Mirror | None) -> list[Block]:
    finished = study.runs.finished
    if not finished:
        return [Notes(["None is finished."])]
    rows: list[list[Entry | str]] = []
    for run, one in finished.items():
        metrics, method = one.metrics, Method.model_validate(one.config["method"])
        main = study.layout.tasks[run[0]].main_metric
        commit = one.timings["commit"]
        rows.append(
            [
                *study.names(run),
                Entry(str(run[3]), path=one.path),
                metric_title(main),
                f"{100 * metrics['metrics'][main]:.1f}",
                str(metrics["selection"]["epoch"]),
                f"{method.weight:g}" if method.has_auxiliary_loss else MISSING,
                f"{one.seconds:,.0f}",
                Entry(_short(commit) if commit else "not known", code=True),
                Entry(metrics["run_hash"][:12], code=True),
                "degenerate" if metrics["degenerate"] else MISSING,
            ]
        )
    notes = [
        "Dev: the last exit's main metric, percent, at the epoch chosen on the selection rows."
    ]
    blocks: list[Block] = []
    if mirror:
        example = next(iter(finished.values())).metrics["run_hash"][:12]
        query = f"tags.`{mirror.tag}` LIKE '{example}%'"
        blocks = [
            Command("MLflow's pages of the study, on this machine:", mirror.command),
            Command("A run there, by its hash, in the search field:", query),
        ]
    return [*blocks, table(COLUMNS, rows, f"Finished runs ({len(rows):,})", notes)]


def _short(commit: str) -> str:
    """The first digits, and the mark of a tree that was changed since."""
    return commit[:8] + "+" * commit.endswith("+")
