"""The paper's claims with their verdicts, and the warning above all where there are none."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from acl_bert.study.claims.claims import Claim
from acl_bert.study.claims.ledger import HEADINGS, ledger_rows
from acl_bert.study.report.report import VERDICT_MARKS, Block, ClaimView, Files, Notes
from acl_bert.study.report.sections import Material
from acl_bert.study.report.sections.exhibits import table_files


def claim_views(ledger: pd.DataFrame, claims: Mapping[str, Claim]) -> list[ClaimView]:
    """A view a claim; its reasons are those of the statistics whose verdict it has."""
    words = [dict(zip(HEADINGS, row, strict=True)) for row in ledger_rows(ledger, claims)]
    columns = [name for name in HEADINGS if name not in ("claim", "verdict", "why")]
    views = []
    for name, claim in claims.items():
        rows = [number for number, one in enumerate(ledger["claim"]) if one == name]
        statistics = ledger.iloc[rows].to_dict("records")
        verdict = statistics[0]["verdict"]
        reasons = [each["reason"] for each in statistics if each["part_verdict"] == verdict]
        views.append(
            ClaimView(
                claim.title,
                verdict,
                " · ".join(dict.fromkeys(reasons)),
                columns,
                [[words[row][column] for column in columns] for row in rows],
                [
                    f"{each['short']}: {each['part_verdict']}. {each['reason']}"
                    for each in statistics
                ],
            )
        )
    return views


def claims(study: Material, views: Sequence[ClaimView]) -> list[Block]:
    if "claims" not in study.tables:
        return [Notes(["No claim was tested yet."])]
    counts = Counter(view.verdict for view in views)
    verdicts = (f"{counts[verdict]} {verdict}" for verdict in VERDICT_MARKS if counts[verdict])
    notes = dict.fromkeys(note for grid in study.tables["claims"].grids for note in grid.notes)
    return [
        Notes([f"Of {len(views)}: {', '.join(verdicts)}."]),
        Files(table_files(study, "claims")),
        *views,
        Notes(list(notes), listed=True),
    ]


def warning(study: Material, views: Sequence[ClaimView]) -> tuple[str | None, list[str]]:
    """What stands above all where data or claims are not the paper's, and the reasons."""
    counts = Counter(view.verdict for view in views)
    reasons = study.layout.notes()
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
