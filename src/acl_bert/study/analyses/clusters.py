"""How well classes separate at the first quarter's exit, in numbers and by t-SNE.

h and the label embeddings are L2-normalised first, as the contrastive losses see them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from acl_bert.errors import InputError
from acl_bert.files import write_csv
from acl_bert.runs.files import RunFolder, RunKey, runs_of
from acl_bert.study.grids import Grid, first_note, in_order, number_blocks
from acl_bert.study.layout import Layout
from acl_bert.study.panels import entry, in_rows, legend_below, mark_empty, panel_figure
from acl_bert.study.seeds import CONFIGURATION, RUN, over_seeds

CLUSTERS, TSNE_POINTS = "clusters.csv", "tsne.csv"

# One row a run. `silhouette`, by cosine distance, is from -1 to 1; `own_label_share` is the
# fraction of samples whose nearest label embedding, by cosine, is their own class's. Empty where
# undefined: a silhouette needs two classes, and fewer classes than samples.
CLUSTERS_COLUMNS = (*RUN, "exit", "depth", "silhouette", "own_label_share", "run_hash")
# One row a sample, and one a label embedding (`kind`), of the runs that are drawn.
TSNE_COLUMNS = (*RUN, "kind", "class", "x", "y")

READINGS = {"silhouette": "silhouette × 100", "own_label_share": "own label nearest (%)"}
CLUSTERS_TABLE_COLUMNS = [*CONFIGURATION, "exit", "depth", "reading", "n", "mean", "sd"]
RANDOM_STATE = 0
PERPLEXITY = 30.0  # scikit-learn's default; less where there are fewer than three times as many
SAMPLE, LABEL = "sample", "label"
STYLES: dict[str, dict[str, Any]] = {
    SAMPLE: {"s": 9, "alpha": 0.55, "linewidth": 0},
    LABEL: {"s": 230, "marker": "*", "edgecolor": "black", "zorder": 3},
}


def write_clusters(runs: Iterable[RunFolder], layout: Layout, folder: Path) -> None:
    """Write CLUSTERS and TSNE_POINTS to `folder`, of the runs of `layout.clusters` and
    their variants in the audit.

    The second holds, for each task and encoder, the runs of one seed: of those that most of the
    methods have, the smallest. Rows are ordered whatever the order of the runs. Raises InputError
    where a run has no readable metrics or representations.
    """
    read = runs_of(runs, layout.and_variants(layout.clusters))
    drawn = _drawn(key for key, _, _ in read if key[2] in layout.clusters)
    numbers: list[tuple[Any, ...]] = []
    points: list[tuple[Any, ...]] = []
    for key, metrics, run in read:
        exit, labels, h, embeddings = _read(run)
        separation = _silhouette(h, labels), _own_label_share(h, labels, embeddings)
        numbers.append((*key, exit, metrics["depth"], *separation, metrics["run_hash"]))
        if key in drawn:
            points += [(*key, *point) for point in _tsne(h, labels, embeddings)]
    write_csv(folder / CLUSTERS, CLUSTERS_COLUMNS, numbers)
    write_csv(folder / TSNE_POINTS, TSNE_COLUMNS, points)


def _drawn(runs: Iterable[RunKey]) -> set[RunKey]:
    table = pd.DataFrame(list(runs), columns=pd.Index(RUN))
    seeds = table.groupby(RUN[:2])["seed"].transform(lambda seeds: seeds.mode().min())
    return set(table[table["seed"] == seeds].itertuples(index=False, name=None))


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
    """Kind, class, x and y of each sample and label embedding, which are laid out together.

    There are none for fewer than four items, or equal ones: t-SNE needs neighbours.
    """
    from sklearn.manifold import TSNE  # slow to import
    from threadpoolctl import threadpool_limits

    items = np.concatenate([h, embeddings])
    if len(items) < 4 or np.ptp(items, axis=0).max() < 1e-6:
        return []
    tsne = TSNE(
        init="pca", perplexity=min(PERPLEXITY, (len(items) - 1) / 3), random_state=RANDOM_STATE
    )
    with threadpool_limits(1):  # points depend on the order of sums, which threads change
        points = tsne.fit_transform(items)
    kinds = [SAMPLE] * len(h) + [LABEL] * len(embeddings)
    classes = [*labels.tolist(), *range(len(embeddings))]
    return list(zip(kinds, classes, *points.T.tolist(), strict=True))


def clusters_table(clusters: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Statistics over seeds of both READINGS, times 100, in the layout's order.

    A configuration without a finished run has no rows, since its exit is not known.
    """
    key = CLUSTERS_TABLE_COLUMNS[:6]
    values = clusters.melt(key[:-1], list(READINGS), var_name="reading")
    known = values[values["method"].isin(layout.clusters)].drop_duplicates(key)
    keys = in_order(known, layout, "task", "encoder", "method")[key]
    return over_seeds(keys.itertuples(index=False, name=None), key, values, by=key)[
        CLUSTERS_TABLE_COLUMNS
    ]


def clusters_grids(table: pd.DataFrame, layout: Layout) -> list[Grid]:
    """A grid an encoder: rows are methods, a block a reading, columns tasks."""
    keys = [(*compared, reading) for reading in READINGS for compared in _compared(layout)]
    key = [*CONFIGURATION, "reading"]
    cells = pd.DataFrame(keys, columns=pd.Index(key)).merge(table, on=key, how="left")
    exits = cells.groupby(["encoder", "method"])[["exit", "depth"]].transform("first")
    cells = cells.assign(
        block=cells["reading"].map(READINGS),
        row=cells["method"].map(layout.methods) + [_exit(*each) for each in exits.to_numpy()],
        column=cells["task"],
    ).sort_values("method", key=lambda name: name.map(layout.clusters.index), kind="stable")
    grids = []
    for encoder, ours in in_order(cells, layout, "encoder").groupby("encoder", sort=False):
        tasks = [task for task in layout.tasks if ours["task"].eq(task).any()]
        grids.append(
            Grid(
                f"{encoder} ({layout.encoders[encoder]})",
                [layout.tasks[task].title for task in tasks],
                number_blocks(ours, tasks, len(layout.seeds)),
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


def _compared(layout: Layout) -> list[tuple[str, str, str]]:
    """The configurations that the study runs of the methods that are compared."""
    return [key for key in layout.in_order() if key[2] in layout.clusters]


def _exit(exit: float, depth: float) -> str:
    return "" if pd.isna(exit) else f", exit {exit:.0f} of {depth:.0f}"


def clusters_figure(clusters: pd.DataFrame, points: pd.DataFrame, layout: Layout) -> Figure:
    """A panel a task, encoder and method: its samples, and label embeddings as large marks.

    A panel's title has the numbers of the run that is drawn.
    """
    compared = _compared(layout)
    keys = [
        key if (key := (*group, method)) in compared else None
        for group in dict.fromkeys(each[:2] for each in compared)
        for method in layout.clusters
    ]
    drawn = points.drop_duplicates(RUN)[RUN].merge(clusters, on=RUN).set_index(CONFIGURATION)
    classes = sorted(points["class"].astype(int).unique())
    colours = dict(zip(classes, sns.color_palette("colorblind", len(classes)), strict=True))
    title, rows = layout.headline("t-SNE"), in_rows(keys, len(layout.clusters))
    with panel_figure(title, rows, 3.3, 3.6) as (figure, panels):
        for key, panel in panels.items():
            lines = [layout.tasks[key[0]].panel_title(key[1]), layout.methods[key[2]]]
            if key in drawn.index:
                run = drawn.loc[key]
                lines[1] += _exit(run["exit"], run["depth"])
                lines.append(_numbers(run))
            panel.set_title("\n".join(filter(None, lines)))
            ours = points[points[CONFIGURATION].eq(list(key)).all(axis=1)]
            for kind, some in ours.groupby("kind"):
                sns.scatterplot(
                    some,
                    x="x",
                    y="y",
                    hue="class",
                    palette=colours,
                    legend=False,
                    ax=panel,
                    **STYLES[kind],
                )
            panel.set(xticks=[], yticks=[], xlabel="", ylabel="")  # t-SNE's axes mean nothing
            panel.set_aspect("equal", adjustable="datalim")
            mark_empty(panel)
        handles = [
            entry(f"class {number}", linestyle="", marker="o", color=colour)
            for number, colour in colours.items()
        ]
        star = {"marker": "*", "markersize": 13, "color": "white", "markeredgecolor": "black"}
        legend_below(
            figure,
            [*handles, entry("label embedding", linestyle="", **star)],
            title="One seed; numbers: of the run that is drawn",
            ncols=6,
        )
    return figure


def _numbers(run: Any) -> str:
    numbers = []
    if pd.notna(run["silhouette"]):
        numbers.append(f"silhouette {run['silhouette']:.2f}")
    if pd.notna(run["own_label_share"]):
        numbers.append(f"own label {100 * run['own_label_share']:.0f} %")
    return ", ".join(numbers)
