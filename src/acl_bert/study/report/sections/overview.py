"""What was run: methods, time, machines, tasks and encoders."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from acl_bert.files import read_json
from acl_bert.runs.files import TASK, data_path, find_names
from acl_bert.runs.results import Timings
from acl_bert.runs.store import Store
from acl_bert.study.grids import MISSING
from acl_bert.study.report.report import Block, Entry, Facts, TableView, table
from acl_bert.study.report.sections import Material


def overview(study: Material) -> list[Block]:
    layout = study.layout
    methods = [title for name, title in layout.methods.items() if name not in layout.variants]
    facts = {
        "Study": [layout.study],
        "Methods": [", ".join(methods)],
        "Seeds": [", ".join(map(str, layout.seeds))],
        "Runs": [str(study.runs)],
    }
    if layout.variants:
        facts["Variants"] = [
            f"{len(layout.variants):,} methods with a few keys changed, for analyses"
        ]
    store = Store.beside(study.folder)
    tuning = [
        store.named(name).timings()["seconds"]["total"]
        for name in find_names(study.folder, tuning=True)
    ]
    if tuning:
        facts["Tuning"] = [f"{len(tuning):,} runs that try a λ, {duration(sum(tuning))}"]
    if study.runs.finished:
        facts |= _facts_of_runs(study)
    return [Facts(facts), _tasks(study), _encoders(study)]


def _facts_of_runs(study: Material) -> dict[str, list[str]]:
    runs = list(study.runs.finished.values())
    first, last = min(run.span[0] for run in runs), max(run.span[1] for run in runs)
    peak = max(run.timings.get("peak_memory_mib") or 0 for run in runs)
    facts = {
        "Dates": [f"{_moment(first)} to {_moment(last)} UTC"],
        "Time": [f"{duration(sum(run.seconds for run in runs))} in all runs together"],
        "Commits": _counted(run.timings["commit"] or "not known" for run in runs),
        "Code": _counted(run.path.name.rpartition("-")[2] for run in runs),
        "Hardware": _counted(_hardware(run.timings) for run in runs),
        "Software": _counted(
            ", ".join(f"{name} {number}" for name, number in run.timings["versions"].items())
            for run in runs
            if "versions" in run.timings
        ),
    }
    return facts | ({"Memory": [f"{peak:,.0f} MiB at most in a run"]} if peak else {})


def duration(seconds: float) -> str:
    """Such as "2 h 05 min", "12 min", "29 s"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _counted(values: Iterable[str]) -> list[str]:
    """Each value, the most frequent first, with its number of runs where there are several."""
    counts = Counter(values)
    if len(counts) == 1:
        return list(counts)
    return [f"{value} ({count:,} runs)" for value, count in counts.most_common()]


def _hardware(timings: Timings) -> str:
    threads = timings["threads"]
    return f"{timings['device']}, {timings['precision']}, {threads} thread{'s'[: threads != 1]}"


def _tasks(study: Material) -> TableView:
    rows = []
    for name, layout in study.layout.tasks.items():
        task = read_json(data_path(study.folder, name) / TASK)
        rows_of = {split: f"{each['rows']:,}" for split, each in task["splits"].items()}
        rows.append(
            [
                layout.title,
                task["source"],
                rows_of["train"],
                rows_of.get("selection", MISSING),
                " + ".join(rows_of[dev] for dev in layout.dev_sets),
                "; ".join(layout.marks) or MISSING,
            ]
        )
    columns = ["task", "source", "training rows", "selection rows", "dev rows", "marks"]
    return table(columns, rows, "Tasks")


def _encoders(study: Material) -> TableView:
    rows: list[list[Entry | str]] = []
    for name, path in study.layout.encoders.items():
        ours = [run for run in study.runs.finished.values() if run.metrics["encoder"] == name]
        revisions = {str(run.config.get("encoder_revision") or MISSING) for run in ours}
        depth = max((run.metrics["depth"] for run in ours), default=MISSING)
        revision = Entry(", ".join(sorted(revisions)) or MISSING, code=True)
        rows.append([name, Entry(path, code=True), revision, str(depth), f"{len(ours):,}"])
    columns = ["encoder", "hub id or folder", "revision", "layers", "finished runs"]
    return table(columns, rows, "Encoders")
