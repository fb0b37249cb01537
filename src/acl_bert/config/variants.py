"""Variants: the study's methods with a few keys changed, which analyses run beside them.

A variant's id is its method's and the keys that differ: `acl@temperature=0.1`. Two analyses that
need the same variant share its runs. No name that a study may give has an `@`.
"""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from acl_bert.config.analyses import (
    Analyses,
    Audit,
    Choice,
    Gradients,
    Places,
    Sensitivity,
    choices,
)
from acl_bert.config.base import merge
from acl_bert.config.explain import explain, unknown
from acl_bert.config.method import Method, known_methods
from acl_bert.errors import InputError
from acl_bert.files import canonical_hash

LONGEST = 120  # letters of an id, which becomes part of file names, where 255 are allowed


@dataclass
class Variant:
    """`method` with the keys of `patch`; `analyses` are those that run it."""

    method: str
    patch: dict[str, Any]
    row: Method
    analyses: list[Places]


@dataclass
class Analysed:
    """What a study's analyses run, and which method each of them reads for what.

    `methods` are the study's own; the λ of those in `tuned` is chosen; `training` has the study's
    keys. `observed`: each method of the gradient pilot → the one whose gate only records.
    `points`: the values of λ and τ, each with its method. `worlds`: the open choices decided
    otherwise, each with the methods as they then are.
    """

    methods: Mapping[str, Method]
    tuned: Container[str]
    training: Mapping[str, Any]
    variants: dict[str, Variant] = field(default_factory=dict)
    observed: dict[str, str] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)
    worlds: list[dict[str, Any]] = field(default_factory=list)

    def add(self, analyses: Analyses) -> None:
        """Raises InputError for a method that is unknown, or that cannot be varied so."""
        self.observed = {n: n for n, row in self.methods.items() if row.gate.mode == "log_only"}
        if analyses.gradients is not None:
            self._observe(analyses.gradients)
        if analyses.sensitivity is not None:
            self._vary_values(analyses.sensitivity)
        if analyses.audit is not None:
            self._decide_otherwise(analyses.audit)

    def _vary(
        self, analysis: Places, at: str, method: str, patch: dict[str, Any], title: str
    ) -> str:
        """The id of the method with the keys of `patch`: its own where that changes nothing."""
        row = self.methods[method]
        before = row.model_dump(by_alias=True)
        try:
            varied = Method.model_validate(merge(before, patch))
        except ValidationError as error:
            raise explain(error, Method, at, f"{method} with {title}") from None
        after = varied.model_dump(by_alias=True)
        for keys in (before, after):
            keys["training"] = {**self.training, **keys["training"]}
        changed = dict(differences(before, after))
        if method in self.tuned and "lambda" in patch:  # another λ than the chosen one, whatever
            changed["lambda"] = f"{varied.weight:g}"
        if not changed:
            return method
        name = f"{method}@{','.join(f'{key}={value}' for key, value in sorted(changed.items()))}"
        if len(name) > LONGEST:
            name = f"{method}@{canonical_hash(changed)[:16]}"
        titled = varied.model_copy(update={"title": f"{row.title}, {title}"})
        others = self.variants[name].analyses if name in self.variants else []
        self.variants[name] = Variant(method, patch, titled, [*others, analysis])
        return name

    def _asked(self, analysis: Gradients | Sensitivity | Audit, at: str) -> list[str]:
        """The methods of an analysis; of its default, those that the study has."""
        if analysis.methods is None or "methods" not in analysis.model_fields_set:
            return [name for name in analysis.methods or self.methods if name in self.methods]
        _check_known(analysis.methods, self.methods, f"{at}.methods")
        return list(analysis.methods)

    def _observe(self, settings: Gradients) -> None:
        at = "analyses.gradients"
        for method in self._asked(settings, at):
            if self.methods[method].acts != "off":
                raise InputError(f"{at}.methods: the gate of {method} acts; name others")
            patch = {"gate": {"mode": "log_only"}}
            self.observed[method] = self._vary(settings, at, method, patch, "observed")

    def _vary_values(self, settings: Sensitivity) -> None:
        at = "analyses.sensitivity"
        grid = [
            *(("lambda", "λ", value) for value in settings.lambdas),
            *(("temperature", "τ", value) for value in settings.temperatures),
        ]
        for of in self._asked(settings, at):
            row = self.methods[of]
            if row.teacher is not None or row.contrastive == "none":
                raise InputError(
                    f"{at}.methods: {of} has a teacher, or no contrastive loss; name others"
                )
            for combination in settings.combinations:
                for key, symbol, value in grid:
                    patch = {"combination": combination, key: value}
                    title = f"{combination}, {symbol} {value:g}"
                    point = {"of": of, "combination": combination, "key": key, "value": value}
                    method = self._vary(settings, at, of, patch, title)
                    self.points.append(point | {"method": method})

    def _decide_otherwise(self, settings: Audit) -> None:
        at = "analyses.audit"
        known = choices() | settings.more
        asked = self._asked(settings, at)
        _check_known(settings.choices or (), known, f"{at}.choices")
        for name in settings.choices or known:
            choice = known[name]
            _check_known(
                choice.methods, {**known_methods(), **self.methods}, f"{at}.choices.{name}.methods"
            )
            every = list(choice.variants.items())
            for variant, keys in every[:1] if settings.variants == "first" else every:
                patch = keys.model_dump(exclude_unset=True, by_alias=True)  # type: ignore[attr-defined]
                world = _World(self, settings, choice, variant, patch, f"{at}.choices.{name}")
                about = [method for method in self.methods if world.changes(method)]
                for method in asked:
                    world.find(method)
                if changed := {old: new for old, new in world.found.items() if new != old}:
                    self.worlds.append(
                        {
                            "choice": name,
                            "title": choice.title,
                            "default": choice.default,
                            "variant": variant,
                            "methods": changed,
                            "about": about,
                        }
                    )


@dataclass
class _World:
    """One choice decided otherwise. A student learns from its teacher as it is in that world."""

    analysed: Analysed
    settings: Audit
    choice: Choice
    variant: str
    patch: dict[str, Any]
    at: str
    found: dict[str, str] = field(default_factory=dict)

    def find(self, method: str) -> str:
        """The method as it is in this world.

        A method of the gradient pilot only records here too, which changes nothing else.
        """
        if method not in self.found:
            keys = dict(self.patch) if method in self.choice.methods else {}
            above = self.analysed.methods[method].teacher
            # A teacher that the study lacks is refused later, with all others.
            if above is not None and above in self.analysed.methods:
                keys |= {} if (teacher := self.find(above)) == above else {"teacher": teacher}
            if keys and method in self.analysed.observed:
                keys["gate"] = {"mode": "log_only"} | keys.get("gate", {})
            title = f"{self.choice.title} {self.variant}"
            self.found[method] = self.analysed._vary(self.settings, self.at, method, keys, title)
        return self.found[method]

    def changes(self, method: str | None) -> bool:
        """Whether the choice is about the method, or about a teacher of it."""
        if method is None or method not in self.analysed.methods:
            return False
        row = self.analysed.methods[method]
        given = row.model_dump(by_alias=True)
        own = method in self.choice.methods and merge(given, self.patch) != given
        return own or self.changes(row.teacher)


def _check_known(names: Collection[str], known: Mapping[str, Any], at: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{at}: {unknown(name, known)}")


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, str]]:
    """Keys of `after`, such as gate.mode, whose values differ from those of `before`."""
    for key, value in after.items():
        if isinstance(value, Mapping):
            yield from differences(before.get(key) or {}, value, f"{above}{key}.")
        elif before.get(key) != value:
            text = f"{value:.12g}" if isinstance(value, float) else str(value).lower()
            yield f"{above}{key}", text
