"""clusters.csv and tsne.csv, and the table and figure of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_folders import finish_run, read_layout, write_task
from safetensors.numpy import save_file

from acl_bert.errors import InputError
from acl_bert.runs.files import REPRESENTATIONS, RunFolder
from acl_bert.study.analyses.clusters import (
    CLUSTERS,
    CLUSTERS_COLUMNS,
    TSNE_COLUMNS,
    TSNE_POINTS,
    clusters_figure,
    clusters_grids,
    clusters_table,
    write_clusters,
)
from acl_bert.study.grids import markdown
from acl_bert.study.layout import Layout

METHODS = {"ce": "CE", "jt_scl": "JT+SCL", "acl_cl": "ACL-CL"}
MULTI = ("jt_scl", "acl_cl")
TASKS = {"mrpc": "MRPC", "rte": "RTE"}


def layout_of(study: Path, seeds: tuple[int, ...] = (1, 2)) -> Layout:
    for task, title in TASKS.items():
        write_task(study, task, title, ["accuracy"], "accuracy", stand_in="generated rows")
    cells = [("rte", "tiny", method) for method in METHODS] + [("mrpc", "tiny", "jt_scl")]
    return read_layout(
        study, TASKS, {"tiny": "x"}, METHODS, seeds, cells, MULTI, {}, clusters=MULTI
    )


# Two classes a right angle apart; no length must count. Every distance within a class is
# 0, between them 1. The last exit has other vectors.
LABELS = np.array([0, 0, 1, 1])
H = np.array([[1, 0], [9, 0], [0, 1], [0, 9]], dtype=np.float32)
OWN = np.array([[5, 1], [30, 150]], dtype=np.float32)


def finish(
    study: Path,
    method: str,
    seed: int,
    h: np.ndarray = H,
    labels: np.ndarray = LABELS,
    embeddings: np.ndarray = OWN,
) -> Path:
    exits = range(1, 13) if method in MULTI else [12]
    folder = finish_run(
        study, method=method, seed=seed, exits={exit: {"accuracy": 0.5} for exit in exits}
    )
    tensors = {"labels": labels}
    for exit, sign in ((3, 1), (12, -1)):
        tensors |= {f"h.{exit}": sign * h, f"label_embeddings.{exit}": embeddings}
    save_file(tensors, folder / REPRESENTATIONS)
    return folder


def test_every_run_has_its_numbers_at_the_first_quarters_exit(tmp_path: Path) -> None:
    crossed = np.array([[1, 0], [0, 1], [9, 0], [0, 9]], dtype=np.float32)
    folders = [
        finish(tmp_path, "acl_cl", 2, h=crossed),
        finish(tmp_path, "ce", 1),
        finish(tmp_path, "acl_cl", 1),
        finish(tmp_path, "jt_scl", 1, embeddings=OWN[::-1].copy()),
    ]
    write_clusters(map(RunFolder, folders), layout_of(tmp_path), tmp_path)
    table = pd.read_csv(tmp_path / CLUSTERS)
    assert ",".join(table.columns) == (
        "task,encoder,method,seed,exit,depth,silhouette,own_label_share,run_hash"
    )
    assert list(table[["method", "seed"]].itertuples(index=False, name=None)) == [
        ("acl_cl", 1),
        ("acl_cl", 2),
        ("jt_scl", 1),
    ]
    assert table["exit"].eq(3).all() and table["depth"].eq(12).all()
    # Crossed: within a class 1, to the other class (0 + 1) / 2.
    assert table["silhouette"].tolist() == pytest.approx([1, -0.5, 1])
    assert table["own_label_share"].tolist() == [1, 0.5, 0]


def test_samples_and_label_embeddings_of_one_seed_have_places(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    folders = [finish(tmp_path, *run) for run in (("acl_cl", 1), ("acl_cl", 2), ("jt_scl", 2))]
    write_clusters(map(RunFolder, folders), layout, tmp_path)
    points = pd.read_csv(tmp_path / TSNE_POINTS)
    assert ",".join(points.columns) == "task,encoder,method,seed,kind,class,x,y"
    assert points["seed"].eq(2).all()  # that both methods have
    some = points[points["method"] == "acl_cl"]
    assert list(some[["kind", "class"]].itertuples(index=False, name=None)) == [
        *(("sample", label) for label in LABELS),
        ("label", 0),
        ("label", 1),
    ]
    assert np.isfinite(points[["x", "y"]].to_numpy()).all()
    first = (tmp_path / TSNE_POINTS).read_bytes()
    write_clusters(map(RunFolder, reversed(folders)), layout, tmp_path)
    assert (tmp_path / TSNE_POINTS).read_bytes() == first


def test_label_embeddings_lie_among_their_class(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    labels = np.arange(80) % 2
    centres = draw.normal(size=(2, 16)).astype(np.float32)
    h = centres[labels] + 0.2 * draw.normal(size=(80, 16)).astype(np.float32)
    folder = finish(tmp_path, "acl_cl", 1, h=h, labels=labels, embeddings=100 * centres)
    write_clusters(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)
    points = pd.read_csv(tmp_path / TSNE_POINTS)
    means = points[points["kind"] == "sample"].groupby("class")[["x", "y"]].mean()
    for row in points[points["kind"] == "label"].to_dict("records"):
        distances = ((means - [row["x"], row["y"]]) ** 2).sum(axis=1)
        assert distances.idxmin() == row["class"]


@pytest.mark.parametrize(
    ("labels", "silhouette"), [([0, 0, 0, 0], None), ([0, 1, 2, 3], None), ([0, 0, 0, 1], 0.0)]
)
def test_an_undefined_silhouette_is_an_empty_cell(
    tmp_path: Path, labels: list[int], silhouette: float | None
) -> None:
    embeddings = np.eye(4, 2, dtype=np.float32)
    folder = finish(tmp_path, "jt_scl", 1, labels=np.array(labels), embeddings=embeddings)
    layout = layout_of(tmp_path)
    write_clusters(map(RunFolder, [folder]), layout, tmp_path)
    clusters = pd.read_csv(tmp_path / CLUSTERS)
    assert clusters["silhouette"].isna().all() == (silhouette is None)
    table = clusters_table(clusters, layout)
    figure = clusters_figure(clusters, pd.read_csv(tmp_path / TSNE_POINTS), layout)
    assert ("silhouette" in figure.axes[2].get_title()) == (silhouette is not None)
    assert table["n"].tolist() == [int(silhouette is not None), 1]


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_samples_are_no_crash(tmp_path: Path, rows: int) -> None:
    folder = finish(tmp_path, "jt_scl", 1, h=H[:rows], labels=LABELS[:rows])
    write_clusters(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)
    (row,) = pd.read_csv(tmp_path / CLUSTERS, dtype=str, keep_default_na=False).to_dict("records")
    assert (row["silhouette"], row["own_label_share"]) == ("", "1.0" if rows else "")
    assert pd.read_csv(tmp_path / TSNE_POINTS).empty


def test_collapsed_vectors_are_no_crash(tmp_path: Path) -> None:
    folder = finish(tmp_path, "jt_scl", 1, h=np.zeros_like(H))
    write_clusters(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)
    (row,) = pd.read_csv(tmp_path / CLUSTERS).to_dict("records")
    assert row["silhouette"] == 0


def test_a_run_without_representations_is_to_be_repeated(tmp_path: Path) -> None:
    folder = finish(tmp_path, "jt_scl", 1)
    (folder / REPRESENTATIONS).unlink()
    with pytest.raises(
        InputError, match=rf"{folder.name}/representations\.safetensors.*run it again"
    ):
        write_clusters(map(RunFolder, [folder]), layout_of(tmp_path), tmp_path)
    broken = finish(tmp_path, "jt_scl", 2, h=np.full_like(H, np.nan))
    with pytest.raises(InputError, match=rf"{broken.name}.*not finite; run it again"):
        write_clusters(map(RunFolder, [broken]), layout_of(tmp_path), tmp_path)


def invented() -> pd.DataFrame:
    rows = [
        ("rte", "tiny", "jt_scl", 1, 3, 12, 0.1, 0.5, "h"),
        ("rte", "tiny", "jt_scl", 2, 3, 12, 0.3, 0.6, "h"),
        ("rte", "tiny", "acl_cl", 1, 3, 12, 0.5, 0.9, "h"),
    ]
    return pd.DataFrame(rows, columns=pd.Index(CLUSTERS_COLUMNS))


def test_the_grid_has_means_over_seeds(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    table = clusters_table(invented(), layout)
    assert ",".join(table.columns) == "task,encoder,method,exit,depth,reading,n,mean,sd"
    (grid,) = clusters_grids(table, layout)
    lines = markdown("Clusters", [grid]).splitlines()
    start = lines.index("## tiny (x)")
    assert lines[start + 2 : start + 10] == [
        "| method | MRPC | RTE |",
        "| --- | ---: | ---: |",
        "| *silhouette × 100* |  |  |",
        "| JT+SCL, exit 3 of 12 | – | 20.0 ± 14.1 |",
        "| ACL-CL, exit 3 of 12 | – | **50.0 (n=1)** |",
        "| *own label nearest (%)* |  |  |",
        "| JT+SCL, exit 3 of 12 | – | 55.0 ± 7.1 |",
        "| ACL-CL, exit 3 of 12 | – | **90.0 (n=1)** |",
    ]
    assert "- MRPC, RTE: generated rows." in lines


def test_methods_lie_side_by_side(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    rows = [("rte", "tiny", "acl_cl", 1, "sample", n % 2, float(n), -float(n)) for n in range(6)]
    rows += [("rte", "tiny", "acl_cl", 1, "label", k, 10.0 + k, 0.0) for k in (0, 1)]
    points = pd.DataFrame(rows, columns=pd.Index(TSNE_COLUMNS))
    figure = clusters_figure(invented(), points, layout)
    assert "generated rows" in figure.get_suptitle()
    mrpc, unplanned, without, panel = figure.axes
    assert not unplanned.get_visible()
    for empty, title in ((mrpc, "MRPC · tiny"), (without, "RTE · tiny")):
        assert empty.get_title() == f"{title}\nJT+SCL"
        assert [text.get_text() for text in empty.texts] == ["no finished run"]
    assert panel.get_title() == (
        "RTE · tiny\nACL-CL, exit 3 of 12\nsilhouette 0.50, own label 90 %"
    )
    labels, samples = panel.collections
    assert len(samples.get_offsets()) == 6
    assert np.asarray(labels.get_offsets()).tolist() == [[10, 0], [11, 0]]
    colours = samples.get_facecolor()[:, :3]  # of classes 0, 1, 0, ...
    assert (labels.get_facecolor()[:, :3] == colours[:2]).all()
    assert (colours[0] == colours[2]).all() and (colours[0] != colours[1]).any()
    assert labels.get_sizes()[0] > 10 * samples.get_sizes()[0]


def test_a_study_without_such_runs_has_empty_files(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    write_clusters(map(RunFolder, [finish(tmp_path, "ce", 1)]), layout, tmp_path)
    clusters, points = (pd.read_csv(tmp_path / name) for name in (CLUSTERS, TSNE_POINTS))
    assert clusters.empty and points.empty
    text = markdown("", clusters_grids(clusters_table(clusters, layout), layout))
    assert "| ACL-CL | – | – |" in text
    figure = clusters_figure(clusters, points, layout)
    assert [text.get_text() for text in figure.axes[3].texts] == ["no finished run"]
