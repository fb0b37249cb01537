import pytest
from bag_of_words import bag_of_words_accuracy

from acl_bert.errors import InputError
from acl_bert.tasks import generator
from acl_bert.tasks.generator import ANIMALS, PEOPLE, Genre
from acl_bert.tasks.sources import Example, read
from acl_bert.tasks.spec import Source, resolve

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
