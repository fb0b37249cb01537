"""Variants: methods with a few keys changed, which analyses run beside the study's own rows.

A variant's id is its method's and the keys that differ: `acl@temperature=0.1`. So two analyses that
need the same one share its runs; `@` stands in no name that a study may give.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from acl_bert.config.analyses import Audit, Choice, Gradients, Sensitivity, choices
from acl_bert.config.base import merge
from acl_bert.config.explain import explain, unknown
from acl_bert.config.method import Method, method_rows
from acl_bert.errors import InputError
from acl_bert.files import canonical_hash


@dataclass(frozen=True)
class Variant:
    """`method` with the keys of `patch`; an analysis' `place` says where it was asked for."""

    method: str
    patch: dict[str, Any]
    row: Method
    place: str


Variants = dict[str, Variant]

LONGEST = 120  # letters of an id, which becomes a part of file names, where 255 are allowed


def vary(
    method: str,
    row: Method,
    patch: dict[str, Any],
    title: str,
    place: str,
    tuned: bool,
    training: Mapping[str, Any] | None = None,
) -> tuple[str, Variant | None]:
    """The id and the variant; the method's own id and None where the patch changes nothing.

    `tuned`: the method's λ is chosen, so that any λ is another. `training`: the study's keys, under
    those of the row. Raises InputError where the row cannot be so.
    """
    given = row.model_dump(by_alias=True)
    try:
        varied = Method.model_validate(merge(given, patch))
    except ValidationError as error:
        raise explain(error, Method, place, f"{method} with {title}") from None
    before, after = given, varied.model_dump(by_alias=True)
    for keys in (before, after):
        keys["training"] = {**(training or {}), **keys["training"]}
    changed = dict(differences(before, after))
    if tuned and "lambda" in patch:
        changed["lambda"] = f"{varied.weight:g}"
    if not changed:
        return method, None
    name = f"{method}@{','.join(f'{key}={value}' for key, value in sorted(changed.items()))}"
    if len(name) > LONGEST:
        name = f"{method}@{canonical_hash(changed)[:16]}"
    titled = varied.model_copy(update={"title": f"{row.title}, {title}"})
    return name, Variant(method, patch, titled, place)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, str]]:
    """Keys of `after`, such as gate.mode, whose values differ from those of `before`."""
    for key, value in after.items():
        if isinstance(value, Mapping):
            yield from differences(before.get(key) or {}, value, f"{above}{key}.")
        elif before.get(key) != value:
            yield (
                f"{above}{key}",
                f"{value:.12g}" if isinstance(value, float) else str(value).lower(),
            )


def observed_methods(
    settings: Gradients, rows: Mapping[str, Method]
) -> tuple[dict[str, str], Variants]:
    """Each method with the one that is it, observed; the variants among these.

    A method that observes by its own row is itself.
    """
    place = "analyses.gradients"
    observed, variants = {}, {}
    for method in settings.methods:
        if method not in rows and "methods" not in settings.model_fields_set:
            continue
        row = _known(rows, method, f"{place}.methods")
        if row.gate.mode not in ("off", "log_only"):
            raise InputError(f"{place}.methods: the gate of {method} acts; name others")
        patch = {"gate": {"mode": "log_only"}}
        name, variant = vary(method, row, patch, "observed", place, tuned=False)
        observed[method] = name
        if variant:
            variants[name] = variant
    return observed, variants


def sensitivity_points(
    settings: Sensitivity, rows: Mapping[str, Method], tuned: frozenset[str]
) -> tuple[list[dict[str, Any]], Variants]:
    """Which method stands for each value of λ and τ, and the variants among them.

    `tuned`: the methods whose λ is chosen, so that their rows stand for no λ.
    """
    place = "analyses.sensitivity"
    points, variants = [], {}
    values = (("lambda", settings.lambdas), ("temperature", settings.temperatures))
    for of in settings.methods:
        if of not in rows and "methods" not in settings.model_fields_set:
            continue
        row = _known(rows, of, f"{place}.methods")
        if row.teacher is not None or row.contrastive == "none":
            raise InputError(
                f"{place}.methods: {of} has a teacher, or no contrastive term; name others"
            )
        for combination in settings.combinations:
            for key, grid in values:
                for value in grid:
                    patch = {"combination": combination, key: value}
                    title = f"{combination}, {'λ' if key == 'lambda' else 'τ'} {value:g}"
                    name, variant = vary(of, row, patch, title, place, of in tuned)
                    if variant:
                        variants[name] = variant
                    points.append(
                        {
                            "of": of,
                            "combination": combination,
                            "key": key,
                            "value": value,
                            "method": name,
                        }
                    )
    return points, variants


def audit_worlds(
    settings: Audit,
    rows: Mapping[str, Method],
    tuned: frozenset[str],
    observed: Container[str],
    training: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], Variants]:
    """Each choice decided otherwise, with the method that each changed one then is; the variants.

    A student's teacher is the teacher as it is in that world. `tuned` as above; a method of the
    gradient pilot (`observed`) is observed in that world too, which changes nothing else.
    """
    place = "analyses.audit"
    known = choices() | settings.more
    worlds: list[dict[str, Any]] = []
    variants: Variants = {}
    asked = settings.methods or tuple(rows)
    for method in asked:
        _known(rows, method, f"{place}.methods")
    for name in settings.choices or tuple(known):
        if name not in known:
            raise InputError(f"{place}.choices: {unknown(name, known)}")
        choice = known[name]
        for method in choice.methods:
            _known({**method_rows(), **rows}, method, f"{place}.choices.{name}.methods")
        every = list(choice.variants.items())
        for variant, keys in every[:1] if settings.variants == "first" else every:
            patch = keys.model_dump(exclude_unset=True, by_alias=True)  # type: ignore[attr-defined]
            at = f"{place}.choices.{name}"
            about = _changed(choice, patch, rows)
            found = _world(choice, variant, patch, asked, rows, tuned, observed, training, at)
            variants |= {new: made for new, made in found.values() if made}
            changed = {method: new for method, (new, _) in found.items() if new != method}
            if changed:
                worlds.append(
                    {
                        "choice": name,
                        "title": choice.title,
                        "default": choice.default,
                        "variant": variant,
                        "methods": changed,
                        "about": about,
                    }
                )
    return worlds, variants


def _world(
    choice: Choice,
    variant: str,
    patch: dict[str, Any],
    asked: tuple[str, ...],
    rows: Mapping[str, Method],
    tuned: frozenset[str],
    observed: Container[str],
    training: Mapping[str, Any],
    place: str,
) -> dict[str, tuple[str, Variant | None]]:
    found: dict[str, tuple[str, Variant | None]] = {}

    def find(method: str) -> str:
        if method not in found:
            row = rows[method]
            keys = dict(patch) if method in choice.methods else {}
            # A teacher that the study lacks is refused with all that it lacks, later.
            above = row.teacher
            if above is not None and above in rows and (teacher := find(above)) != above:
                keys["teacher"] = teacher
            if keys and method in observed:
                keys["gate"] = {"mode": "log_only"} | keys.get("gate", {})
            title = f"{choice.title} {variant}"
            found[method] = vary(method, row, keys, title, place, method in tuned, training)
        return found[method][0]

    for method in asked:
        find(method)
    return found


def _changed(choice: Choice, patch: dict[str, Any], rows: Mapping[str, Method]) -> list[str]:
    """The methods that the choice would change, or a teacher of theirs."""

    def changes(method: str | None) -> bool:
        if method is None or method not in rows:
            return False
        row = rows[method]
        given = row.model_dump(by_alias=True)
        own = method in choice.methods and merge(given, patch) != given
        return own or changes(row.teacher)

    return [method for method in rows if changes(method)]


def _known(rows: Mapping[str, Method], method: str, place: str) -> Method:
    if method not in rows:
        raise InputError(f"{place}: {unknown(method, rows)}")
    return rows[method]
