"""The sections of a study's report, a file each, and what they are made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl_bert.study.claims.claims import Claim
from acl_bert.study.layout import Layout
from acl_bert.study.report.runs import StudyRuns
from acl_bert.study.tables import Table


@dataclass(frozen=True)
class Material:
    """`tables` are those that the study has, by name."""

    folder: Path
    layout: Layout
    runs: StudyRuns
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]

    def names(self, configuration: Sequence[Any]) -> list[str]:
        """Titles of a run's method and task, and its encoder; the method first: it tells most."""
        task, encoder, method = configuration[:3]
        return [self.layout.methods[method], self.layout.tasks[task].title, encoder]
