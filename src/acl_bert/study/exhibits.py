"""The tables and figures of a study, one entry each.

To add one, write a module that computes it, and its entry here: the workflow's outputs, captions
and categories, the report, the folder for a paper and README's list of outputs follow from it.
The functions import what they need when they are called, since the workflow reads this at each
start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from acl_bert.study.layout import Layout

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from acl_bert.study.claims.claims import Claim
    from acl_bert.study.claims.evidence import Evidence
    from acl_bert.study.grids import Grid
    from acl_bert.study.results import Results

    Contents = tuple[pd.DataFrame, Sequence[Grid]]
    """A table's rows as they are, and as they are printed."""


@dataclass(frozen=True)
class TableEntry:
    caption: str
    make: Callable[[Results, Layout, Mapping[str, Claim]], Contents]


@dataclass(frozen=True)
class FigureEntry:
    """`data`: the files in the study's folder that the figure is drawn from."""

    caption: str
    draw: Callable[[Results, Layout], Figure]
    data: Sequence[str]


@dataclass(frozen=True)
class Exhibit:
    """A table, a figure, or both, under one name.

    `category` groups them in Snakemake's report, `contents` says what they show in README's list.
    `in_study` says whether a study has them, by the methods that it runs.
    """

    name: str
    title: str
    category: str
    contents: str
    in_study: Callable[[Layout], bool]
    table: TableEntry | None = None
    figure: FigureEntry | None = None


def tables_of(layout: Layout) -> list[tuple[Exhibit, TableEntry]]:
    """The tables that a study has."""
    return [(each, each.table) for each in EXHIBITS if each.table and each.in_study(layout)]


def figures_of(layout: Layout) -> list[tuple[Exhibit, FigureEntry]]:
    """The figures that a study has."""
    return [(each, each.figure) for each in EXHIBITS if each.figure and each.in_study(layout)]


def outputs_table() -> str:
    """README's list of the tables and figures, in Markdown."""
    lines = ["| in `results/<study>/` | |", "| --- | --- |"]
    for each in EXHIBITS:
        kinds = (
            f"`{kind}/{each.name}.{{{endings}}}`"
            for kind, endings, there in (
                ("tables", "csv,md,tex", each.table),
                ("figures", "png,pdf", each.figure),
            )
            if there
        )
        lines.append(f"| {', '.join(kinds)} | {each.contents} |")
    return "\n".join(lines)


def _runs_a(*kinds: str) -> Callable[[Layout], bool]:
    return lambda layout: any(layout.kind(method) in kinds for _, _, method in layout.cells)


def _runs_one_of(methods: Callable[[Layout], Sequence[str]]) -> Callable[[Layout], bool]:
    return lambda layout: any(method in methods(layout) for _, _, method in layout.cells)


def _call(function: str, *args: Any) -> Any:
    """Call a function of this folder, such as "finetuning.published", imported only now."""
    module, _, name = function.rpartition(".")
    return getattr(import_module(f"acl_bert.study.{module}"), name)(*args)


def _evidence(results: Results, layout: Layout) -> Evidence:
    from acl_bert.study.analyses.gradients import gradient_summary
    from acl_bert.study.claims.evidence import Evidence

    return Evidence(results, gradient_summary(results.gradients), results.clusters, layout)


def _claims(results: Results, layout: Layout, claims: Mapping[str, Claim]) -> Contents:
    from acl_bert.study.claims.ledger import HEADINGS, LEDGER_NOTES, ledger, ledger_rows
    from acl_bert.study.grids import text_grid

    frame = ledger(claims, _evidence(results, layout))
    rows = ledger_rows(frame, claims)
    return frame, [text_grid("The paper's claims", HEADINGS, rows, LEDGER_NOTES)]


def _audit(results: Results, layout: Layout, claims: Mapping[str, Claim]) -> Contents:
    from acl_bert.study.analyses.audit import audit, audit_notes, audit_rows
    from acl_bert.study.grids import text_grid

    frame = audit(claims, _evidence(results, layout))
    headings, rows = audit_rows(frame, claims)
    return frame, [text_grid("Open choices", headings, rows, audit_notes(frame))]


def _finetuning(results: Results, layout: Layout, claims: object) -> Contents:
    plain, published = layout.part("plain"), _call("finetuning.published")
    frame = _call("finetuning.finetuning_table", results.runs, plain, published)
    return frame, _call("finetuning.finetuning_grids", frame, plain, results.runs)


def _multi_exit(results: Results, layout: Layout, claims: object) -> Contents:
    exits, timings = results.exits, results.timings
    frame = _call("multi_exit.multi_exit_table", exits, layout)
    return frame, _call("multi_exit.multi_exit_grids", frame, layout, exits, timings)


def _quality_speed(results: Results, layout: Layout, claims: object) -> Contents:
    frame = _call("quality_speed.quality_speed_table", results.curves, results.exits, layout)
    return frame, _call("quality_speed.quality_speed_grids", frame, layout)


def _gradients(results: Results, layout: Layout, claims: object) -> Contents:
    frame = _call("analyses.gradients.gradient_summary", results.gradients)
    return frame, _call("analyses.gradients.gradient_grids", frame, layout)


def _sensitivity(results: Results, layout: Layout, claims: object) -> Contents:
    frame = _call("analyses.sensitivity.sensitivity_table", results.runs, layout)
    return frame, _call("analyses.sensitivity.sensitivity_grids", frame, layout, results.runs)


def _draw_sensitivity(results: Results, layout: Layout) -> Figure:
    frame = _call("analyses.sensitivity.sensitivity_table", results.runs, layout)
    return _call("analyses.sensitivity.sensitivity_figure", frame, layout)


def _ablation(results: Results, layout: Layout, claims: object) -> Contents:
    frame = _call("analyses.ablation.ablation_table", results.exits, layout)
    return frame, _call("analyses.ablation.ablation_grids", frame, layout, results.exits)


def _draw_ablation(results: Results, layout: Layout) -> Figure:
    frame = _call("analyses.ablation.ablation_table", results.exits, layout)
    return _call("analyses.ablation.ablation_figure", frame, layout)


def _clusters(results: Results, layout: Layout, claims: object) -> Contents:
    frame = _call("analyses.clusters.clusters_table", results.clusters, layout)
    return frame, _call("analyses.clusters.clusters_grids", frame, layout)


EXHIBITS = (
    Exhibit(
        "finetuning",
        "Fine-tuning",
        "Fine-tuning",
        "methods with one exit and no teacher: mean ± sd over seeds in percent, beside the paper's "
        "and other published numbers; every seed",
        _runs_a("plain"),
        TableEntry(
            "Mean ± sd over seeds on dev, percent, of every task, encoder and metric and every "
            "method with one exit and no teacher, beside published numbers. Rows that are "
            "generated, or a part of the official ones, are marked.",
            _finetuning,
        ),
        FigureEntry(
            "Every seed on dev, percent, and each method's mean, of methods with one exit and no "
            "teacher. Degenerate runs are crosses.",
            lambda of, layout: _call("figures.finetuning_figure", of.runs, layout.part("plain")),
            ["runs.csv"],
        ),
    ),
    Exhibit(
        "multi_exit",
        "Exits",
        "Exits",
        "exits 3, 6, 9, 12 of 12 (2, 3, 5, 6 of 6), and the middle exit beside small models that "
        "end there; seconds of training, the teacher's included",
        _runs_a("multi_exit", "student"),
        TableEntry(
            "Dev scores of the exits at the four quarters of the depth, and of half-depth models: "
            "the exit in the middle of each multi-exit model beside students and static models "
            "that end there. Mean ± sd over seeds, and the seconds that training took, those of "
            "teachers included.",
            _multi_exit,
        ),
    ),
    Exhibit(
        "layer_scores",
        "Layer scores",
        "Exits",
        "every exit; the numbers are in `tables/layer_scores.csv`, which every study has",
        _runs_a("multi_exit", "student"),
        figure=FigureEntry(
            "Dev score of every exit: a line a method, a band over seeds; a student with one exit "
            "is a point.",
            lambda of, layout: _call(
                "exit_figures.layer_scores_figure", of.exits, layout.part("multi_exit", "student")
            ),
            ["exits.csv"],
        ),
    ),
    Exhibit(
        "quality_speed",
        "Early exit",
        "Early exiting",
        "early exiting: the score at 1.5, 2 and 3 times fewer layers, the area, the curves",
        _runs_a("multi_exit"),
        TableEntry(
            "What is left of the dev score when samples leave at the first exit that is sure "
            "enough: at three speed-ups (in layers), and the normalised area under score over the "
            "fraction of layers used.",
            _quality_speed,
        ),
        FigureEntry(
            "Dev score over speed-up (in layers) under early exiting, from the logits that every "
            "run left behind.",
            lambda of, layout: _call(
                "exit_figures.quality_speed_figure", of.curves, layout.part("multi_exit")
            ),
            ["early_exit.csv"],
        ),
    ),
    Exhibit(
        "gradients",
        "Gradients",
        "Analyses",
        "the angle between the gradients of CE and of the contrastive loss at every step",
        _runs_one_of(lambda layout: [*layout.observed.values()]),
        TableEntry(
            "The angle between the gradients of CE and of the contrastive loss at every training "
            "step, over the encoder and over the representation, and how often the two would "
            "decide differently.",
            _gradients,
        ),
        FigureEntry(
            "The angle between the gradients of CE and of the contrastive loss over training, at "
            "every step.",
            lambda of, layout: _call("analyses.gradients.gradients_figure", of.gradients, layout),
            ["gradients.csv"],
        ),
    ),
    Exhibit(
        "sensitivity",
        "λ and τ",
        "Analyses",
        "scores over λ and τ, under both forms of the objective",
        lambda layout: bool(layout.sensitivity),
        TableEntry(
            "Score over λ and τ under both forms, mean ± sd over seeds, and the spread over the "
            "values.",
            _sensitivity,
        ),
        FigureEntry(
            "Score against λ and against τ, under both forms; a band over seeds. Solid: the "
            "method's own form.",
            _draw_sensitivity,
            ["runs.csv"],
        ),
    ),
    Exhibit(
        "ablation",
        "Ablation",
        "Analyses",
        "each full method without one of its parts, or with PCGrad, GradVac or LaCon in its place",
        lambda layout: any(layout.ablation.values()),
        TableEntry(
            "Each full method beside those that lack a part of it or have another in its place, "
            "and the paired differences with their intervals.",
            _ablation,
        ),
        FigureEntry(
            "Full method minus each method without a part of it, paired by seed, with its "
            "interval.",
            _draw_ablation,
            ["exits.csv"],
        ),
    ),
    Exhibit(
        "clusters",
        "Representations",
        "Analyses",
        "how well classes separate at the first quarter's exit: silhouettes and t-SNE",
        _runs_one_of(lambda layout: layout.clusters),
        TableEntry(
            "How well classes separate at the first quarter's exit: silhouette over cosine "
            "distance, and the share of samples whose nearest label embedding is that of their own "
            "class.",
            _clusters,
        ),
        FigureEntry(
            "t-SNE of the representations at the first quarter's exit (one seed), label embeddings "
            "as large marks in their class's colour.",
            lambda of, layout: _call(
                "analyses.clusters.clusters_figure", of.clusters, of.tsne, layout
            ),
            ["clusters.csv", "tsne.csv"],
        ),
    ),
    Exhibit(
        "audit",
        "Audit",
        "Claims",
        "how each claim's number changes where an open choice is made otherwise",
        lambda layout: bool(layout.audit),
        TableEntry(
            "What the paper leaves open, decided otherwise one choice at a time: the effect on "
            "each claim's statistic, and whether the verdict would turn.",
            _audit,
        ),
    ),
    Exhibit(
        "claims",
        "Claims",
        "Claims",
        "the paper's claims, one by one, each with its verdict",
        lambda layout: True,
        TableEntry(
            "The paper's claims, one by one: each statistic with its interval (BCa bootstrap, "
            "stratified over tasks), the one-sided p by sign flips, Holm-adjusted over the claims "
            "tested together, the smallest effect that the design could have detected, and the "
            "verdict.",
            _claims,
        ),
    ),
)
