"""What a study's report says, from the study's files: what ran, what is missing, the results.

A study may be half finished: what is there is shown, and the rest is named as missing.
"""

from collections.abc import Mapping, Sequence

from acl_bert.config.deviations import deviations
from acl_bert.study.claims.claims import Claim
from acl_bert.study.context import StudyContext
from acl_bert.study.report.paper import write_paper
from acl_bert.study.report.report import Notes, Report, Section, write_report
from acl_bert.study.report.runs import study_runs
from acl_bert.study.report.sections import Material
from acl_bert.study.report.sections.all_runs import Mirror, all_runs
from acl_bert.study.report.sections.choices import choices
from acl_bert.study.report.sections.claims import claim_views, claims, warning
from acl_bert.study.report.sections.exhibits import figures, tables
from acl_bert.study.report.sections.missing import missing
from acl_bert.study.report.sections.overview import overview
from acl_bert.study.report.sections.published import published
from acl_bert.study.tables import Table


def write_study_report(
    context: StudyContext,
    tables: Sequence[Table],
    claims: Mapping[str, Claim],
    mirror: Mirror,
) -> None:
    """Write `report.html` and the folder `paper/` from what lies in the study's folder now.

    `mirror` says how runs are looked up in MLflow, where the study is tracked.
    """
    runs = study_runs(context.folder, context.study.cells(), context.finished, context.left_out)
    by_name = {table.name: table for table in tables}
    study = Material(context.folder, context.layout, runs, by_name, claims)
    tracked = context.study.tracking.enabled
    report = study_report(study, deviations(context.study), mirror if tracked else None)
    write_report(report, context.folder / "report.html")
    write_paper(context.folder, context.layout)


def study_report(
    study: Material, deviations: Sequence[str], mirror: Mirror | None = None
) -> Report:
    """`deviations` are differences from the paper, as far as it is known, or the defaults."""
    ledger = study.tables.get("claims")
    views = claim_views(ledger.frame, study.claims) if ledger else []
    text, reasons = warning(study, views)
    results = study.tables.keys() - {"claims", "audit"}
    no_audit = "No open choice is tried otherwise in this study: there is no audit."
    no_deviation = Notes(["None that is known."])
    sections = [
        Section("ran", "What was run", overview(study)),
        Section("claims", "The paper's claims", claims(study, views)),
        Section("missing", "What is missing", missing(study)),
        Section("tables", "Tables", tables(study, results, otherwise="None yet.")),
        Section("figures", "Figures", figures(study)),
        Section("published", "Paper versus ours", published(study)),
        Section(
            "deviations",
            "Deviations from the paper",
            [Notes(deviations, listed=True) if deviations else no_deviation],
        ),
        Section("audit", "Audit of the open choices", tables(study, {"audit"}, no_audit)),
        Section("choices", "What the paper leaves open", choices(study)),
        Section("runs", "All runs", all_runs(study, mirror)),
    ]
    return Report(
        title=f"ACL, a reproduction: {study.layout.study}",
        summary="Aligned contrastive learning for BERT and multi-exit BERT (Li & Zhu, 2026, arXiv "
        f"2602.03563): {study.runs}.",
        sections=sections,
        warning=text,
        reasons=reasons,
    )
