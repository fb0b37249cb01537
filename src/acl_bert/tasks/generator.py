"""Stand-in tasks from a small grammar, in the shapes of CoLA, MRPC and MNLI.

In each a label hangs on who did what to whom, on agreement, or on what is negated: the two classes
are made of the same words, so that counting words does not help and reading does. No sentence
occurs twice, so train and the dev sets share none.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from acl_bert.errors import InputError
from acl_bert.tasks.spec import TaskSpec

Pair = tuple[tuple[str, ...], str]  # the texts and the label's name


class Genre(NamedTuple):
    """Words that sentences are filled with; another genre shares none of the content words."""

    nouns: list[str]
    verbs: list[tuple[str, str, str]]  # base, past, participle
    places: list[str]
    adjectives: list[tuple[str, str]]  # comparatives, opposite
    things: list[str]


PEOPLE = Genre(
    nouns="teacher doctor farmer singer driver lawyer nurse artist student soldier pilot baker "
    "judge writer dancer painter sailor hunter banker actor guard priest cook miner".split(),
    verbs=[
        ("help", "helped", "helped"),
        ("call", "called", "called"),
        ("see", "saw", "seen"),
        ("follow", "followed", "followed"),
        ("thank", "thanked", "thanked"),
        ("visit", "visited", "visited"),
        ("choose", "chose", "chosen"),
        ("know", "knew", "known"),
        ("pay", "paid", "paid"),
        ("invite", "invited", "invited"),
        ("admire", "admired", "admired"),
        ("forget", "forgot", "forgotten"),
    ],
    places=[
        "in the garden",
        "at the station",
        "after lunch",
        "in the office",
        "at the market",
        "on Monday",
        "near the church",
        "in the street",
        "before the meeting",
        "at school",
        "in the morning",
        "on the train",
    ],
    adjectives=[
        ("older", "younger"),
        ("taller", "shorter"),
        ("richer", "poorer"),
        ("stronger", "weaker"),
        ("happier", "sadder"),
        ("faster", "slower"),
    ],
    things="book letter car house ring picture horse boat coat key map watch".split(),
)
ANIMALS = Genre(
    nouns="dog cat lion bear wolf fox monkey rabbit tiger goat sheep bird duck snake rat cow pig "
    "mouse deer elephant frog turtle bull owl".split(),
    verbs=[
        ("chase", "chased", "chased"),
        ("bite", "bit", "bitten"),
        ("smell", "smelled", "smelled"),
        ("hear", "heard", "heard"),
        ("attack", "attacked", "attacked"),
        ("catch", "caught", "caught"),
        ("lick", "licked", "licked"),
        ("watch", "watched", "watched"),
        ("fear", "feared", "feared"),
        ("kick", "kicked", "kicked"),
    ],
    places=[
        "in the forest",
        "by the river",
        "under the tree",
        "at night",
        "on the hill",
        "in the snow",
        "near the lake",
        "behind the barn",
        "in the desert",
        "at dawn",
    ],
    adjectives=[
        ("bigger", "smaller"),
        ("heavier", "lighter"),
        ("louder", "quieter"),
        ("cleaner", "dirtier"),
        ("braver", "shyer"),
        ("hungrier", "fuller"),
    ],
    things="bone stick ball fish egg nut leaf apple".split(),
)
