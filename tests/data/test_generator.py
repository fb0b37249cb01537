import re
from collections import Counter
from typing import NamedTuple

import pytest
from bag_of_words import bag_of_words_accuracy

from acl_bert.data import generator
from acl_bert.data.generator import ANIMALS, PEOPLE, Genre
from acl_bert.data.sources import Example, read
from acl_bert.data.spec import Source, resolve
from acl_bert.errors import InputError

GENERATED = ["acceptability", "paraphrase", "inference"]
SOURCE = Source(kind="generator")


def splits(task: str) -> dict[str, list[Example]]:
    spec = resolve(task)
    return {name: read(spec, SOURCE, name) for name in ("train", *spec.dev_sets)}


@pytest.mark.parametrize("task", GENERATED)
def test_is_the_same_every_time_and_another_with_another_seed(task: str) -> None:
    assert splits(task) == splits(task)
    other = read(resolve(task, {"generate": {"seed": 8}}), SOURCE, "train")
    assert other != splits(task)["train"]


def test_first_rows_are_known() -> None:
    # A change of the grammar changes every number of the demo: it must not come unnoticed.
    first = {task: splits(task)["train"][0] for task in GENERATED}
    assert first["acceptability"].text == ["The hunter has not visited the singer on stage."]
    assert first["paraphrase"].text == [
        "The sailor did not know the doctor in court.",
        "In court the doctor was not known by the sailor.",
    ]
    assert first["inference"].text == [
        "The dancer was not thanked by the miner at home.",
        "The miner thanked the dancer.",
    ]
    assert {task: row.label for task, row in first.items()} == {
        "acceptability": 1,
        "paraphrase": 1,
        "inference": 2,
    }


@pytest.mark.parametrize("task", GENERATED)
def test_has_its_sizes_and_equally_frequent_classes(task: str) -> None:
    rows = splits(task)
    spec = resolve(task)
    assert {name: len(examples) for name, examples in rows.items()} == {
        "train": 448,
        **dict.fromkeys(spec.dev_sets, 256),
    }
    for examples in rows.values():
        counts = [sum(row.label == k for row in examples) for k in range(len(spec.labels))]
        assert max(counts) - min(counts) <= 1
        assert [row.index for row in examples] == list(range(len(examples)))


@pytest.mark.parametrize("task", GENERATED)
def test_no_sentence_occurs_twice(task: str) -> None:
    sentences = [text for rows in splits(task).values() for row in rows for text in row.text]
    assert len(set(sentences)) == len(sentences)


def test_mismatched_set_shares_no_content_word() -> None:
    def words(genre: Genre) -> set[str]:
        verbs = {form for verb in genre.verbs + genre.doings for form in verb}
        degrees = {word for pair in genre.comparatives for word in pair}
        return {*genre.nouns, *verbs, *degrees, *genre.adjuncts}

    assert not words(PEOPLE) & words(ANIMALS)
    mismatched = " ".join(text for row in splits("inference")["dev_mm"] for text in row.text)
    assert not words(PEOPLE) & set(mismatched.lower().replace(".", "").split())


class Event(NamedTuple):
    agent: str
    patient: str
    deed: str  # the verb's base
    negated: bool


def read_event(sentence: str) -> Event | None:
    """What an event's sentence says, whatever its form; None for another kind of sentence."""
    bases = {form: v.base for genre in (PEOPLE, ANIMALS) for v in genre.verbs for form in v}
    forms = {
        r"the (?P<a>\w+) (?P<v>\w+) the (?P<p>\w+)": False,
        r"the (?P<a>\w+) did not (?P<v>\w+) the (?P<p>\w+)": True,
        r"the (?P<p>\w+) was (?P<v>\w+) by the (?P<a>\w+)": False,
        r"the (?P<p>\w+) was not (?P<v>\w+) by the (?P<a>\w+)": True,
    }
    for form, negated in forms.items():
        found = re.search(form, sentence.lower())
        if found and found["v"] in bases and " than " not in sentence:
            return Event(found["a"], found["p"], bases[found["v"]], negated)
    return None


def test_labels_of_events_follow_from_what_is_said() -> None:
    said = {"paraphrase": 0, "inference": 0}
    for task in said:
        labels = resolve(task).labels
        for row in (row for rows in splits(task).values() for row in rows):
            one, other = (read_event(text) for text in row.text)
            assert (one is None) == (other is None), row
            if one is None or other is None:
                continue
            said[task] += 1
            if one == other:
                expected = {"equivalent", "entailment"}
            elif one[:3] == other[:3]:
                expected = {"not_equivalent", "contradiction"}
            else:
                expected = {"not_equivalent", "neutral"}
            assert labels[row.label or 0] in expected, row
    assert min(said.values()) > 400  # out of 704 and 960


def test_labels_of_comparisons_and_times_follow_from_what_is_said() -> None:
    opposite = {"before": "after", "after": "before"}
    for genre in (PEOPLE, ANIMALS):
        for x, y in genre.comparatives:
            opposite |= {x: y, y: x}

    def facts(sentence: str) -> set[tuple[str, ...]] | None:
        """The relation that is stated and the same one seen from the other side."""
        compared = re.search(r"the (\w+) was (\w+) than the (\w+)", sentence.lower())
        timed = re.search(r"the (\w+ \w+) (before|after) the (\w+ \w+)", sentence.lower())
        found = compared or timed
        if not found:
            return None
        a, relation, b = found.groups()
        return {(a, relation, b), (b, opposite[relation], a)}

    seen = {"paraphrase": 0, "inference": 0}
    for task in seen:
        for row in (row for rows in splits(task).values() for row in rows):
            one, other = (facts(text) for text in row.text)
            if one is None or other is None:
                continue
            seen[task] += 1
            label = resolve(task).labels[row.label or 0]
            denied = {(a, opposite[relation], b) for a, relation, b in one}
            if one == other:
                assert label in {"equivalent", "entailment"}, row
            elif other == denied:
                assert label in {"not_equivalent", "contradiction"}, row
            else:
                assert label == "neutral", row
    assert min(seen.values()) > 100


def test_unacceptable_sentences_break_a_rule_and_acceptable_ones_none() -> None:
    participles = {verb.participle for verb in PEOPLE.verbs}
    bases = {verb.base for verb in PEOPLE.verbs}
    kinds: Counter[str] = Counter()
    for row in (row for rows in splits("acceptability").values() for row in rows):
        sentence = row.text[0].lower().rstrip(".")
        nouns = re.findall(r"(this|these) (\w+)", sentence)
        auxiliary = re.search(r"(has|did) not (\w+)", sentence)
        if nouns:
            kind = "agreement"
            broken = sum((word == "these") != noun.endswith("s") for word, noun in nouns)
        elif auxiliary:
            kind = "form"
            right = participles if auxiliary[1] == "has" else bases
            broken = int(auxiliary[2] not in right)
        else:
            kind = "order"
            broken = int(read_event(sentence) is None)
        assert broken == (0 if row.label else 1), sentence
        kinds[kind] += 1
    assert min(kinds[kind] for kind in ("agreement", "form", "order")) > 80


@pytest.mark.parametrize("task", GENERATED)
def test_counting_words_stays_within_ten_points_of_chance(task: str) -> None:
    rows = splits(task)
    chance = 1 / len(resolve(task).labels)
    for name in resolve(task).dev_sets:
        assert abs(bag_of_words_accuracy(rows["train"], rows[name]) - chance) <= 0.10


def test_bag_of_words_sees_what_is_in_the_words() -> None:
    rows = [Example(i, ["it was good" if i % 2 else "it was bad"], i % 2) for i in range(20)]
    assert bag_of_words_accuracy(rows, rows) == 1.0


def test_asking_for_more_than_the_grammar_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = PEOPLE._replace(nouns=PEOPLE.nouns[:2], verbs=PEOPLE.verbs[:1])
    monkeypatch.setattr(generator, "PEOPLE", few)
    with pytest.raises(InputError, match=r"tasks\.paraphrase\.generate: .*ask for fewer"):
        read(resolve("paraphrase"), SOURCE, "train")
