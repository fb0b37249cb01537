"""Verbs that turn finished runs into tables, figures and the report."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from acl_bert.cli.verbs import STUDY, Verb, context_of, make_command, option
from acl_bert.errors import InputError

if TYPE_CHECKING:
    from acl_bert.study.report.sections.all_runs import Mirror


def collect(args: Namespace) -> None:
    from acl_bert.study.collect import collect

    context = context_of(args)
    collect(context.runs(complete=args.complete), context.folder)


def sweep(args: Namespace) -> None:
    from acl_bert.study.curves import write_curves

    context = context_of(args)
    write_curves(context.runs(complete=args.complete), context.layout, context.folder)


def gradients(args: Namespace) -> None:
    from acl_bert.study.analyses.gradients import write_gradients

    context = context_of(args)
    runs = context.runs(context.layout.observing, args.complete)
    write_gradients(runs, context.layout, context.folder)


def clusters(args: Namespace) -> None:
    from acl_bert.study.analyses.clusters import write_clusters

    context = context_of(args)
    runs = context.runs(context.layout.clustered, args.complete)
    write_clusters(runs, context.layout, context.folder)


def submissions(args: Namespace) -> None:
    from acl_bert.study.submission import write_submissions

    context = context_of(args)
    runs, specs = context.runs(complete=args.complete), context.study.task_specs
    write_submissions(runs, context.layout, specs, context.folder)


def tables(args: Namespace) -> None:
    from acl_bert.study.claims.claims import load_claims
    from acl_bert.study.tables import study_tables, write_tables

    context = context_of(args)
    results, layout = context.results, context.layout
    made = study_tables(results, layout, load_claims(args.claims))
    write_tables(made, results, layout, context.folder / "tables")


def figures(args: Namespace) -> None:
    from acl_bert.study.figures import write_figures

    context = context_of(args)
    write_figures(context.results, context.layout, context.folder / "figures")


def report(args: Namespace) -> None:
    from acl_bert.study.claims.claims import load_claims
    from acl_bert.study.report.assemble import write_study_report
    from acl_bert.study.tables import study_tables

    context, claims = context_of(args), load_claims(args.claims)
    made = study_tables(context.results, context.layout, claims)
    write_study_report(context, made, claims, _mirror(args))


def analyse(args: Namespace) -> None:
    from acl_bert.study.analyse import analyse

    analyse(context_of(args), args.claims, _mirror(args))
    where(args)


def _mirror(args: Namespace) -> Mirror:
    from acl_bert.study.report.sections.all_runs import Mirror
    from acl_bert.tracking.browsing import RUN_HASH

    return Mirror(RUN_HASH, make_command("ui", args.config))


def where(args: Namespace) -> None:
    folder = context_of(args).folder
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; run the study first")
    for path in sorted([*folder.glob("tables/*"), *folder.glob("figures/*")]):
        print(path)
    print(f"All runs: {folder / 'runs.csv'}; in MLflow: {make_command('ui', args.config)}")
    print(f"The report: {folder / 'report.html'}")


GATHERING = (
    *STUDY,
    option("--complete", "Fail where one of the study's runs is missing.", action="store_true"),
)
JUDGING = (
    *STUDY,
    option(
        "--claims",
        "The file with the paper's claims.",
        type=Path,
        default=Path("config", "claims.yaml"),
    ),
)

VERBS = (
    Verb(collect, "Collect runs.csv, exits.csv and timings.csv from the runs.", GATHERING),
    Verb(sweep, "Write early_exit.csv: what early exiting saves and costs.", GATHERING),
    Verb(gradients, "Write gradients.csv: the angle between two gradients, by step.", GATHERING),
    Verb(clusters, "Write clusters.csv and tsne.csv: how well classes separate.", GATHERING),
    Verb(submissions, "Write the files that GLUE's server takes.", GATHERING),
    Verb(tables, "Write the tables from the collected files.", JUDGING),
    Verb(figures, "Draw the figures from the collected files.", STUDY),
    Verb(report, "Write the report and the folder for a paper.", JUDGING),
    Verb(analyse, "Analyse the finished runs: collected files, tables, figures, report.", JUDGING),
    Verb(where, "Say where the tables, figures and the report are.", STUDY),
)
