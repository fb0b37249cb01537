"""Numbers of this study beside the paper's and other published ones."""

from typing import Any

import pandas as pd

from acl_bert.study.grids import MISSING, metric_title
from acl_bert.study.report.report import Block, Group, Notes, TableView, entries
from acl_bert.study.report.sections import Material

COLUMNS = [
    *("method", "task and metric", "ours", "seeds", "paper", "ours − paper"),
    *("published", "ours − published", "source"),
]


def published(study: Material) -> list[Block]:
    layout = study.layout
    rows: dict[str, list[list[str]]] = {}
    sources: list[str] = []
    frame = study.tables["finetuning"].frame if "finetuning" in study.tables else pd.DataFrame()
    for row in frame.to_dict("records"):
        paper, reference, source = row["paper"], row["reference"], MISSING
        if pd.isna(paper) and pd.isna(reference):
            continue
        if not pd.isna(reference):
            if row["reference_source"] not in sources:
                sources.append(row["reference_source"])
            source = f"[{1 + sources.index(row['reference_source'])}]"
        ours = row["mean"] if row["n"] else None
        spread = "" if pd.isna(row["sd"]) else f" ± {row['sd']:.1f}"
        rows.setdefault(f"{row['encoder']} ({layout.encoders[row['encoder']]})", []).append(
            [
                layout.methods[row["method"]],
                f"{layout.tasks[row['task']].title} {metric_title(row['metric'])}",
                MISSING if ours is None else f"{ours:.1f}{spread}",
                str(row["n"]),
                *_beside(ours, paper),
                *_beside(ours, reference),
                source,
            ]
        )
    if not rows:
        return [Notes(["No number is published for these encoders, methods and tasks."])]
    notes = [
        "Dev, percent. Paper: arXiv 2602.03563, of which three cells are known; its encoder is "
        "inferred, and so is the split. A difference is no test: the others' seeds are not known.",
        *layout.notes(),
        *(f"[{number}] {source}." for number, source in enumerate(sources, start=1)),
    ]
    groups = [Group(entries(some), encoder) for encoder, some in rows.items()]
    return [TableView(COLUMNS, groups, "Numbers of others, beside ours", notes)]


def _beside(ours: float | None, other: Any) -> tuple[str, str]:
    """The other's number, and the difference from it, where both are known."""
    if pd.isna(other):
        return MISSING, MISSING
    if ours is None:
        return f"{other:.1f}", MISSING
    return f"{other:.1f}", f"{ours - other:+.1f}".replace("-", "−")
