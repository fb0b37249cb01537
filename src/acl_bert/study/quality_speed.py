"""The table of early exiting: the score that remains at a speed-up, by method and criterion."""

from typing import Any

import pandas as pd

from acl_bert.evaluation.early_exit import CRITERIA, area_over_layers, score_at
from acl_bert.study.grids import Grid, first_note, in_order, metric_title, number_blocks
from acl_bert.study.layout import Layout
from acl_bert.study.seeds import RUN, over_seeds

SPEEDUPS = (1.5, 2.0, 3.0)
AREA = "area"
# Their titles in the printed table.
READINGS = {**{f"at_{speedup:g}": f"{speedup:g}×" for speedup in SPEEDUPS}, AREA: AREA}
KEY = ["task", "encoder", "method", "criterion", "metric", "reading"]
QUALITY_SPEED_COLUMNS = [*KEY, "n", "mean", "sd"]


def quality_speed_table(curves: pd.DataFrame, exits: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The score at each of SPEEDUPS and the normalised area, over seeds, in percent.

    A row each (task, encoder, method, criterion, metric, reading), of multi-exit methods and main
    metrics, in the layout's order. `n` counts the seeds whose curve reaches the speed-up: one that
    does not has no score there.
    """
    keys = [
        (*configuration, criterion, metric, reading)
        for configuration in layout.part("multi_exit").in_order()
        for criterion in CRITERIA
        for metric in layout.tasks[configuration[0]].main_metrics.values()
        for reading in READINGS
    ]
    return over_seeds(keys, KEY, run_readings(curves, exits), by=KEY)[QUALITY_SPEED_COLUMNS]


def run_readings(curves: pd.DataFrame, exits: pd.DataFrame) -> pd.DataFrame:
    """READINGS of every run, criterion and dev set: KEY, `seed` and `value`, a fraction.

    The value is missing where the run's curve does not reach the speed-up.
    """
    depths = exits.groupby(RUN)["depth"].first()
    rows: list[tuple[Any, ...]] = []
    for key, curve in curves.groupby([*RUN, "criterion", "metric"], sort=False):
        speedups, scores = curve["speedup"].to_numpy(), curve["value"].to_numpy()
        for reading, speedup in zip(READINGS, SPEEDUPS, strict=False):
            rows.append((*key, reading, score_at(speedups, scores, speedup)))
        smallest = 1 / int(depths[key[:4]])  # of the layers, that the first exit needs
        rows.append((*key, AREA, area_over_layers(speedups, scores, smallest)))
    columns = [*RUN, "criterion", "metric", "reading", "value"]
    return pd.DataFrame(rows, columns=pd.Index(columns)).astype({"value": float})


def quality_speed_grids(table: pd.DataFrame, layout: Layout) -> list[Grid]:
    """A grid an encoder, task and criterion: rows are methods, a block a dev set."""
    multi = layout.part("multi_exit")
    cells = in_order(table, multi, "encoder", "task").assign(
        block=table["metric"].map(metric_title),
        row=table["method"].map(multi.methods),
        column=table["reading"],
    )
    return [
        Grid(
            f"{multi.tasks[task].title}: {encoder} ({multi.encoders[encoder]}), "
            f"{criterion.replace('_', ' ')}",
            list(READINGS.values()),
            number_blocks(ours, list(READINGS), len(multi.seeds)),
            [
                first_note(multi),
                *multi.notes(task),
                "At a speed-up (in layers): each seed's curve, interpolated linearly between "
                "thresholds; n counts the seeds whose curve gets there, where not all do.",
                "Area: the mean score over the fraction of layers used, from the first exit's to "
                "all of them.",
            ],
        )
        for (encoder, task, criterion), ours in cells.groupby(
            ["encoder", "task", "criterion"], sort=False
        )
    ]
