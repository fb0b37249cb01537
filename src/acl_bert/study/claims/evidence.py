"""What a study measured, as claims ask for it: a quantity of a task, encoder, method and exit."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from acl_bert.evaluation.depth import exit_at
from acl_bert.study.layout import Layout
from acl_bert.study.quality_speed import AREA, run_readings
from acl_bert.study.results import Results
from acl_bert.study.seeds import CELL

RUN = [*CELL[:3], "seed"]


@dataclass(frozen=True)
class Quantity:
    """A number that a run has. `scale` turns it from how it was collected into its unit."""

    unit: str
    scale: float = 1.0
    by_exit: bool = False


QUANTITIES = {
    # The task's main metric, on its first dev set (MNLI: matched).
    "score": Quantity("points", 100, by_exit=True),
    # That metric's area under the quality-speed curve by entropy.
    "area": Quantity("points", 100),
    # Of the angle between the two gradients, over the encoder, in the second half of training.
    "median_angle": Quantity("degrees"),
    "share_above_90": Quantity("percent", 100),
    # Of the representations at an exit.
    "silhouette": Quantity("silhouette", by_exit=True),
    "own_label_share": Quantity("points", 100, by_exit=True),
}


@dataclass(frozen=True)
class Evidence:
    """What a study measured. `gradients` is a gradient_summary, `clusters` as it was collected."""

    results: Results
    gradients: pd.DataFrame
    clusters: pd.DataFrame
    layout: Layout

    def values(
        self, quantity: str, task: str, encoder: str, method: str, quarter: int
    ) -> dict[int, float]:
        """By seed, in the quantity's unit; a quantity of exits at a quarter of the run's depth."""
        kind = QUANTITIES[quantity]
        run = (task, encoder, method)
        exit = exit_at(self._depths.get(run, 0), quarter) if kind.by_exit else 0
        found = self._values.get((quantity, *run, exit), {})
        return {seed: kind.scale * value for seed, value in found.items()}

    @cached_property
    def _depths(self) -> dict[tuple[str, str, str], int]:
        frame = self.results.exits.drop_duplicates(CELL[:3])
        keys = frame[CELL[:3]].itertuples(index=False, name=None)
        return dict(zip(keys, map(int, frame["depth"]), strict=True))

    @cached_property
    def _values(self) -> dict[tuple[str, str, str, str, int], dict[int, float]]:
        """By quantity, task, encoder, method and exit (0 where it is of none), then by seed."""
        exits, curves = self._main(self.results.exits), self._main(self.results.curves)
        areas = run_readings(curves[curves["criterion"] == "entropy"], self.results.exits)
        angles, clusters = self.gradients, self.clusters
        half = angles[(angles["scope"] == "encoder") & (angles["half"] == "second")]
        # The pilot may have trained a method once more, to observe it.
        pilot = {observed: method for method, observed in self.layout.observed.items()}
        half = half.assign(method=half["method"].replace(pilot))
        found: dict[tuple[str, str, str, str, int], dict[int, float]] = {}
        for quantity, frame, column in (
            ("score", exits, "value"),
            ("area", areas[areas["reading"] == AREA], "value"),
            ("median_angle", half, "median_angle"),
            ("share_above_90", half, "share_above_90"),
            ("silhouette", clusters, "silhouette"),
            ("own_label_share", clusters, "own_label_share"),
        ):
            places = frame["exit"] if QUANTITIES[quantity].by_exit else 0
            rows = frame[RUN].assign(exit=places, value=frame[column]).dropna()
            for task, encoder, method, seed, exit, value in rows.itertuples(index=False, name=None):
                key = (quantity, task, encoder, method, int(exit))
                found.setdefault(key, {})[int(seed)] = float(value)
        return found

    def _main(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of each task's main metric on its first dev set."""
        metrics = {
            name: next(iter(task.main_metrics.values())) for name, task in self.layout.tasks.items()
        }
        return frame[frame["metric"] == frame["task"].map(metrics)]
