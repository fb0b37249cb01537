"""The tables of a study, each as CSV, Markdown and LaTeX."""

from pathlib import Path

from acl_bert.files import write_text
from acl_bert.study.finetuning import finetuning_grids, finetuning_table, published
from acl_bert.study.grids import to_csv, write_table
from acl_bert.study.layout import Layout
from acl_bert.study.multi_exit import layer_scores, multi_exit_grids, multi_exit_table
from acl_bert.study.quality_speed import quality_speed_grids, quality_speed_table
from acl_bert.study.results import Results


def write_tables(results: Results, layout: Layout, folder: Path) -> list[Path]:
    """Write a study's tables to `folder`; returns their paths.

    `layer_scores.csv` always, and those of `layout.outputs`: each `.csv` (tidy), `.md` and `.tex`.
    """
    names, _ = layout.outputs
    paths = [folder / "layer_scores.csv"]
    write_text(paths[0], to_csv(layer_scores(results.exits, layout)))
    if "finetuning" in names:
        plain = layout.part("plain")
        table = finetuning_table(results.runs, plain, published())
        grids = finetuning_grids(table, plain, results.runs)
        paths += write_table(folder / "finetuning", table, f"Fine-tuning: {layout.study}", grids)
    if "multi_exit" in names:
        table = multi_exit_table(results.exits, layout)
        grids = multi_exit_grids(table, layout, results.exits, results.timings)
        paths += write_table(folder / "multi_exit", table, f"Exits: {layout.study}", grids)
    if "quality_speed" in names:
        table = quality_speed_table(results.curves, results.exits, layout)
        grids = quality_speed_grids(table, layout)
        paths += write_table(folder / "quality_speed", table, f"Early exit: {layout.study}", grids)
    return paths
