"""A study's collected results with a known truth, for tests of what judges them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from acl_bert.study.analyses.clusters import CLUSTERS_COLUMNS, TSNE_COLUMNS
from acl_bert.study.analyses.gradients import GRADIENTS_COLUMNS, gradient_summary
from acl_bert.study.claims.claims import GLUE
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.collect import EXITS_COLUMNS, RUNS_COLUMNS, TIMINGS_COLUMNS
from acl_bert.study.curves import CURVES_COLUMNS
from acl_bert.study.layout import Layout, Point, TaskLayout, World
from acl_bert.study.results import Results

ENCODERS = {
    "bert": "google-bert/bert-base-uncased",
    "roberta": "FacebookAI/roberta-base",
    "tiny": "huawei-noah/TinyBERT_General_6L_768D",
    "distil": "distilbert/distilbert-base-uncased",
}
SINGLE = ("ce", "ce_scl", "acl_embed", "acl")
MULTI = (
    "jt",
    "two_stage",
    "alternating",
    "jt_scl",
    "acl_cl",
    "acl_cl_no_gate",
    "acl_cl_no_labels",
    "acl_cl_no_cross_layer",
)
LAMBDAS = (0.1, 0.5, 0.9)
FORMS = ("convex", "additive")
EXITS = (3, 6, 12)

# Method, exit → points above the task's level; (0 for exit: any). What is not named is at 0.
Truth = Mapping[tuple[str, int], float]
HOLDS: Truth = {
    ("acl_embed", 12): 1.0,
    ("acl", 12): 4.0,
    ("acl_cl", 3): 4.0,
    ("acl_cl", 6): 2.0,
    ("acl_cl", 12): 0.5,
    ("ce_scl@0.9", 12): -6.0,
}


def task_layout(name: str, **more: Any) -> TaskLayout:
    return TaskLayout(name.upper(), ("accuracy",), "accuracy", {"dev": ""}, **more)


def synthetic(
    truth: Truth = HOLDS,
    sds: Mapping[str, float] | None = None,
    gradients: tuple[float, float] = (88.0, 0.2),
    clusters: float = 0.2,
    tasks: Iterable[str] = GLUE,
    encoders: Mapping[str, str] = ENCODERS,
    seeds: Iterable[int] = range(1, 6),
    worlds: Iterable[World] = (),
    random_state: int = 0,
) -> Evidence:
    """Scores with a sd of 0.3 points over seeds (`sds`: by method), CE+SCL's of 1.5.

    `gradients` are the median angle and the share above 90°, `clusters` the gain of ACL-CL in
    silhouette and own-label share. A world's variants are methods like any other; that of CE+SCL
    observes as CE+SCL does.
    """
    draw = np.random.default_rng(random_state)
    sds = {"ce_scl": 1.5} if sds is None else sds
    worlds, seeds = tuple(worlds), tuple(seeds)
    points = tuple(
        Point(of, form, "lambda", value, f"{of}@{form},{value}")
        for of in ("acl", "ce_scl")
        for form in FORMS
        for value in LAMBDAS
    )
    variants = {name for world in worlds for name in world.methods.values()}
    methods = (*SINGLE, *MULTI, *(point.method for point in points), *sorted(variants))
    layout = Layout(
        study="synthetic",
        tasks={name: task_layout(name) for name in tasks},
        encoders=encoders,
        methods={name: name for name in methods},
        seeds=seeds,
        cells=frozenset(
            (task, encoder, method)
            for task in tasks
            for encoder in encoders
            for method in (methods if encoder == next(iter(encoders)) else ("ce", "acl_cl"))
        ),
        multi_exit=frozenset(name for name in methods if name.partition("@")[0] in MULTI),
        teachers={},
        sensitivity=points,
        audit=worlds,
        observed={"ce_scl": "ce_scl"},
    )
    exits, curves, angles, separation = [], [], [], []
    for cell in layout.in_order():
        _, encoder, method = cell
        depth = 6 if encoder in ("tiny", "distil") else 12
        several = method in layout.multi_exit
        of, _, changed = method.partition("@")
        for run in ((*cell, seed) for seed in seeds):
            for exit in EXITS if several else (depth,):
                level = 70 + truth.get((method, exit), 0)
                if "," in changed:  # a value of λ, under a form
                    level += truth.get((f"{of}@{changed.partition(',')[2]}", exit), 0)
                score = draw.normal(level, sds.get(method, 0.3)) / 100
                exits.append((*run, exit, depth, "accuracy", score, False, "hash"))
                own = draw.normal(0.5 + clusters * (of == "acl_cl"), 0.02, 2)
                separation.append((*run, exit, depth, *own, "hash"))
                if several:
                    speedup = depth / exit
                    curves.append((*run, "entropy", 0.5, exit, speedup, "accuracy", score, "hash"))
            if method in layout.observing:
                angles += [(*run, *step, "hash") for step in _steps(gradients, draw)]
    results = Results(
        runs=_frame([], RUNS_COLUMNS),
        exits=_frame(exits, EXITS_COLUMNS),
        curves=_frame(curves, CURVES_COLUMNS),
        timings=_frame([], TIMINGS_COLUMNS),
        gradients=_frame(angles, GRADIENTS_COLUMNS),
        clusters=_frame(separation, CLUSTERS_COLUMNS),
        tsne=_frame([], TSNE_COLUMNS),
    )
    return evidence_of(results, layout)


def evidence_of(results: Results, layout: Layout) -> Evidence:
    return Evidence(results, gradient_summary(results.gradients), results.clusters, layout)


def _frame(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _steps(
    gradients: tuple[float, float], draw: np.random.Generator
) -> Iterator[tuple[int, float, float, float]]:
    """Step, share of the training, angle over the encoder and over h.

    40 steps, of which the second half has the median, and of the others some are at 100°.
    """
    median, share = gradients
    shift, above = draw.normal(0, 0.5), round(draw.normal(20 * share, 1))
    for step in range(1, 41):
        angle = 100.0 if 20 < step <= 20 + above else median + shift
        yield step, step / 40, angle, 60.0


def where(evidence: Evidence, keep: Callable[[pd.DataFrame], Any], **layout: Any) -> Evidence:
    """The evidence without the runs that `keep` is not true of, and with the layout changed."""
    results = evidence.results
    kept = {
        name: (frame := getattr(results, name))[keep(frame)]
        for name in ("exits", "curves", "gradients", "clusters")
    }
    return evidence_of(replace(results, **kept), replace(evidence.layout, **layout))
