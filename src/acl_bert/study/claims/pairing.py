"""The runs that a part of a claim compares, paired by task and seed, and those that it lacks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from acl_bert.study.claims.claims import Part
from acl_bert.study.claims.evidence import Evidence
from acl_bert.study.claims.statistics import Pairs
from acl_bert.study.layout import Layout

# Of one side at one point: method, encoder's hub id, quarter of the depth.
Place = tuple[str, str, int]


@dataclass(frozen=True)
class Paired:
    """The complete pairs: task → seed → (sides, points), ours first, then each baseline's.

    `missing` are runs that the part is about and that are not there, `fewer` the tasks with fewer
    seeds than the study has, `stand_ins` what keeps the scores from being on the paper.
    """

    scores: Mapping[str, Mapping[int, np.ndarray]]
    missing: tuple[str, ...] = ()
    fewer: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()

    @property
    def tasks(self) -> list[Pairs]:
        tasks = []
        for seeds in self.scores.values():
            scores = np.stack(list(seeds.values()))
            theirs = scores[:, 1:] if scores.shape[1] > 1 else np.zeros_like(scores)
            tasks.append(Pairs(scores[:, 0], theirs))
        return tasks

    @property
    def seeds(self) -> list[int]:
        """How many each task has."""
        return [len(seeds) for seeds in self.scores.values()]

    def shared_with(self, other: "Paired") -> "Paired":
        """The tasks and seeds that both have."""
        shared = {
            task: {seed: seeds[seed] for seed in seeds if seed in other.scores[task]}
            for task, seeds in self.scores.items()
            if task in other.scores
        }
        return replace(self, scores={task: seeds for task, seeds in shared.items() if seeds})


def encoder_choices(part: Part, layout: Layout) -> list[dict[str, str]]:
    """Hub id → the study's encoder: the paper's, as far as it has them, then others.

    Any encoder can stand in where a part needs one, and none where it compares several.
    """
    paper: dict[str, str] = {}
    for hub_id in part.encoders:
        for name, path in layout.encoders.items():
            if _is(path, hub_id):
                paper.setdefault(hub_id, name)
    if len(part.encoders) > 1:
        return [paper]
    others = [{part.encoder: name} for name in layout.encoders if name not in paper.values()]
    return [paper, *others] if paper else others


def _is(path: str, hub_id: str) -> bool:
    """Whether a path is of the model on the hub, by its id or by the old one, without an owner."""
    return path in (hub_id, hub_id.partition("/")[2])


def pair(part: Part, evidence: Evidence) -> Paired:
    """What the part compares, with the paper's encoder, else the first one that has such runs.

    Another one stands in only where the study has not the paper's.
    """
    choices = encoder_choices(part, evidence.layout)
    if any(_is(path, part.encoder) for path in evidence.layout.encoders.values()):
        choices = choices[:1]
    tried = [pair_with(part, evidence, encoders, {}) for encoders in choices]
    return next((paired for paired in tried if paired.scores), tried[0])


def pair_with(
    part: Part, evidence: Evidence, encoders: Mapping[str, str], methods: Mapping[str, str]
) -> Paired:
    """What the part compares, with these encoders, and `methods` (id → id) in others' places.

    It does so on its tasks; on all that the study has, where it has none of those.
    """
    layout = evidence.layout
    if without := [hub_id for hub_id in part.encoders if hub_id not in encoders]:
        return Paired({}, (f"no encoder {', '.join(without)}",))
    sides = _sides(part, layout, methods)
    if not all(sides):
        return Paired({}, (f"no two λ that both sides were run with, {part.combination}",))
    scores: dict[str, dict[int, np.ndarray]] = {}
    absent: dict[str, list[str]] = {}  # what has no runs → on which tasks
    fewer = []
    for task in [task for task in part.tasks if task in layout.tasks] or list(layout.tasks):
        title = layout.tasks[task].title
        found = [
            [
                evidence.values(part.quantity, task, encoders[encoder], method, quarter)
                for method, encoder, quarter in side
            ]
            for side in sides
        ]
        seeds = set.intersection(*(set(values) for side in found for values in side))
        if seeds:
            scores[task] = {
                seed: np.array([[values[seed] for values in side] for side in found])
                for seed in sorted(seeds)
            }
            if len(seeds) < len(layout.seeds):
                fewer.append(f"{title}: {len(seeds)} of {len(layout.seeds)} seeds")
            continue
        lacking = [
            f"{layout.methods.get(method, method)} with {encoders[encoder]}"
            for side, of_side in zip(sides, found, strict=True)
            for (method, encoder, _), values in zip(side, of_side, strict=True)
            if not values
        ]
        for what in dict.fromkeys(lacking or ["one seed of all methods"]):
            absent.setdefault(what, []).append(title)
    missing = [f"no {what} on {', '.join(on)}" for what, on in absent.items()]
    if unknown := [task for task in part.tasks if task not in layout.tasks]:
        missing.append(f"no task {', '.join(unknown)}")
    stand_ins = _stand_ins(part, layout, encoders, list(scores))
    return Paired(scores, tuple(missing), tuple(fewer), tuple(stand_ins))


def _sides(part: Part, layout: Layout, methods: Mapping[str, str]) -> list[list[Place]]:
    """Ours, then each baseline's: the places that it is read at, one a point."""
    if part.combination is not None:
        runs = [
            {
                point.value: point.method
                for point in layout.sensitivity
                if (point.of, point.combination, point.key) == (of, part.combination, "lambda")
            }
            for of in (part.method, *part.baselines)
        ]
        shared = sorted(set.intersection(*map(set, runs)))
        if len(shared) < 2:
            return [[]]
        return [[(by[value], part.encoder, part.quarter) for value in shared] for by in runs]
    quarters = [q for q in (part.quarter, part.minus_quarter) if q is not None]
    places = [(part.method, part.encoder, quarters)]
    for method in part.baselines:
        if part.baseline_encoders:
            places += [(method, encoder, [4]) for encoder in part.baseline_encoders]
        else:
            places.append((method, part.encoder, quarters))
    return [
        [(methods.get(method, method), encoder, quarter) for quarter in read]
        for method, encoder, read in places
    ]


def _stand_ins(
    part: Part, layout: Layout, encoders: Mapping[str, str], tasks: list[str]
) -> Iterator[str]:
    """What is not the paper's."""
    for name in tasks:
        task = layout.tasks[name]
        if task.marks:
            yield from (f"{task.title}: {mark}" for mark in task.marks)
        elif name not in part.tasks:
            yield f"{task.title}: not a task of the claim"
        elif task.own:
            yield f"{task.title}: rows of the study's own files"
    for method in (part.method, *part.baselines):
        if method in layout.unlike:
            yield f"{layout.methods[method]}: the study's {method} is another method"
    for hub_id, name in encoders.items():
        if not _is(layout.encoders[name], hub_id):
            yield f"{name} ({layout.encoders[name]}) in place of {hub_id}"
