"""What determines the numbers of one run."""

from typing import Any

from acl_bert.config.base import Section, Seed
from acl_bert.config.method import Method
from acl_bert.config.training import Training


class RunSettings(Section):
    """All that determines a run, except the data and the encoder's weights.

    `device` and `precision` may still be auto; training resolves them first.
    """

    task: str
    encoder: str
    method_id: str
    seed: Seed
    selection_metric: str
    method: Method
    training: Training
    train_rows: int | None = None
    """Trained on a stratified sample of so many train rows, where there are more."""

    def rows_of(self, train: int) -> int:
        """How many of so many train rows are trained on."""
        return train if self.train_rows is None else min(train, self.train_rows)

    def determinants(self) -> dict[str, Any]:
        """What changes the run's numbers, except the rows, the encoder and the teacher.

        Without the names that a study gives, and without the method's keys that are in `training`.
        """
        keys = self.model_dump(by_alias=True, exclude={"task", "encoder", "method_id"})
        for key in ("title", "training", "epochs_factor"):
            del keys["method"][key]
        keys["method"]["teacher"] = self.method.teacher is not None
        return keys
