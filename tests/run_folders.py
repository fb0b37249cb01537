"""Writes runs whose every number is invented, for tests of what reads a study and its store."""

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from acl_bert.evaluation.depth import quarter_exits
from acl_bert.files import canonical_hash, write_csv, write_json
from acl_bert.runs.files import (
    CONFIG,
    EPOCHS,
    HISTORY,
    HISTORY_COLUMNS,
    LOGITS,
    METRICS,
    PREDICTIONS,
    REPRESENTATIONS,
    TIMINGS,
    epoch_columns,
    find_names,
    in_progress_path,
    name_path,
    prediction_columns,
    tuning_name_path,
    tuning_path,
)
from acl_bert.runs.store import MANIFEST, Store, write_manifest

if TYPE_CHECKING:
    from acl_bert.study.layout import Layout
    from acl_bert.study.results import Results


def invented_config(task: str, encoder: str, method: str, seed: int) -> dict[str, Any]:
    return {
        "task": task,
        "encoder": encoder,
        "method": {
            "title": method,
            "regime": "single_exit",
            "contrastive": "acl_embed",
            "lambda": 0.5,
        },
        "method_id": method,
        "seed": seed,
        "training": {"batch_size": 32, "note": "x" * 700},
    }


def history_row(step: int) -> list[Any]:
    return [step, 1, 1.0 / step, 0.5 / step, "", "", 80.0 + step, 85.0 + step, 1, 2e-5, 1.5, 640]


def invented_address(*determinants: Any) -> str:
    """Runs of which something else is said are other runs; the next session has the same."""
    digest = canonical_hash(repr(determinants))
    return f"{digest[:32]}-{digest[-8:]}"


def _name(
    study: Path, task: str, encoder: str, method: str, seed: int, weight: float | None
) -> Path:
    if weight is None:
        return name_path(study, task, encoder, method, seed)
    return tuning_name_path(tuning_path(study, task, encoder, method), weight, seed)


def start_run(
    study: Path,
    run_hash: str | None = None,
    task: str = "rte",
    encoder: str = "tiny",
    method: str = "acl",
    seed: int = 1,
    steps: int = 3,
    weight: float | None = None,
) -> Path:
    """A run in progress: settings and the first steps in the store, and for which run they are.

    `weight`: the λ that the run tries. What is said of it no further is as with `finish_run`.
    """
    cell = (task, encoder, method, seed)
    address = run_hash or invented_address(*cell, weight)
    folder = Store.beside(study).work(address)
    write_json(folder / CONFIG, invented_config(*cell))
    write_csv(folder / HISTORY, HISTORY_COLUMNS, map(history_row, range(1, steps + 1)))
    write_csv(folder / EPOCHS, epoch_columns(["accuracy"]), [])
    name = _name(study, *cell, weight).relative_to(study)
    write_json(in_progress_path(study, address), {"name": str(name)})
    return folder


def invented_metrics(
    task: str,
    encoder: str,
    method: str,
    seed: int,
    run_hash: str,
    exits: dict[int, dict[str, float]],
) -> dict[str, Any]:
    depth = max(exits)
    values = exits[depth]
    return {
        "task": task,
        "encoder": encoder,
        "method": method,
        "seed": seed,
        "run_hash": run_hash,
        "depth": depth,
        "metrics": values,
        "exits": {str(number): scores for number, scores in exits.items()},
        "selection": {"metric": next(iter(values)), "value": 0.75, "epoch": 2},
        "degenerate": False,
        "degenerate_exits": [],
        "gate": None,
        "data": {
            "fingerprint": "f" * 64,
            "rows": {"train": 90, "selection": 10, "dev": 20},
            "subset": False,
            "stand_in": None,
            "source": "generator",
        },
    }


def invented_logits(exits: int, rows: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Of one dev set: (rows, exits, 2), surer and more often right the deeper the exit; labels."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, rows)
    scores = draw.normal(2 * labels - 1, 1.5, (exits, rows)).T * np.linspace(1, 2, exits)
    # In C order, without which safetensors writes the numbers in another one.
    return np.stack([-scores, scores], axis=2).astype(np.float32, order="C"), labels


def invented_representations(exits: Collection[int], rows: int = 12) -> dict[str, np.ndarray]:
    """At the first quarter's exit and the last: two classes, h beside its own label embedding."""
    draw = np.random.default_rng(0)
    labels = np.arange(rows) % 2
    tensors = {"labels": labels}
    for exit in {quarter_exits(max(exits))[0], max(exits)} & set(exits):
        centres = draw.normal(size=(2, 4)).astype(np.float32)
        noise = 0.3 * draw.normal(size=(rows, 4)).astype(np.float32)
        tensors |= {f"h.{exit}": centres[labels] + noise, f"label_embeddings.{exit}": centres}
    return tensors


def finish_run(
    study: Path,
    run_hash: str | None = None,
    task: str = "rte",
    encoder: str = "tiny",
    method: str = "acl",
    seed: int = 1,
    values: dict[str, float] | None = None,
    exits: dict[int, dict[str, float]] | None = None,
    logits: dict[str, tuple[np.ndarray, np.ndarray]] | None = None,
    degenerate: bool = False,
    degenerate_exits: Collection[int] = (),
    steps: int = 3,
    started: str = "2026-01-01T00:00:00+00:00",
    seconds: float = 7.0,
    train_seconds: float = 5.0,
    weight: float | None = None,
) -> Path:
    """A finished run in the store beside the study, which names it; returns its folder.

    `values` are the metrics of a model of 6 layers with one exit, `exits` those of any; `logits`
    are each dev set's, (rows, exits, classes), and labels. `degenerate` is about the last exit,
    `degenerate_exits` about those before. `weight`: the λ that the run tries. Whoever changes the
    run's files then calls `name_run`.
    """
    cell = (task, encoder, method, seed)
    more = [x for x in (values, exits, logits, degenerate, degenerate_exits) if x]
    address = run_hash or invented_address(*cell, weight, *more)
    store = Store.beside(study)
    folder = store.run(address).path
    for old in (folder, store.work(address)):  # of this test
        shutil.rmtree(old, ignore_errors=True)
    write_json(folder / CONFIG, invented_config(*cell))
    write_csv(folder / HISTORY, HISTORY_COLUMNS, map(history_row, range(1, steps + 1)))
    write_csv(
        folder / EPOCHS, epoch_columns(["accuracy"]), [[1, 2, 0.9, 0.5], [2, steps, 0.8, 0.75]]
    )
    write_csv(folder / PREDICTIONS, prediction_columns(2), [["dev", 0, 1, 0, 0.5, -0.5]])
    write_json(
        folder / TIMINGS,
        {
            "commit": "c" * 40,
            "started": started,
            "ended": (datetime.fromisoformat(started) + timedelta(seconds=seconds)).isoformat(),
            "seconds": {
                "start": 1.0,
                "train": train_seconds,
                "selection": 0.5,
                "dev": 0.5,
                "total": seconds,
            },
            "steps": steps,
            "tokens": 1920,
            "tokens_per_second": 384.0,
            "device": "cpu",
            "precision": "float32",
            "threads": 1,
            "peak_memory_mib": 100.0,
            "versions": {"torch": "0"},
        },
    )
    exits = exits or {6: values or {"accuracy": 0.5 + seed / 100}}
    save_file(
        {
            f"{name}.{kind}": array
            for name, pair in (logits or {"dev": invented_logits(len(exits))}).items()
            for kind, array in zip(("logits", "labels"), pair, strict=True)
        },
        folder / LOGITS,
    )
    save_file(invented_representations(exits), folder / REPRESENTATIONS)
    metrics = invented_metrics(*cell, address, exits)
    flagged = sorted({*degenerate_exits, *([max(exits)] if degenerate else [])})
    write_json(
        folder / METRICS,
        metrics | {"degenerate": degenerate, "degenerate_exits": [str(exit) for exit in flagged]},
    )
    name_run(study, folder, *cell, weight)
    return folder


def name_run(
    study: Path,
    folder: Path,
    task: str = "rte",
    encoder: str = "tiny",
    method: str = "acl",
    seed: int = 1,
    weight: float | None = None,
) -> Path:
    """Let a study call a run of the store its own, as its files are now; returns the small file."""
    (folder / MANIFEST).unlink(missing_ok=True)
    write_manifest(folder)
    name = _name(study, task, encoder, method, seed, weight)
    write_json(name, Store.beside(study).name_of(folder.name))
    in_progress_path(study, folder.name).unlink(missing_ok=True)
    return name


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def history_line(step: int) -> str:
    return ",".join(map(str, history_row(step))) + "\n"


def write_task(
    study: Path,
    task: str,
    title: str,
    metrics: list[str],
    main_metric: str,
    dev_sets: dict[str, str] | None = None,
    stand_in: str | None = None,
    train_rows: int = 2490,
    official_rows: int = 2490,
) -> None:
    """`task.json` as preparing the data leaves it, with a tenth of train held out."""
    held_out = train_rows // 10
    split = {"source_rows": official_rows, "official_rows": official_rows}
    write_json(
        study / "data" / task / "task.json",
        {
            "task": task,
            "title": title,
            "texts": 1,
            "labels": ["no", "yes"],
            "metrics": metrics,
            "selection_metric": main_metric,
            "dev_sets": dev_sets or {"dev": ""},
            "source": "glue",
            "stand_in": stand_in,
            "subset": train_rows != official_rows,
            "splits": {
                "train": {"rows": train_rows - held_out, **split},
                "selection": {"rows": held_out, **split},
                **{
                    name: {"rows": 277, "source_rows": 277, "official_rows": 277}
                    for name in dev_sets or {"dev": ""}
                },
            },
            "fingerprint": "f" * 64,
        },
    )


def as_json(path: Path) -> Any:
    return json.loads(path.read_text())


def read_layout(
    study: Path,
    tasks: Mapping[str, str],
    encoders: Mapping[str, str],
    methods: Mapping[str, str],
    seeds: Iterable[int],
    cells: Iterable[tuple[str, str, str]],
    multi_exit: Iterable[str],
    teachers: Mapping[str, str],
    **more: Any,
) -> "Layout":
    """The layout of a study that has no config, and whose tasks (id → title) are prepared."""
    from acl_bert.study.layout import Layout, read_tasks

    return Layout(
        study.name,
        read_tasks(study, tasks),
        encoders,
        methods,
        tuple(seeds),
        frozenset(cells),
        frozenset(multi_exit),
        teachers,
        **more,
    )


def collect_results(study: Path, layout: "Layout") -> "Results":
    """What the study's finished runs come to, as the files in its folder say."""
    from acl_bert.study.analyses.clusters import write_clusters
    from acl_bert.study.analyses.gradients import write_gradients
    from acl_bert.study.collect import collect
    from acl_bert.study.curves import write_curves
    from acl_bert.study.results import read_results

    store = Store.beside(study)
    runs = [store.named(name) for name in find_names(study)]
    collect(runs, study)
    write_curves(runs, layout, study)
    write_gradients(runs, layout, study)
    write_clusters(runs, layout, study)
    return read_results(study, layout)
