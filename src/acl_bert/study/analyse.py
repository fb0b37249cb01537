"""From a study's finished runs to its tables, figures and report, at once."""

from pathlib import Path

from acl_bert.config.study import write_study
from acl_bert.study.analyses.clusters import write_clusters
from acl_bert.study.analyses.gradients import write_gradients
from acl_bert.study.claims.claims import load_claims
from acl_bert.study.collect import collect
from acl_bert.study.context import StudyContext
from acl_bert.study.curves import write_curves
from acl_bert.study.figures import write_figures
from acl_bert.study.report.assemble import write_study_report
from acl_bert.study.report.sections.all_runs import Mirror
from acl_bert.study.tables import study_tables, write_tables


def analyse(context: StudyContext, claims_file: Path, mirror: Mirror) -> None:
    """Analyse the runs that are there; the report names those that are missing or left out."""
    claims = load_claims(claims_file)  # before anything is written
    folder, layout, runs = context.folder, context.layout, context.runs()
    write_study(context.study, folder / "config.yaml")
    collect(runs, folder)
    write_curves(runs, layout, folder)
    write_gradients(runs, layout, folder)
    write_clusters(runs, layout, folder)
    # The intervals of the claims take a while: tables are computed once, for their files and the
    # report.
    tables = study_tables(context.results, layout, claims)
    write_tables(tables, context.results, layout, folder / "tables")
    write_figures(context.results, layout, folder / "figures")
    write_study_report(context, tables, claims, mirror)
