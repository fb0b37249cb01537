"""What a study's report says, from the study's files: what ran, what lacks, and what came out.

A study may be half finished: what is not there is named as missing, and the rest is shown.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from acl_bert.config.analyses import choices
from acl_bert.config.method import Method
from acl_bert.errors import InputError
from acl_bert.files import read_json
from acl_bert.runs.files import (
    TASK,
    InProgress,
    called_by,
    data_path,
    find_names,
    in_progress_path,
    name_path,
)
from acl_bert.runs.results import Metrics, Timings
from acl_bert.runs.store import Store
from acl_bert.study.analyses.clusters import CLUSTERS, TSNE_POINTS
from acl_bert.study.analyses.gradients import GRADIENTS
from acl_bert.study.claims.claims import Claim
from acl_bert.study.claims.ledger import HEADINGS, ledger_rows
from acl_bert.study.collect import EXITS, RUNS
from acl_bert.study.curves import CURVES
from acl_bert.study.grids import DAGGER, MISSING, Cell, cell_text, metric_title
from acl_bert.study.layout import Layout
from acl_bert.study.report.report import (
    VERDICT_MARKS,
    Block,
    ClaimView,
    Command,
    Entry,
    Facts,
    FigureView,
    Files,
    Group,
    Notes,
    Part,
    Report,
    Section,
    TableView,
)
from acl_bert.study.tables import Table

Run = tuple[str, str, str, int]

CONFIG_FILE = "config.yaml"
CLAIMS, AUDIT, FINETUNING = "claims", "audit", "finetuning"

# What a figure is drawn from, in the study's folder.
FIGURE_DATA = {
    "finetuning": (RUNS,),
    "layer_scores": (EXITS,),
    "quality_speed": (CURVES,),
    "gradients": (GRADIENTS,),
    "sensitivity": (RUNS,),
    "ablation": (EXITS,),
    "clusters": (CLUSTERS, TSNE_POINTS),
}

# So many tables of one kind are shown unfolded; the rest opens at a click.
UNFOLDED = 2

# A list of what is missing that has more rows is folded.
LONG = 20

FAILED, UNFINISHED, LEFT_OUT, NOT_RUN = "failed", "unfinished", "left out", "not run"

# How a run that failed ends its log: a refusal of ours, or the last line of a traceback.
ERROR = re.compile(r"error: |[\w.]*(Error|Exception)(:|$)")


@dataclass(frozen=True)
class Mirror:
    """How runs are found in MLflow: the tag that has a run's hash, and what serves the pages."""

    tag: str
    command: str


@dataclass(frozen=True)
class Done:
    """A finished run's files."""

    folder: Path
    config: Mapping[str, Any]
    metrics: Metrics
    timings: Timings

    @property
    def started(self) -> datetime:
        return datetime.fromisoformat(self.timings["started"])

    @property
    def seconds(self) -> float:
        return self.timings["seconds"]["total"]

    @property
    def ended(self) -> datetime:
        if "ended" in self.timings:
            return datetime.fromisoformat(self.timings["ended"])
        return self.started + timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Lacking:
    """A run without a result of this study, and what became of it: one of the states above.

    `path` is its log and `said` what that ends with, where there is one; of one left out,
    `path` is the finished run's folder and `said` why.
    """

    state: str
    path: Path | None = None
    said: str = ""


def study_report(
    study_folder: Path,
    layout: Layout,
    planned: Iterable[Run],
    tables: Sequence[Table],
    claims: Mapping[str, Claim],
    captions: Mapping[str, str],
    deviations: Sequence[str],
    mirror: Mirror | None = None,
    left_out: Mapping[Run, str] | None = None,
) -> Report:
    """The report of what lies in the study's folder now.

    `planned` are the study's runs, finished or not. `tables` are those there are: the ledger is the
    one named `claims`, the audit `audit`. `captions` are by `<name>_table` and `<name>_figure`.
    `deviations` say what the study does otherwise than the paper, as far as that is known, or than
    this project's defaults. `left_out` are planned runs whose finished run cannot be taken for
    the study's, and why: of other settings, or with files that are torn. They count as missing.
    """
    done, lacking = _runs(study_folder, planned, left_out or {})
    by_name = {table.name: table for table in tables}
    shown = [name for name in by_name if name not in (CLAIMS, AUDIT)]
    ledger = by_name.get(CLAIMS)
    views = [] if ledger is None else claim_views(ledger.frame, claims)
    warning, reasons = _warning(layout, views)

    def parts(names: Iterable[str]) -> list[Part]:
        return [
            _table_part(by_name[name], study_folder, captions.get(f"{name}_table", ""))
            for name in names
            if name in by_name
        ]

    sections = [
        Section("ran", "What was run", _ran(study_folder, layout, done, lacking)),
        Section("claims", "The paper's claims", _claims(views, ledger, study_folder)),
        Section("missing", "What is missing", _missing(study_folder, layout, done, lacking)),
        Section("tables", "Tables", parts(shown) or [Notes(["None yet."])]),
        Section("figures", "Figures", _figures(study_folder, layout, captions, by_name)),
        Section("published", "Paper versus ours", _published(by_name.get(FINETUNING), layout)),
        Section(
            "deviations",
            "Deviations from the paper",
            [Notes(deviations, listed=True) if deviations else Notes(["None that is known."])],
        ),
        Section(
            "audit",
            "Audit of the open choices",
            parts([AUDIT])
            or [Notes(["No open choice is tried otherwise in this study: there is no audit."])],
        ),
        Section("choices", "What the paper leaves open", _choices(layout)),
        Section("runs", "All runs", _all_runs(layout, done, mirror)),
    ]
    return Report(
        title=f"ACL, a reproduction: {layout.study}",
        summary="Aligned contrastive learning for BERT and multi-exit BERT (Li & Zhu, 2026, arXiv "
        f"2602.03563): {_progress(done, lacking)}.",
        sections=sections,
        warning=warning,
        reasons=reasons,
    )


def _warning(layout: Layout, views: Sequence[ClaimView]) -> tuple[str | None, list[str]]:
    """What is said above all where data or claims are not the paper's, and the reasons."""
    counts = Counter(view.verdict for view in views)
    reasons = layout.notes()
    if counts["stand-in"]:
        reasons.append(
            f"{counts['stand-in']} of {len(views)} claims are measured on what is not the paper's."
        )
    withheld = counts["stand-in"] + counts["not run"]
    if not reasons or (views and not withheld):
        return None, []
    if counts["not run"]:
        reasons.append(f"{counts['not run']} of {len(views)} claims are not run.")
    if withheld == len(views):
        return "A stand-in: no verdict on the paper comes from this study.", reasons
    return f"{withheld} of {len(views)} claims have no verdict.", reasons


def _runs(
    study_folder: Path, planned: Iterable[Run], left_out: Mapping[Run, str]
) -> tuple[dict[Run, Done], dict[Run, Lacking]]:
    begun, store = _begun(study_folder), Store.beside(study_folder)
    done: dict[Run, Done] = {}
    lacking: dict[Run, Lacking] = {}
    for run in planned:
        name = name_path(study_folder, *run)
        if run in left_out:
            lacking[run] = Lacking(LEFT_OUT, name, left_out[run])
            continue
        if not name.is_file():
            lacking[run] = _lacking(study_folder, run, run in begun)
            continue
        try:
            folder = store.named(name)
            done[run] = Done(folder.path, folder.config(), folder.metrics(), folder.timings())
        except InputError as error:
            lacking[run] = Lacking(FAILED, said=str(error))
    return done, lacking


def _begun(study_folder: Path) -> set[Run]:
    """The runs whose training began and has not ended."""
    notes: list[InProgress] = [
        read_json(path) for path in in_progress_path(study_folder, "x").parent.glob("*.json")
    ]
    return {called_by(study_folder / note["name"]) for note in notes}


def _lacking(study_folder: Path, run: Run, begun: bool) -> Lacking:
    log = study_folder / "logs" / "finetune" / f"{'.'.join(map(str, run))}.log"
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Lacking(UNFINISHED if begun else NOT_RUN)
    lines = [line.strip() for line in lines if line.strip()]
    if errors := [line for line in lines if ERROR.match(line)]:
        return Lacking(FAILED, log, errors[-1])
    # The log of a run that ended, and was removed since, says nothing of one to come.
    return Lacking(UNFINISHED, log, lines[-1] if lines else "") if begun else Lacking(NOT_RUN)


def _progress(done: Mapping[Run, Done], lacking: Mapping[Run, Lacking]) -> str:
    states = Counter(one.state for one in lacking.values())
    parts = [f"{len(done):,} of {len(done) + len(lacking):,} runs finished"]
    return ", ".join([*parts, *(f"{count:,} {state}" for state, count in states.items())])


def duration(seconds: float) -> str:
    """Such as "2 h 05 min", "12 min", "29 s"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min"


def _counted(values: Iterable[str]) -> list[str]:
    """Each value, the most frequent first, with the runs that it is of where there are several."""
    counts = Counter(values)
    if len(counts) == 1:
        return list(counts)
    return [f"{value} ({count:,} runs)" for value, count in counts.most_common()]


def _ran(
    study_folder: Path, layout: Layout, done: Mapping[Run, Done], lacking: Mapping[Run, Lacking]
) -> list[Block]:
    runs = list(done.values())
    methods = [title for name, title in layout.methods.items() if name not in layout.variants]
    facts = {
        "Study": [layout.study],
        "Methods": [", ".join(methods)],
        "Seeds": [", ".join(map(str, layout.seeds))],
        "Runs": [_progress(done, lacking)],
    }
    if layout.variants:
        facts["Variants"] = [
            f"{len(layout.variants):,} methods with a few keys changed, by analyses"
        ]
    store = Store.beside(study_folder)
    tuning = [
        store.named(name).timings()["seconds"]["total"]
        for name in find_names(study_folder, tuning=True)
    ]
    if tuning:
        facts["Tuning"] = [f"{len(tuning):,} runs that try a λ, {duration(sum(tuning))}"]
    if runs:
        first, last = min(run.started for run in runs), max(run.ended for run in runs)
        peak = max(run.timings.get("peak_memory_mib") or 0 for run in runs)
        facts |= {
            "Dates": [f"{_moment(first)} to {_moment(last)} UTC"],
            "Time": [f"{duration(sum(run.seconds for run in runs))} in all runs together"],
            "Commits": _counted(_commit(run.timings["commit"], 40) for run in runs),
            "Code": _counted(run.folder.name.rpartition("-")[2] for run in runs),
            "Hardware": _counted(_hardware(run.timings) for run in runs),
            "Software": _counted(
                ", ".join(f"{name} {number}" for name, number in run.timings["versions"].items())
                for run in runs
                if "versions" in run.timings
            ),
        }
        if peak:
            facts["Memory"] = [f"{peak:,.0f} MiB at most in a run"]
    return [Facts(facts), _tasks(study_folder, layout), _encoders(layout, runs)]


def _moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def _commit(commit: str | None, length: int) -> str:
    """The first digits, and the mark of a tree that was changed since."""
    if commit is None:
        return "not known"
    return commit.rstrip("+")[:length] + ("+" if commit.endswith("+") else "")


def _hardware(timings: Timings) -> str:
    threads = timings["threads"]
    return f"{timings['device']}, {timings['precision']}, {threads} thread{'s'[: threads != 1]}"


def _tasks(study_folder: Path, layout: Layout) -> TableView:
    rows = []
    for name, shown in layout.tasks.items():
        task = read_json(data_path(study_folder, name) / TASK)
        splits = task["splits"]
        dev = [f"{splits[dev]['rows']:,}" for dev in shown.dev_sets]
        held_out = splits.get("selection")
        rows.append(
            [
                Entry(shown.title),
                Entry(task["source"]),
                Entry(f"{splits['train']['rows']:,}"),
                Entry(f"{held_out['rows']:,}" if held_out else MISSING),
                Entry(" + ".join(dev)),
                Entry("; ".join(shown.marks) or MISSING),
            ]
        )
    columns = ["task", "source", "training rows", "selection rows", "dev rows", "marks"]
    return TableView(columns, [Group(rows)], "Tasks")


def _encoders(layout: Layout, runs: Sequence[Done]) -> TableView:
    rows = []
    for name, path in layout.encoders.items():
        ours = [run for run in runs if run.metrics["encoder"] == name]
        revisions = {str(run.config.get("encoder_revision") or MISSING) for run in ours}
        depth = max((run.metrics["depth"] for run in ours), default=None)
        rows.append(
            [
                Entry(name),
                Entry(path, code=True),
                Entry(", ".join(sorted(revisions)) or MISSING, code=True),
                Entry(str(depth or MISSING)),
                Entry(f"{len(ours):,}"),
            ]
        )
    columns = ["encoder", "hub id or folder", "revision", "layers", "finished runs"]
    return TableView(columns, [Group(rows)], "Encoders")


def _names(layout: Layout, cell: Sequence[Any]) -> list[Entry]:
    """Task, encoder and method as tables call them; the method first, since it tells most."""
    task, encoder, method = cell[:3]
    return [
        Entry(layout.methods.get(method, method)),
        Entry(layout.tasks[task].title if task in layout.tasks else task),
        Entry(encoder),
    ]


def _missing(
    study_folder: Path, layout: Layout, done: Mapping[Run, Done], lacking: Mapping[Run, Lacking]
) -> list[Block]:
    sentences = [
        f"{_progress(done, lacking)}."
        if lacking
        else f"No run is missing: all {len(done):,} of the study are finished."
    ]
    if len(layout.seeds) == 1:
        sentences.append("One seed: no number here has a spread, and no claim can be decided.")
    blocks: list[Block] = []
    incomplete: dict[tuple[str, str, str], dict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (*cell, seed), one in lacking.items():
        incomplete[cell[0], cell[1], cell[2]][one.state].append(seed)
    if incomplete:
        finished = Counter(run[:3] for run in done)
        shown = (FAILED, UNFINISHED, LEFT_OUT, NOT_RUN)
        rows = [
            [
                *_names(layout, cell),
                Entry(f"{finished[cell]} of {finished[cell] + sum(map(len, states.values()))}"),
                *(Entry(_listed(states[state])) for state in shown),
            ]
            for cell, states in incomplete.items()
        ]
        columns = ["method", "task", "encoder", "finished", *shown]
        notes = ["The seeds that lack, by what became of their runs."]
        heading = (
            f"Unfinished cells ({len(rows):,} of {len(finished.keys() | incomplete.keys()):,})"
        )
        blocks.append(_listing(columns, rows, heading, notes))
    begun = [(run, one) for run, one in lacking.items() if one.state != NOT_RUN]
    if begun:
        rows = [
            [
                *_names(layout, run),
                Entry(str(run[3])),
                Entry(one.state, path=one.path),
                Entry(one.said),
            ]
            for run, one in begun
        ]
        columns = ["method", "task", "encoder", "seed", "state", "the end of its log"]
        notes = [
            "Unfinished: begun, and without a result yet; it may still run.",
            "Left out: finished, and not taken for the study's run; the last column says why.",
        ]
        heading = f"Runs begun, without a result of this study ({len(rows):,})"
        blocks.append(_listing(columns, rows, heading, notes))
    degenerate = _degenerate(layout, done)
    blocks.append(
        degenerate or Notes(["No finished run is degenerate at its last exit or before."])
    )
    blocks += _absent(study_folder, layout)
    return [Notes(sentences), *blocks]


def _listing(
    columns: Sequence[str], rows: Sequence[Sequence[Entry]], heading: str, notes: Sequence[str]
) -> TableView:
    return TableView(columns, [Group(rows)], heading, notes, open=len(rows) <= LONG)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or MISSING


def _degenerate(layout: Layout, done: Mapping[Run, Done]) -> TableView | None:
    rows = [
        [
            *_names(layout, run),
            Entry(str(run[3])),
            Entry("yes" if one.metrics["degenerate"] else "no"),
            Entry(", ".join(one.metrics["degenerate_exits"])),
        ]
        for run, one in done.items()
        if one.metrics["degenerate"] or one.metrics["degenerate_exits"]
    ]
    if not rows:
        return None
    columns = ["method", "task", "encoder", "seed", "at the last exit", "exits"]
    notes = ["One class is predicted for all of dev, or Matthews is 0. They count in every mean."]
    heading = f"Degenerate runs ({len(rows):,} of {len(done):,})"
    return _listing(columns, rows, heading, notes)


def _absent(study_folder: Path, layout: Layout) -> list[Block]:
    tables, figures = layout.outputs
    absent = [
        str(path.relative_to(study_folder))
        for path in (
            *(study_folder / "tables" / f"{name}.csv" for name in tables),
            *(study_folder / "figures" / f"{name}.png" for name in figures),
        )
        if not path.is_file()
    ]
    return [Notes([f"Not written yet: {', '.join(absent)}."])] if absent else []


def claim_views(table: pd.DataFrame, claims: Mapping[str, Claim]) -> list[ClaimView]:
    """The ledger, a view a claim; its reason is that of the parts whose verdict it has."""
    words = [dict(zip(HEADINGS, row, strict=True)) for row in ledger_rows(table, claims)]
    columns = [name for name in HEADINGS if name not in ("claim", "verdict", "why")]
    views = []
    for name, claim in claims.items():
        at = [place for place, one in enumerate(table["claim"]) if one == name]
        parts = table.iloc[at].to_dict("records")
        verdict = parts[0]["verdict"]
        reasons = [part["reason"] for part in parts if part["part_verdict"] == verdict]
        views.append(
            ClaimView(
                claim.title,
                verdict,
                " · ".join(dict.fromkeys(reasons)),
                columns,
                [[words[place][column] for column in columns] for place in at],
                [f"{part['short']}: {part['part_verdict']}. {part['reason']}" for part in parts],
            )
        )
    return views


def _claims(views: Sequence[ClaimView], ledger: Table | None, study_folder: Path) -> list[Block]:
    if ledger is None:
        return [Notes(["No claim was tested yet."])]
    counts = Counter(view.verdict for view in views)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICT_MARKS if counts[verdict])
    notes = dict.fromkeys(note for grid in ledger.grids for note in grid.notes)
    files = Files(_table_files(study_folder, CLAIMS))
    return [
        Notes([f"Of {len(views)}: {said}."]),
        files,
        *views,
        Notes(list(notes), listed=True),
    ]


def _table_part(table: Table, study_folder: Path, caption: str) -> Part:
    """The caption, the notes that several grids share, and the grids."""
    several = len(table.grids) > 1
    shared = [
        note
        for note in (table.grids[0].notes if several else [])
        if all(note in grid.notes for grid in table.grids)
    ]
    views = [
        TableView(
            [grid.rows_are, *grid.columns],
            [
                Group(
                    [
                        [Entry(row.title), *(_entry(cell) for cell in row.cells)]
                        for row in block.rows
                    ],
                    block.title,
                )
                for block in grid.blocks
            ],
            grid.heading,
            [note for note in grid.notes if note not in shared],
            open=place < UNFOLDED,
        )
        for place, grid in enumerate(table.grids)
    ]
    files = _table_files(study_folder, table.name)
    return Part(table.title, _flat(caption), views, files, notes=shared)


def _table_files(study_folder: Path, name: str) -> list[Path]:
    paths = [study_folder / "tables" / f"{name}.{ending}" for ending in ("csv", "md", "tex")]
    return [path for path in paths if path.is_file()]


def _entry(cell: Cell) -> Entry:
    return Entry(cell_text(cell, " ± ", DAGGER, MISSING), best=cell.best)


def _flat(caption: str) -> str:
    """A caption on one line, without its marks of literal text."""
    return " ".join(caption.replace("``", "").split())


def _figures(
    study_folder: Path, layout: Layout, captions: Mapping[str, str], tables: Mapping[str, Table]
) -> list[Block]:
    """A figure is called as the table of its name, if there is one."""
    _, names = layout.outputs
    blocks: list[Block] = []
    for name in names:
        folder = study_folder / "figures"
        picture = folder / f"{name}.png"
        if not picture.is_file():
            continue
        files = [
            picture,
            folder / f"{name}.pdf",
            *(study_folder / data for data in FIGURE_DATA[name]),
            study_folder / "tables" / f"{name}.csv",
        ]
        blocks.append(
            FigureView(
                tables[name].title if name in tables else name.replace("_", " ").capitalize(),
                picture,
                _flat(captions.get(f"{name}_figure", "")),
                [path for path in files if path.is_file()],
                f"python -m acl_bert figures --config {study_folder / CONFIG_FILE}",
            )
        )
    return blocks or [Notes(["None yet."])]


def _published(finetuning: Table | None, layout: Layout) -> list[Block]:
    """Ours beside the paper's and other published numbers, where there is one."""
    rows: dict[str, list[list[Entry]]] = {}
    sources: list[str] = []
    frame = pd.DataFrame() if finetuning is None else finetuning.frame
    for row in frame.to_dict("records"):
        paper, reference = row["paper"], row["reference"]
        if pd.isna(paper) and pd.isna(reference):
            continue
        if not pd.isna(reference) and row["reference_source"] not in sources:
            sources.append(row["reference_source"])
        ours = row["mean"] if row["n"] else None
        spread = "" if pd.isna(row["sd"]) else f" ± {row['sd']:.1f}"
        task = layout.tasks[row["task"]]
        rows.setdefault(f"{row['encoder']} ({layout.encoders[row['encoder']]})", []).append(
            [
                Entry(layout.methods[row["method"]]),
                Entry(f"{task.title} {metric_title(row['metric'])}"),
                Entry(MISSING if ours is None else f"{ours:.1f}{spread}"),
                Entry(str(row["n"])),
                *_beside(ours, paper),
                *_beside(ours, reference),
                Entry(
                    MISSING
                    if pd.isna(reference)
                    else f"[{1 + sources.index(row['reference_source'])}]"
                ),
            ]
        )
    if not rows:
        return [Notes(["No number is published for these encoders, methods and tasks."])]
    columns = ["method", "task and metric", "ours", "seeds", "paper", "ours − paper"]
    columns += ["published", "ours − published", "source"]
    notes = [
        "Dev, percent. Paper: arXiv 2602.03563, of which three cells are known; its encoder is "
        "inferred, and so is the split. A difference is no test: the others' seeds are not known.",
        *layout.notes(),
        *(f"[{number}] {source}." for number, source in enumerate(sources, start=1)),
    ]
    groups = [Group(some, encoder) for encoder, some in rows.items()]
    return [TableView(columns, groups, "Numbers of others, beside ours", notes)]


def _beside(ours: float | None, other: Any) -> tuple[Entry, Entry]:
    if pd.isna(other):
        return Entry(MISSING), Entry(MISSING)
    if ours is None:
        return Entry(f"{other:.1f}"), Entry(MISSING)
    return Entry(f"{other:.1f}"), Entry(f"{ours - other:+.1f}".replace("-", "−"))


def _choices(layout: Layout) -> list[Block]:
    """Each row of the table of open choices, and whether this study tries it otherwise."""
    tried: dict[str, list[str]] = defaultdict(list)
    titles = {name: (choice.title, choice.default) for name, choice in choices().items()}
    for world in layout.audit:
        tried[world.choice].append(world.variant)
        titles[world.choice] = world.title, world.default
    rows = [
        [
            Entry(title),
            Entry(default),
            Entry(", ".join(choices()[name].variants) if name in choices() else MISSING),
            Entry(", ".join(tried[name]) or MISSING),
        ]
        for name, (title, default) in titles.items()
    ]
    columns = ["choice", "default", "other values", "tried here"]
    notes = [
        "Default: that of this project's methods; where the study has another, it is a deviation."
    ]
    return [TableView(columns, [Group(rows)], "Open choices", notes)]


def _all_runs(layout: Layout, done: Mapping[Run, Done], mirror: Mirror | None) -> list[Block]:
    if not done:
        return [Notes(["None is finished."])]
    rows = []
    for run, one in done.items():
        metrics, method = one.metrics, Method.model_validate(one.config["method"])
        main = layout.tasks[run[0]].main_metric
        rows.append(
            [
                *_names(layout, run),
                Entry(str(run[3]), path=one.folder),
                Entry(metric_title(main)),
                Entry(f"{100 * metrics['metrics'][main]:.1f}"),
                Entry(str(metrics["selection"]["epoch"])),
                Entry(f"{method.weight:g}" if method.has_auxiliary_loss else MISSING),
                Entry(f"{one.seconds:,.0f}"),
                Entry(_commit(one.timings["commit"], 8), code=True),
                Entry(metrics["run_hash"][:12], code=True),
                Entry("degenerate" if metrics["degenerate"] else MISSING),
            ]
        )
    columns = ["method", "task", "encoder", "seed", "metric", "dev", "epoch", "λ", "seconds"]
    columns += ["commit", "run hash", "marks"]
    notes = [
        "Dev: the last exit's main metric, percent, at the epoch chosen on the selection rows."
    ]
    blocks: list[Block] = []
    if mirror:
        example = next(iter(done.values())).metrics["run_hash"][:12]
        query = f"tags.`{mirror.tag}` LIKE '{example}%'"
        blocks = [
            Command("MLflow's pages of the study, on this machine:", mirror.command),
            Command("A run there, by its hash, in the search field:", query),
        ]
    heading = f"Finished runs ({len(rows):,})"
    return [*blocks, TableView(columns, [Group(rows)], heading, notes)]
