"""How well classes lie apart at the first quarter's exit, in numbers and as t-SNE shows it.

h and the label embeddings are L2-normalised first, as the contrastive losses see them.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from acl_bert.errors import InputError
from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, RunKey, runs_of
from acl_bert.study.grids import Block, Grid, Row, cell_of, cells_by, first_note, mark_best
from acl_bert.study.layout import Layout
from acl_bert.study.panels import NO_RUN, panel_groups

CLUSTERS, TSNE_POINTS = "clusters.csv", "tsne.csv"

RUN = ["task", "encoder", "method", "seed"]
# One row a run. `silhouette`, by cosine distance, is from -1 to 1; `own_label_share` is the
# fraction of samples whose nearest label embedding, by cosine, is their own class's. Empty where
# undefined: a silhouette needs two classes, and fewer classes than samples.
CLUSTERS_COLUMNS = (*RUN, "exit", "depth", "silhouette", "own_label_share", "run_hash")
# One row a sample, and one a label embedding (`kind`), of the runs that are drawn.
TSNE_COLUMNS = (*RUN, "kind", "class", "x", "y")

READINGS = {"silhouette": "silhouette × 100", "own_label_share": "own label nearest (%)"}
CLUSTERS_TABLE_COLUMNS = [
    "task",
    "encoder",
    "method",
    "exit",
    "depth",
    "reading",
    "n",
    "mean",
    "sd",
]
RANDOM_STATE = 0
PERPLEXITY = 30.0  # scikit-learn's default; less where there are fewer than three times as many
SAMPLE, LABEL = "sample", "label"


def write_clusters(runs: Iterable[RunFolder], layout: Layout, folder: Path) -> None:
    """Write CLUSTERS and TSNE_POINTS to `folder`, of the runs of `layout.clusters` and
    their variants in the audit.

    The second holds, for each task and encoder, the runs of one seed: of those that most of the
    methods have, the smallest. Rows are ordered whatever the order of the runs. Raises InputError
    where a run has no readable metrics or representations.
    """
    found = runs_of(runs, layout.and_variants(layout.clusters))
    drawn = _drawn(key for key, _, _ in found if key[2] in layout.clusters)
    numbers: list[tuple[Any, ...]] = []
    points: list[tuple[Any, ...]] = []
    for key, metrics, run in found:
        exit, labels, h, embeddings = _read(run)
        numbers.append(
            (
                *key,
                exit,
                metrics["depth"],
                _silhouette(h, labels),
                _own_label_share(h, labels, embeddings),
                metrics["run_hash"],
            )
        )
        if key in drawn:
            points += [(*key, *point) for point in _tsne(h, labels, embeddings)]
    write_csv(folder / CLUSTERS, CLUSTERS_COLUMNS, numbers)
    write_csv(folder / TSNE_POINTS, TSNE_COLUMNS, points)


def _drawn(runs: Iterable[RunKey]) -> set[RunKey]:
    by_place: dict[tuple[str, str], list[RunKey]] = {}
    for run in runs:
        by_place.setdefault(run[:2], []).append(run)
    drawn: set[RunKey] = set()
    for some in by_place.values():
        seeds = Counter(run[3] for run in some)
        seed = max(seeds, key=lambda seed: (seeds[seed], -seed))
        drawn |= {run for run in some if run[3] == seed}
    return drawn


def _read(run: RunFolder) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """The run's first exit that was kept, labels, and the unit vectors of h and the labels."""
    kept = run.representations()
    exit = min(kept.h)
    h, embeddings = kept.h[exit], kept.label_embeddings[exit]
    if not (np.isfinite(h).all() and np.isfinite(embeddings).all()):
        raise InputError(
            f"{run.path}: representations hold numbers that are not finite; run it again"
        )
    return exit, kept.labels, _units(h), _units(embeddings)


def _units(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)


def _silhouette(h: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import silhouette_score  # slow to import

    if not 2 <= len(np.unique(labels)) < len(labels):
        return None
    return float(silhouette_score(h, labels, metric="cosine"))


def _own_label_share(h: np.ndarray, labels: np.ndarray, embeddings: np.ndarray) -> float | None:
    return float(((h @ embeddings.T).argmax(axis=1) == labels).mean()) if len(labels) else None


def _tsne(
    h: np.ndarray, labels: np.ndarray, embeddings: np.ndarray
) -> list[tuple[str, int, float, float]]:
    """Kind, class and place of each sample and label embedding, laid out together.

    No places where there are fewer than four, or all are one: none has neighbours to lie by.
    """
    from sklearn.manifold import TSNE  # slow to import
    from threadpoolctl import threadpool_limits

    items = np.concatenate([h, embeddings])
    if len(items) < 4 or np.ptp(items, axis=0).max() < 1e-6:
        return []
    tsne = TSNE(
        init="pca", perplexity=min(PERPLEXITY, (len(items) - 1) / 3), random_state=RANDOM_STATE
    )
    with threadpool_limits(1):  # places depend on the order of sums, which threads change
        places = tsne.fit_transform(items)
    kinds = [SAMPLE] * len(h) + [LABEL] * len(embeddings)
    classes = [*labels.tolist(), *range(len(embeddings))]
    return [
        (kind, number, float(x), float(y))
        for kind, number, (x, y) in zip(kinds, classes, places.tolist(), strict=True)
    ]


def clusters_table(clusters: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Statistics over seeds of both READINGS, times 100, in the layout's order.

    Cells without a finished run have no rows, since their exit is not known.
    """
    key = ["task", "encoder", "method", "exit", "depth", "reading"]
    long = clusters.melt(key[:-1], list(READINGS), var_name="reading", value_name="value")
    cells = [
        (*cell, reading)
        for cell in layout.in_order()
        if cell[2] in layout.clusters
        for reading in READINGS
    ]
    wanted = pd.DataFrame(cells, columns=pd.Index(["task", "encoder", "method", "reading"]))
    percent = long.assign(percent=100 * long["value"]).groupby(key)["percent"]
    over_seeds = percent.agg(n="count", mean="mean", sd="std").reset_index()
    return wanted.merge(over_seeds, on=list(wanted))[CLUSTERS_TABLE_COLUMNS]


def clusters_grids(table: pd.DataFrame, layout: Layout) -> list[Grid]:
    """A grid an encoder: rows are methods, a block a reading, columns tasks."""
    lookup = cells_by(table, ["task", "encoder", "method", "reading"])
    models = cells_by(table.drop_duplicates(["encoder", "method"]), ["encoder", "method"])
    grids = []
    for encoder, path in layout.encoders.items():
        methods = _methods(layout, encoder)
        tasks = [task for task in layout.tasks if _methods(layout, encoder, task)]
        if not methods:
            continue
        blocks = []
        for reading, title in READINGS.items():
            rows = []
            for method in methods:
                cells = [
                    cell_of(lookup.get((task, encoder, method, reading)), layout) for task in tasks
                ]
                model = models.get((encoder, method))
                rows.append(Row(layout.methods[method] + _exit(model), cells))
            blocks.append(Block(mark_best(rows), title))
        grids.append(
            Grid(
                f"{encoder} ({path})",
                [layout.tasks[task].title for task in tasks],
                blocks,
                [
                    first_note(layout),
                    "Silhouette of the classes in h, L2-normalised, by cosine distance, times 100; "
                    "own label nearest: samples whose nearest label embedding, by cosine, is their "
                    "own class's.",
                    *layout.notes(*tasks),
                ],
            )
        )
    return grids


def _methods(layout: Layout, encoder: str, task: str | None = None) -> list[str]:
    return [name for name in layout.clusters if name in layout.methods_of(encoder, task)]


def _exit(run: Any) -> str:
    return "" if run is None else f", exit {run['exit']} of {run['depth']}"


def clusters_figure(clusters: pd.DataFrame, points: pd.DataFrame, layout: Layout) -> Figure:
    """A panel a task, encoder and method: its samples, and label embeddings as large marks.

    A panel's title has the numbers of the run that is drawn.
    """
    places = [
        (task, encoder)
        for task in layout.tasks
        for encoder in layout.encoders
        if _methods(layout, encoder, task)
    ]
    numbers = cells_by(clusters, RUN)
    with panel_groups(len(places), len(layout.clusters), 3.3, 3.6) as (figure, panels):
        for (task, encoder), group in zip(places, panels, strict=True):
            for panel, method in zip(group, layout.clusters, strict=True):
                mine = points[
                    (points["task"] == task)
                    & (points["encoder"] == encoder)
                    & (points["method"] == method)
                ]
                seed = mine["seed"].iloc[0] if len(mine) else None
                run = numbers.get((task, encoder, method, seed))
                lines = [
                    layout.tasks[task].panel_title(encoder),
                    layout.methods[method] + _exit(run),
                    _said(run),
                ]
                panel.set_title("\n".join(filter(None, lines)))
                panel.set_visible((task, encoder, method) in layout.cells)
                _draw(panel, mine)
        figure.suptitle(layout.headline("t-SNE"), weight="bold")
        figure.legend(
            handles=_legend(points),
            title="One seed; numbers: of the run that is drawn",
            loc="outside lower center",
            ncols=6,
            frameon=False,
        )
    return figure


def _said(run: Any) -> str:
    if run is None:
        return ""
    parts = []
    if pd.notna(run["silhouette"]):
        parts.append(f"silhouette {run['silhouette']:.2f}")
    if pd.notna(run["own_label_share"]):
        parts.append(f"own label {100 * run['own_label_share']:.0f} %")
    return ", ".join(parts)


def _draw(panel: Axes, points: pd.DataFrame) -> None:
    panel.set(xticks=[], yticks=[])  # t-SNE's axes mean nothing
    panel.set_aspect("equal", adjustable="datalim")
    for number, ours in points.groupby("class"):
        colour = _colour(int(number))
        samples, labels = (ours[ours["kind"] == kind] for kind in (SAMPLE, LABEL))
        panel.scatter(samples["x"], samples["y"], s=9, color=colour, alpha=0.55, linewidth=0)
        panel.scatter(
            labels["x"], labels["y"], s=230, marker="*", color=colour, edgecolor="black", zorder=3
        )
    if points.empty:
        panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)


def _colour(number: int) -> tuple[float, float, float]:
    return sns.color_palette("colorblind")[number % 10]


def _legend(points: pd.DataFrame) -> list[Line2D]:
    handles = [
        Line2D([], [], linestyle="", marker="o", color=_colour(number), label=f"class {number}")
        for number in sorted(set(points["class"].astype(int)))
    ]
    handles.append(
        Line2D(
            [],
            [],
            linestyle="",
            marker="*",
            markersize=13,
            color="white",
            markeredgecolor="black",
            label="label embedding",
        )
    )
    return handles
