"""What a study's keys have to fulfil together: each name exists, and the methods fit each other."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from acl_bert.config.base import written
from acl_bert.config.explain import unknown
from acl_bert.config.method import Method, known_methods
from acl_bert.errors import InputError

if TYPE_CHECKING:
    from acl_bert.config.study import Study


def check(study: "Study") -> None:
    """Raises InputError for the first fault, naming the key and the remedy."""
    if study.name == "store":
        raise InputError("name: store is the folder of all studies' runs; take another")
    if study.tuning.enabled and (shared := set(study.tuning.seeds) & set(study.seeds)):
        raise InputError(f"tuning.seeds: {sorted(shared)} are seeds of the study too")
    _ = study.task_specs  # resolved here, so that a fault in one is found before any run
    _check_circles(study.own_methods)
    _check_names(study)
    _check_where_methods_run(study)
    for method, row in study.method_rows.items():
        if row.teacher in study.method_rows:
            _check_teacher(method, row, study.method_rows[row.teacher])
    _check_tuning(study)
    for task in study.tasks:
        study.training_of(task)
    for method in filter(study.is_tuned, study.methods):
        for weight in study.tuning.lambdas:
            study.method_row(method, weight)


def _known(key: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise InputError(f"{key}: {unknown(name, known)}")


def _check_circles(rows: Mapping[str, Method]) -> None:
    for method, row in rows.items():
        above, seen = row.teacher, {method}
        while above is not None and above in rows:
            if above in seen:
                raise InputError(
                    f"methods.{method}.teacher: {row.teacher} is taught by {method} in turn; "
                    "break the circle"
                )
            seen.add(above)
            above = rows[above].teacher


def _check_names(study: "Study") -> None:
    sections = {"tasks": study.tasks, "encoders": study.encoders}
    for key in ("gradients", "sensitivity", "audit"):
        settings = getattr(study.analyses, key)
        for kind, known in sections.items():
            for name in getattr(settings, kind, None) or ():
                _known(f"analyses.{key}.{kind}", name, known)
    named = {"clusters": study.analyses.clusters} | {
        f"ablation.{full}": (full, *others) for full, others in study.analyses.ablation.items()
    }
    for key, names in named.items():
        for name in names:
            _known(f"analyses.{key}", name, {**study.own_methods, **known_methods()})
    for kind, section in sections.items():
        for name, entry in section.items():
            for method in entry.methods or ():
                _known(f"{kind}.{name}.methods", method, study.methods)


def _check_where_methods_run(study: "Study") -> None:
    somewhere = set()
    for task, encoder in itertools.product(study.tasks, study.encoders):
        methods = study.methods_of(task, encoder)
        somewhere.update(methods)
        for method in methods:
            if (teacher := study.method_rows[method].teacher) not in (None, *methods):
                raise InputError(
                    f"methods.{method}.teacher: {teacher} is not among the methods that run on "
                    f"{task} with {encoder}; add it there"
                )
    if idle := [method for method in study.methods if method not in somewhere]:
        raise InputError(
            f"methods.{idle[0]}: runs on no task with any encoder; name it in their `methods`, "
            "or leave it out"
        )


def _check_teacher(method: str, row: Method, teacher: Method) -> None:
    key = f"methods.{method}.teacher: {row.teacher}"
    if row.representation != teacher.representation:
        raise InputError(
            f"{key} has the representation {teacher.representation}, {method} "
            f"{row.representation}; give both the same"
        )
    if row.cosine_temperature != teacher.cosine_temperature:
        raise InputError(
            f"{key} has the classifier {teacher.classifier}, {method} {row.classifier}, or "
            "another τ in it; give both the same"
        )
    if row.has_auxiliary_loss and not row.is_multi_exit and row.layers == teacher.layers:
        raise InputError(
            f"{key} is as deep as {method}, whose one exit would learn nothing from it; give "
            f"{method} `layers`, or a regime with more exits"
        )
    if teacher.layers is not None and (row.layers is None or row.layers > teacher.layers):
        raise InputError(f"{key} has {teacher.layers} layers, and {method} more; set its `layers`")


def _check_tuning(study: "Study") -> None:
    """Each λ is chosen by held-out rows, or taken from a method where it is so chosen."""
    for taker, giver in study.tuning.lambda_of.items():
        key = f"tuning.lambda_of.{taker}"
        _known(key, taker, study.methods)
        _known(key, giver, study.methods)
        own = study.own_methods[taker]
        if not own.has_auxiliary_loss or "lambda" in written(study.methods[taker]):
            raise InputError(f"{key}: {taker} has no λ that could be chosen; leave it out")
        if study.tuning.enabled and not study.is_tuned(giver):
            raise InputError(f"{key}: {giver} is not tuned; name one that is")
        for task, encoder in itertools.product(study.tasks, study.encoders):
            methods = study.methods_of(task, encoder)
            if taker in methods and giver not in methods:
                raise InputError(
                    f"{key}: {giver} does not run on {task} with {encoder}, where {taker} does; "
                    "add it there"
                )
    for method, task in itertools.product(study.tuned, study.tasks):
        if study.training_of(task, method).selection_split == "dev":
            raise InputError(
                f"training.selection_split: dev, but λ of {method} is tuned on held-out rows; "
                "leave tuning out, or choose on the selection split"
            )
