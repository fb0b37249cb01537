"""The tables of a study, each as CSV, Markdown and LaTeX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from acl_bert.files import write_text
from acl_bert.study.analyses.ablation import ablation_grids, ablation_table
from acl_bert.study.analyses.audit import audit, audit_notes, audit_rows
from acl_bert.study.analyses.clusters import clusters_grids, clusters_table
from acl_bert.study.analyses.gradients import gradient_grids, gradient_summary
from acl_bert.study.analyses.sensitivity import sensitivity_grids, sensitivity_table
from acl_bert.study.claims.claims import Claim
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.ledger import HEADINGS, LEDGER_NOTES, ledger, ledger_rows
from acl_bert.study.finetuning import finetuning_grids, finetuning_table, published
from acl_bert.study.grids import Grid, text_grid, to_csv, write_table
from acl_bert.study.layout import Layout
from acl_bert.study.multi_exit import layer_scores, multi_exit_grids, multi_exit_table
from acl_bert.study.quality_speed import quality_speed_grids, quality_speed_table
from acl_bert.study.results import Results

LAYER_SCORES = "layer_scores"


@dataclass(frozen=True)
class Table:
    """A table, tidy in `frame` and as it is printed in `grids`."""

    name: str
    title: str
    frame: pd.DataFrame
    grids: Sequence[Grid]


def study_tables(results: Results, layout: Layout, claims: Mapping[str, Claim]) -> list[Table]:
    """Those of `layout.outputs`."""

    @cache
    def evidence() -> Evidence:
        summary = gradient_summary(results.gradients)
        return Evidence(results, summary, results.clusters, layout)

    def finetuning() -> Table:
        plain = layout.part("plain")
        frame = finetuning_table(results.runs, plain, published())
        return Table(
            "finetuning", "Fine-tuning", frame, finetuning_grids(frame, plain, results.runs)
        )

    def multi_exit() -> Table:
        frame = multi_exit_table(results.exits, layout)
        grids = multi_exit_grids(frame, layout, results.exits, results.timings)
        return Table("multi_exit", "Exits", frame, grids)

    def quality_speed() -> Table:
        frame = quality_speed_table(results.curves, results.exits, layout)
        return Table("quality_speed", "Early exit", frame, quality_speed_grids(frame, layout))

    def gradients() -> Table:
        frame = gradient_summary(results.gradients)
        return Table("gradients", "Gradients", frame, gradient_grids(frame, layout))

    def sensitivity() -> Table:
        frame = sensitivity_table(results.runs, layout)
        return Table(
            "sensitivity", "λ and τ", frame, sensitivity_grids(frame, layout, results.runs)
        )

    def ablation() -> Table:
        frame = ablation_table(results.exits, layout)
        return Table("ablation", "Ablation", frame, ablation_grids(frame, layout, results.exits))

    def clusters() -> Table:
        frame = clusters_table(results.clusters, layout)
        return Table("clusters", "Representations", frame, clusters_grids(frame, layout))

    def claims_() -> Table:
        frame = ledger(claims, evidence())
        grid = text_grid("The paper's claims", HEADINGS, ledger_rows(frame, claims), LEDGER_NOTES)
        return Table("claims", "Claims", frame, [grid])

    def audit_() -> Table:
        frame = audit(claims, evidence())
        headings, rows = audit_rows(frame, claims)
        return Table(
            "audit", "Audit", frame, [text_grid("Open choices", headings, rows, audit_notes(frame))]
        )

    makers: Mapping[str, Callable[[], Table]] = {
        make.__name__.rstrip("_"): make
        for make in (
            finetuning,
            multi_exit,
            quality_speed,
            gradients,
            sensitivity,
            ablation,
            clusters,
            audit_,
            claims_,
        )
    }
    names, _ = layout.outputs
    return [makers[name]() for name in names]


def write_tables(
    tables: Sequence[Table], results: Results, layout: Layout, folder: Path
) -> list[Path]:
    """Write tables to `folder`, each `.csv` (tidy), `.md` and `.tex`, and `layer_scores.csv`.

    Returns their paths.
    """
    paths = [folder / f"{LAYER_SCORES}.csv"]
    write_text(paths[0], to_csv(layer_scores(results.exits, layout)))
    for table in tables:
        title = f"{table.title}: {layout.study}"
        paths += write_table(folder / table.name, table.frame, title, table.grids)
    return paths
