"""Stand-in tasks from a small grammar, in the shapes of CoLA, MRPC and MNLI.

The label depends on word order, agreement, who did what to whom, or negation. Every class draws
the same words equally often, so a model that counts words learns nothing and one that reads does.
No sentence occurs twice, so train and the dev sets share none.
"""

import random
from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

import yaml

from acl_bert.data.spec import TaskSpec
from acl_bert.errors import InputError

Texts = tuple[str, ...]
_PATIENCE = 1000  # draws in a row without a new sentence before the grammar counts as used up


class Verb(NamedTuple):
    base: str
    past: str
    participle: str


class Genre(NamedTuple):
    """The words that sentences are filled with (genres.yaml)."""

    nouns: list[str]
    verbs: list[Verb]
    doings: list[Verb]
    adjuncts: list[str]
    comparatives: list[tuple[str, str]]


def _genre(name: str) -> Genre:
    text = resources.files(__package__).joinpath("genres.yaml").read_text("utf-8")
    words = yaml.safe_load(text)[name]
    return Genre(
        nouns=words["nouns"].split(),
        verbs=[Verb(*forms.split("/")) for forms in words["verbs"].split()],
        doings=[Verb(*forms.split("/")) for forms in words["doings"].split()],
        adjuncts=words["adjuncts"],
        comparatives=[tuple(pair.split("/")) for pair in words["comparatives"]],
    )


PEOPLE, ANIMALS = _genre("people"), _genre("animals")


def generate(spec: TaskSpec, split: str) -> list[tuple[Texts, str]]:
    """The texts and the label's name of every row of `split`: train or one of the dev sets.

    A dev set after the first (`dev_mm`) is filled from the other genre. The classes are equally
    frequent. Raises InputError if the task asks for more rows than the grammar has sentences.
    """
    assert spec.generate is not None
    used: set[str] = set()
    # The splits are made one after the other, since each must avoid the sentences of the former.
    for position, name in enumerate(["train", *spec.dev_sets]):
        rng = random.Random(f"{spec.generate.grammar} {name} {spec.generate.seed}")
        size = spec.generate.train if name == "train" else spec.generate.dev
        rows = _rows(spec, PEOPLE if position < 2 else ANIMALS, rng, size, used)
        if name == split:
            return rows
    raise KeyError(split)


def _rows(
    spec: TaskSpec, genre: Genre, rng: random.Random, size: int, used: set[str]
) -> list[tuple[Texts, str]]:
    assert spec.generate is not None
    grammar = GRAMMARS[spec.generate.grammar]
    rows: list[tuple[Texts, str]] = []
    failures = 0
    while len(rows) < size:
        label = len(rows) % len(spec.labels)
        texts = tuple(_sentence(text) for text in grammar(genre, rng, label))
        if len(set(texts)) == len(texts) and not used & set(texts):
            failures = 0
            used.update(texts)
            rows.append((texts, spec.labels[label]))
        elif (failures := failures + 1) == _PATIENCE:
            raise InputError(
                f"tasks.{spec.id}.generate: the grammar has not enough sentences for {size} rows "
                "of a split; ask for fewer"
            )
    rng.shuffle(rows)
    return rows


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def acceptability(genre: Genre, rng: random.Random, label: int) -> Texts:
    """One sentence; label 0 breaks the order of words, a verb's form or an agreement."""
    good = label == 1
    a, b = rng.sample(genre.nouns, 2)
    verb, adjunct = rng.choice(genre.verbs), rng.choice(genre.adjuncts)
    match rng.choice(["order", "order", "form", "form", "agreement"]):
        case "order":
            orders = [f"the {a} the {b} {verb.past}", f"{verb.past} the {a} the {b}"]
            orders += [f"{a} the {verb.past} the {b}", f"the {a} {verb.past} {b} the"]
            words = f"the {a} {verb.past} the {b}" if good else rng.choice(orders)
            return (f"{words} {adjunct}",)
        case "form":  # has thanked, did thank; neither has thank nor did thanked
            auxiliary = rng.choice(["has", "did"])
            form = verb.participle if (auxiliary == "has") == good else verb.base
            return (f"the {a} {auxiliary} not {form} the {b} {adjunct}",)
        case _:  # this dog, these dogs, beside a noun of either number
            broken = None if good else rng.choice([0, 1])
            phrases = []
            for position, noun in enumerate([a, b]):
                plural = rng.random() < 0.5
                these = plural != (position == broken)
                phrases.append(f"{'these' if these else 'this'} {noun}{'s' if plural else ''}")
            return (f"{phrases[0]} {verb.past} {phrases[1]} {adjunct}",)


def paraphrase(genre: Genre, rng: random.Random, label: int) -> Texts:
    """Two sentences; label 1 if they say the same, 0 if roles, times or negation differ."""
    same = label == 1
    a, b = rng.sample(genre.nouns, 2)
    verb, adjunct = rng.choice(genre.verbs), rng.choice(genre.adjuncts)
    match rng.choice(["negation", "negation", "roles", "time"]):
        case "negation":
            first = rng.random() < 0.5
            second = first if same else not first
            one = _event(a, b, verb, negated=first, passive=False)
            other = _event(a, b, verb, negated=second, passive=rng.random() < 0.5)
            return (f"{one} {adjunct}", f"{adjunct} {other}")
        case "roles":
            agent, patient = (a, b) if same else (b, a)
            negated = rng.random() < 0.5
            one = _event(a, b, verb, negated, passive=False)
            other = _event(agent, patient, verb, negated, passive=rng.random() < 0.5)
            return (f"{one} {adjunct}", f"{adjunct} {other}")
        case _:
            x, y = (doing.past for doing in rng.sample(genre.doings, 2))
            word, other = rng.choice([("before", "after"), ("after", "before")])
            one = f"the {a} {x} {word} the {b} {y}"
            if same:
                return (one, f"the {b} {y} {other} the {a} {x}")
            return (one, f"the {a} {x} {other} the {b} {y}")


def inference(genre: Genre, rng: random.Random, label: int) -> Texts:
    """Premise and hypothesis; label 0 follows, 1 may or may not be, 2 cannot be."""
    a, b, c = rng.sample(genre.nouns, 3)
    verb, adjunct = rng.choice(genre.verbs), rng.choice(genre.adjuncts)
    if rng.random() < 0.75:
        negated = rng.random() < 0.5
        premise = _event(a, b, verb, negated, passive=rng.random() < 0.5)
        if label == 1:  # another's deed, or the same with the roles changed
            agent, patient = rng.choice([(b, a), (c, b), (a, c)])
            negated = rng.random() < 0.5
        else:
            agent, patient = a, b
            negated = negated != (label == 2)
        hypothesis = _event(agent, patient, verb, negated, passive=rng.random() < 0.5)
        return (f"{premise} {adjunct}", hypothesis)
    more, less = rng.sample(rng.choice(genre.comparatives), 2)
    premise = f"{adjunct} the {a} was {more} than the {b}"
    if label == 1:
        others = [pair for pair in genre.comparatives if more not in pair]
        more, less = rng.sample(rng.choice(others), 2)
    if label == 2 or (label == 1 and rng.random() < 0.5):
        a, b = b, a
    if rng.random() < 0.5:
        return (premise, f"the {a} was {more} than the {b}")
    return (premise, f"the {b} was {less} than the {a}")


def _event(agent: str, patient: str, verb: Verb, negated: bool, passive: bool) -> str:
    if passive:
        return f"the {patient} was {'not ' if negated else ''}{verb.participle} by the {agent}"
    if negated:
        return f"the {agent} did not {verb.base} the {patient}"
    return f"the {agent} {verb.past} the {patient}"


GRAMMARS: dict[str, Callable[[Genre, random.Random, int], Texts]] = {
    "acceptability": acceptability,
    "paraphrase": paraphrase,
    "inference": inference,
}
