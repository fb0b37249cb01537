"""The sources, on rows of our own with the traps of the real files, and on GLUE where it is."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acl_bert.data.sources import Example, read, splits_of
from acl_bert.data.spec import Source, TaskSpec, resolve
from acl_bert.errors import InputError

MNLI = [
    *["index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"],
    *["sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1"],
]


def glue(folder: Path, files: dict[str, str]) -> Source:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    return Source(kind="glue", folder=str(folder), test=True)


def task(name: str, rows: dict[str, int] | None = None, **overrides: Any) -> TaskSpec:
    return resolve(name, {"rows": rows or {}, **overrides})


def test_cola_has_a_header_in_test_only_and_no_line_feed_at_the_end(tmp_path: Path) -> None:
    source = glue(
        tmp_path,
        {
            "CoLA/train.tsv": 'x1\t1\t\tHe "left.\nx1\t0\t*\tHim\x85 left".\n',
            "CoLA/dev.tsv": "x1\t1\t\tShe left.",
            "CoLA/test.tsv": "index\tsentence\n0\tThey left.\n",
        },
    )
    spec = task("cola", {"train": 2, "dev": 1, "test": 1})
    assert splits_of(spec, source) == ["train", "dev", "test"]
    assert read(spec, source, "train") == [
        Example(0, ['He "left.'], 1),
        Example(1, ['Him\x85 left".'], 0),
    ]
    assert read(spec, source, "dev") == [Example(0, ["She left."], 1)]
    assert read(spec, source, "test") == [Example(0, ["They left."], None)]


def test_mrpc_starts_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t" A .\tA .\n0\t7\t8\tB\t" C'
    source = glue(tmp_path, {"MRPC/train.tsv": text})
    assert read(task("mrpc", {"train": 2}), source, "train") == [
        Example(0, ['" A .', "A ."], 1),
        Example(1, ["B", '" C'], 0),
    ]


def test_qqp_is_partly_quoted(tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = '1\t2\t3\t"Is ""a"" a word?"\tIs "a" one?\t1\n4\t5\t6\tA 15" one?\t"B\n"\t0\n'
    source = glue(tmp_path, {"QQP/train.tsv": header + rows})
    assert read(task("qqp", {"train": 2}), source, "train") == [
        Example(0, ['Is "a" a word?', 'Is "a" one?'], 1),
        Example(1, ['A 15" one?', "B\n"], 0),
    ]


def test_mnli_has_12_and_16_columns_and_10_in_its_two_test_sets(tmp_path: Path) -> None:
    row = ["0", "1", "1e", "fiction", "", "", "", "", "A man left.", "Somebody left."]

    def table(columns: list[str], label: str) -> str:
        votes = ["neutral"] * (len(columns) - len(row) - 1)
        return "\t".join(columns) + "\n" + "\t".join([*row, *votes, label]) + "\n"

    def unlabelled(text: str) -> str:
        return "\t".join(MNLI[:10]) + "\n" + "\t".join([*row[:9], text]) + "\n"

    dev = [*MNLI, "label2", "label3", "label4", "label5", "gold_label"]
    source = glue(
        tmp_path,
        {
            "MNLI/train.tsv": table([*MNLI, "gold_label"], "entailment"),
            "MNLI/dev_matched.tsv": table(dev, "contradiction"),
            "MNLI/dev_mismatched.tsv": table(dev, "neutral"),
            "MNLI/test_matched.tsv": unlabelled("He left."),
            "MNLI/test_mismatched.tsv": unlabelled("She left."),
        },
    )
    spec = task("mnli", dict.fromkeys(["train", "dev", "dev_mm", "test", "test_mm"], 1))
    found = {name: read(spec, source, name)[0] for name in splits_of(spec, source)}
    labels = {"train": 0, "dev": 2, "dev_mm": 1, "test": None, "test_mm": None}
    assert {name: row.label for name, row in found.items()} == labels
    assert (found["test"].text[1], found["test_mm"].text[1]) == ("He left.", "She left.")
    assert found["train"].text == ["A man left.", "Somebody left."]


SST2 = "sentence\tlabel\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("sst2", "SST-2/train.tsv", SST2 + "a\t1\n \t0\n", "line 3: sentence is empty"),
        ("sst2", "SST-2/train.tsv", SST2 + "a\t1\nb\t2\n", "line 3: label '2' is none of 0, 1"),
        ("sst2", "SST-2/train.tsv", SST2 + "a\t1\nb\t\n", "line 3: label is empty"),
        ("sst2", "SST-2/train.tsv", SST2 + "a\t1\nb\n", "line 3: 1 fields instead of 2"),
        ("sst2", "SST-2/train.tsv", SST2 + "a\t1\n\nb\t0\n", "line 3: 1 fields instead of 2"),
        ("sst2", "SST-2/train.tsv", "a\t1\nb\t0\n", "line 1: the header is a, 1, not sentence"),
        ("sst2", "SST-2/train.tsv", SST2, "line 2: no rows"),
        ("rte", "RTE/train.tsv", RTE + "0\ta\t\tentailment\n", "line 2: sentence2 is empty"),
        ("rte", "RTE/train.tsv", RTE + "0\ta\tb\tEntailment\n", "line 2: label 'Entailment' is"),
        ("cola", "CoLA/train.tsv", "index\tsentence\n0\ta\n", "line 1: 2 fields instead of 4"),
        ("rte", "RTE/train.tsv", "version https://git-lfs.github.com/spec/v1\n", "line 1: a poin"),
    ],
)
def test_glue_refuses_naming_file_and_line(
    tmp_path: Path, name: str, file: str, content: str, message: str
) -> None:
    source = glue(tmp_path, {file: content})
    with pytest.raises(InputError, match=f"{file}: {message}"):
        read(task(name, {"train": 2}), source, "train")


def test_glue_counts_its_rows(tmp_path: Path) -> None:
    source = glue(tmp_path, {"SST-2/train.tsv": SST2 + "a\t1\nb\t0\n"})
    with pytest.raises(InputError, match=r"train\.tsv: 2 rows, officially 67349; .*subset: true"):
        read(task("sst2"), source, "train")
    assert len(read(task("sst2", subset=True), source, "train")) == 2
    for subset in (True, False):
        with pytest.raises(InputError, match="2 rows, officially 1; .*rows.train"):
            read(task("sst2", {"train": 1}, subset=subset), source, "train")


def test_a_file_named_subset_is_taken_where_the_study_says_so(tmp_path: Path) -> None:
    source = glue(tmp_path, {"SST-2/train.subset.tsv": SST2 + "a\t1\n"})
    with pytest.raises(InputError, match=r"train\.tsv: no such file, only train\.subset\.tsv"):
        read(task("sst2", {"train": 1}), source, "train")
    assert len(read(task("sst2", subset=True), source, "train")) == 1


def test_source_without_a_folder_or_the_task(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"source\.folder: missing"):
        read(resolve("rte"), Source(kind="glue"), "train")
    with pytest.raises(InputError, match="RTE/train.tsv: no such file"):
        read(resolve("rte"), Source(kind="glue", folder=str(tmp_path)), "train")
    with pytest.raises(InputError, match=r"tasks\.rte: source generator .* hub or glue"):
        splits_of(resolve("rte"), Source(kind="generator"))
    with pytest.raises(InputError, match=r"tasks\.rte: source files .*the key files"):
        splits_of(resolve("rte"), Source(kind="files"))
    with pytest.raises(InputError, match=r"tasks\.rte\.hub: no dev_mm"):
        splits_of(resolve("rte", {"dev_sets": {"dev": "", "dev_mm": "_mm"}}), Source())


OWN = {
    "title": "Mine",
    "text": ["one", "two"],
    "label": "class",
    "labels": ["0", "1"],
    "metrics": ["accuracy"],
    "selection_metric": "accuracy",
}


def own(folder: Path, name: str, content: str, **more: Any) -> list[Example]:
    (folder / name).write_bytes(content.encode())
    files = {"train": name, "dev": name, "test": name}
    spec = resolve("mine", OWN | {"files": files} | more)
    return read(spec, Source(kind="files", folder=str(folder)), "train")


def test_own_files_in_every_format(tmp_path: Path) -> None:
    expected = [Example(0, ["a, b", "c"], 1), Example(1, ["d", "e"], 0)]
    assert own(tmp_path, "a.csv", 'class,one,two\n1,"a, b",c\n0,d,e\n') == expected
    assert own(tmp_path, "a.tsv", "one\ttwo\tid\tclass\na, b\tc\t7\t1\nd\te\t8\t0\n") == expected
    lines = '{"one": "a, b", "two": "c", "class": 1}\n{"one": "d", "two": "e", "class": "0"}\n'
    assert own(tmp_path, "a.jsonl", lines) == expected


def test_own_files_spelling_labels_in_their_way(tmp_path: Path) -> None:
    content = '{"one": "a", "two": "b", "class": true}\n{"one": "c", "two": "d", "class": "no"}\n'
    values = {"true": "1", "no": "0"}
    assert [row.label for row in own(tmp_path, "a.jsonl", content, values=values)] == [1, 0]


def test_own_test_file_may_lack_the_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("one,two\na,b\n")
    spec = resolve("mine", OWN | {"files": {"train": "x.csv", "dev": "x.csv", "test": "t.csv"}})
    source = Source(kind="files", folder=str(tmp_path))
    assert splits_of(spec, source) == ["train", "dev", "test"]
    assert read(spec, source, "test") == [Example(0, ["a", "b"], None)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "one,class\na,1\n", "line 2: no column 'two' among one, class"),
        ("a.csv", "one,two\na,b\n", "line 2: no column 'class' among one, two"),
        ("a.csv", 'one,two,class\n"a\nb",c,1\nd,"",0\n', "line 4: two is empty"),
        ("a.jsonl", '{"one": "a", "two": "b"}\n', "line 1: no column 'class'"),
        ("a.jsonl", '{"one": 7, "two": "b", "class": 1}\n', "line 1: one is 7, not text"),
        ("a.jsonl", '{"one": "a", "two": "b", "class": null}\n', "line 1: class is empty"),
        ("a.jsonl", '{"one": "a", "two": "b", "class": 1.0}\n', "line 1: class '1.0' is none"),
    ],
)
def test_own_files_refused_naming_file_and_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=f"{name}: {message}"):
        own(tmp_path, name, content)


def hub_copy(
    folder: Path, labels: list[str], rows: dict[str, list[tuple[str, str, int]]]
) -> Source:
    """A folder as a clone of the hub's repository has it."""
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features(
        {
            "sentence1": Value("string"),
            "sentence2": Value("string"),
            "label": ClassLabel(names=labels),
            "idx": Value("int32"),
        }
    )
    for split, content in rows.items():
        one, two, label = zip(*content, strict=True)
        columns = {"sentence1": one, "sentence2": two, "label": label, "idx": range(len(one))}
        table = Dataset.from_dict({k: list(v) for k, v in columns.items()}, features=features)
        (folder / "rte").mkdir(exist_ok=True)
        table.to_parquet(folder / "rte" / f"{split}-00000-of-00001.parquet")
    return Source(kind="hub", folder=str(folder), test=True)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path


LABELS = ["entailment", "not_entailment"]


def test_hub_from_a_copy_of_its_repository(own_cache: Path) -> None:
    source = hub_copy(
        own_cache,
        LABELS,
        {
            "train": [("a\x85", "b", 1), ("c", "d", 0)],
            "validation": [("e", "f", 0)],
            "test": [("g", "h", -1)],
        },
    )
    spec = task("rte", {"train": 2, "dev": 1, "test": 1})
    assert read(spec, source, "train") == [
        Example(0, ["a\x85", "b"], 1),
        Example(1, ["c", "d"], 0),
    ]
    assert read(spec, source, "dev") == [Example(0, ["e", "f"], 0)]
    assert read(spec, source, "test") == [Example(0, ["g", "h"], None)]
    with pytest.raises(InputError, match="rte, train: 2 rows, officially 2490"):
        read(resolve("rte"), source, "train")


@pytest.mark.parametrize(
    ("labels", "rows", "message"),
    [
        (LABELS[::-1], [("a", "b", 0)], "the labels are .*not_entailment.*in that order"),
        (LABELS, [("a", "b", 0), ("c", " ", 0)], "row 2: sentence2 is empty"),
        (LABELS, [("a", "b", 0), ("c", "d", -1)], "row 2: label '-1' is none of 0, 1"),
    ],
)
def test_hub_refuses_naming_the_row(
    own_cache: Path, labels: list[str], rows: list[tuple[str, str, int]], message: str
) -> None:
    source = hub_copy(own_cache, labels, {"train": rows})
    with pytest.raises(InputError, match=f"rte, train: {message}"):
        read(task("rte", {"train": len(rows)}), source, "train")


def test_hub_copy_without_the_files(tmp_path: Path) -> None:
    source = Source(folder=str(tmp_path))
    with pytest.raises(InputError, match=r"rte/train-\*\.parquet: no such file"):
        read(resolve("rte"), source, "train")
    (tmp_path / "rte").mkdir()
    pointer = tmp_path / "rte" / "train-00000-of-00001.parquet"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="parquet: line 1: a pointer"):
        read(resolve("rte"), source, "train")


def test_hub_that_cannot_be_reached(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="glue: rte, train: cannot be read .*source.folder"):
        read(resolve("rte"), Source(), "train")


# What the local copy of GLUE is known to hold: rows, and rows of one class.
REAL = {
    ("cola", "train"): (8551, None),
    ("cola", "dev"): (1043, (1, 721)),
    ("sst2", "train"): (67349, None),
    ("sst2", "dev"): (872, (1, 444)),
    ("mrpc", "train"): (3668, (1, 2474)),
    ("mrpc", "dev"): (408, (1, 279)),
    ("rte", "train"): (2490, None),
    ("rte", "dev"): (277, (0, 146)),
    ("qnli", "dev"): (5463, None),
    ("mnli", "dev"): (9815, None),
}


@pytest.mark.parametrize("name", ["cola", "sst2", "mrpc", "rte", "qnli", "mnli", "qqp"])
def test_real_glue(name: str) -> None:
    folder = os.environ.get("ACL_BERT_GLUE_DIR")
    if not folder:
        pytest.skip("ACL_BERT_GLUE_DIR names no folder in GLUE's TSV layout")
    source = Source(kind="glue", folder=folder)
    spec = resolve(name, {"subset": name in ("qnli", "mnli", "qqp")})
    for split in splits_of(spec, source):
        rows = read(spec, source, split)
        size, of_class = REAL.get((name, split), (len(rows), None))
        assert len(rows) == size
        if of_class:
            assert Counter(row.label for row in rows)[of_class[0]] == of_class[1]
        assert not any(text.startswith('"') and '""' in text for row in rows for text in row.text)
