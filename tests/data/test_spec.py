import pytest
from pydantic import ValidationError

from acl_bert.data.spec import TaskSpec, registry, resolve
from acl_bert.errors import InputError

OWN = {
    "title": "Mine",
    "text": ["sentence"],
    "labels": ["no", "yes"],
    "metrics": ["accuracy", "f1"],
    "selection_metric": "accuracy",
    "files": {"train": "a.csv", "dev": "b.csv"},
}


def test_registry_has_the_papers_tasks_and_the_generated_ones() -> None:
    tasks = registry()
    assert list(tasks) == [
        *["cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte"],
        *["acceptability", "paraphrase", "inference"],
    ]
    assert {name: spec.selection_metric for name, spec in tasks.items()} == {
        **dict.fromkeys(["cola", "acceptability"], "matthews"),
        **dict.fromkeys(["mrpc", "qqp", "paraphrase"], "accuracy_f1"),
        **dict.fromkeys(["sst2", "mnli", "qnli", "rte", "inference"], "accuracy"),
    }
    assert tasks["mnli"].dev_sets == {"dev": "", "dev_mm": "_mm"}
    assert tasks["mnli"].labels == ["entailment", "neutral", "contradiction"]
    assert tasks["rte"].labels == ["entailment", "not_entailment"]


def test_overrides_are_laid_over_the_row_key_by_key() -> None:
    spec = resolve("rte", {"rows": {"train": 5}, "limit": {"dev": 7}})
    assert spec.rows == {"train": 5, "dev": 277, "test": 3000}
    assert (spec.limit.train, spec.limit.dev) == (None, 7)
    assert registry()["rte"].rows["train"] == 2490


def test_a_new_task_and_labels_that_yaml_reads_as_numbers() -> None:
    spec = resolve("mine", OWN | {"labels": [0, 1], "values": {2: 1, "n": 0}})
    assert spec.labels == ["0", "1"]
    assert spec.values == {"2": "1", "n": "0"}


def test_every_glue_task_has_a_file_for_each_test_set() -> None:
    submissions = {name: spec.submission for name, spec in registry().items() if spec.submission}
    assert list(submissions) == ["cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte"]
    for name, submission in submissions.items():
        spec = registry()[name]
        assert spec.hub and spec.glue
        assert list(submission.files) == spec.test_sets
        assert set(spec.test_sets) <= set(spec.hub.splits) & set(spec.glue.files)
        # As the task's own files spell them.
        spelled = {label: spelling for spelling, label in spec.values.items()}
        assert submission.labels == [spelled.get(label, label) for label in spec.labels]
    assert registry()["mnli"].test_sets == ["test", "test_mm"]


def test_is_frozen() -> None:
    with pytest.raises(ValidationError):
        registry()["rte"].title = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("task", "overrides", "message"),
    [
        ("rtee", {}, r"tasks\.rtee: no such task; did you mean 'rte'\?"),
        (
            "rte",
            {"metric": ["accuracy"]},
            r"tasks\.rte\.metric: unknown key; .*'metrics'",
        ),
        ("rte", {"limit": {"train": 0}}, r"tasks\.rte\.limit\.train: .*greater than 0"),
        ("rte", {"metrics": ["acc"]}, r"tasks\.rte\.metrics\.0: "),
        ("rte", {"id": "cola"}, r"tasks\.rte\.id: .*leave it out"),
        ("mine", OWN | {"labels": ["no", "no"]}, "labels: no occurs twice"),
        ("mine", OWN | {"labels": ["no"]}, r"tasks\.mine\.labels: "),
        ("mine", OWN | {"values": {"0": "nope"}}, "values: nope is none of labels"),
        ("mine", OWN | {"selection_metric": "matthews"}, "matthews is none of metrics"),
        ("mine", OWN | {"labels": ["a", "b", "c"]}, "f1 needs two classes"),
        ("mine", OWN | {"files": {"train": "a.csv"}}, "files: dev is missing"),
        ("mine", OWN | {"files": {"train": "a", "dev": "b", "devv": "c"}}, "files: devv is none"),
        ("mine", OWN | {"dev_sets": {"other": ""}}, "needs a set dev"),
        ("mine", OWN | {"dev_sets": {"dev": "", "train": "_x"}}, "train is the name of another"),
        ("mine", OWN | {"dev_sets": {"dev": "", "dev_b": ""}}, "two sets have the same suffix"),
        ("mine", OWN | {"text": []}, r"tasks\.mine\.text: "),
        ("mine", OWN | {"dev_sets": {"dev": "", "test_b": "_b"}}, "test_b is the name of another"),
        (
            "mine",
            OWN | {"submission": {"files": {"test": "Mine.tsv"}, "labels": [0, 1]}},
            "submission.files: rows has no size of test",
        ),
        ("rte", {"submission": {"labels": ["yes"]}}, "submission.labels: needs one spelling for"),
        ("rte", {"submission": {"files": {"test": "../RTE.tsv"}}}, r"tasks\.rte\.submission\."),
        ("My task", OWN, r"tasks\.My task\.id: "),
        ("mine", {k: v for k, v in OWN.items() if k != "title"}, r"tasks\.mine\.title: is missing"),
    ],
)
def test_refuses_naming_the_key(task: str, overrides: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(task, overrides)


def test_every_registered_task_can_be_read_somewhere() -> None:
    for name, spec in registry().items():
        assert isinstance(spec, TaskSpec)
        assert bool(spec.hub and spec.glue) != bool(spec.generate), name
