import csv
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    RobertaConfig,
)
from words import WORDS

from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import CRITERIA, criterion_values, exits_taken
from acl_bert.inference.predict import (
    COLUMNS,
    Rule,
    exit_early,
    load,
    predict,
    predict_file,
    read_texts,
)
from acl_bert.model import (
    ClassifierConfig,
    EncoderClassifier,
    MultiExitConfig,
    MultiExitForSequenceClassification,
)

SMALL: dict[str, Any] = {
    "vocab_size": 20,
    "max_position_embeddings": 70,
    "initializer_range": 0.3,
    "pad_token_id": 0,  # the tokenizer's
}
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
ENCODERS = {
    "bert": lambda: BertConfig(**SMALL, **SHAPE),
    "roberta": lambda: RobertaConfig(**SMALL, **SHAPE),
    "distilbert": lambda: DistilBertConfig(**SMALL, dim=32, n_layers=5, n_heads=4, hidden_dim=64),
    "mpnet": lambda: MPNetConfig(**SMALL, **SHAPE),
    "electra": lambda: ElectraConfig(**SMALL, **SHAPE, embedding_size=32),
}


def save(folder: Path, tokenizer: Path, kind: str = "bert", many: bool = True, classes: int = 3):
    """A kept model with random weights, its heads unsure of some texts and sure of others."""
    torch.manual_seed(0)
    config, model_class = (
        (MultiExitConfig, MultiExitForSequenceClassification)
        if many
        else (ClassifierConfig, EncoderClassifier)
    )
    names = ["no", "maybe", "yes"][:classes]
    model = model_class(config(encoder=ENCODERS[kind](), id2label=dict(enumerate(names))))
    for head in model.heads:
        head.classifier.weight.data.normal_(std=0.5)
    model.save_pretrained(folder)
    own = AutoTokenizer.from_pretrained(tokenizer)
    own.model_max_length = 48
    own.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def kept(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("kept"), tiny_encoder)


def draw(count: int, most: int = 44) -> list[list[str]]:
    generator = random.Random(0)
    return [
        [" ".join(generator.choices(WORDS, k=generator.randint(1, most)))] for _ in range(count)
    ]


@torch.inference_mode()
def all_logits(model: EncoderClassifier, tokenizer: Any, texts: list[list[str]]) -> np.ndarray:
    """(texts, exits, classes), of a full forward pass with much padding."""
    options = {"padding": "max_length", "truncation": True, "return_tensors": "pt"}
    inputs = tokenizer(*zip(*texts, strict=True), **options)
    names = ("input_ids", "attention_mask", "token_type_ids")
    logits: np.ndarray = model(**{name: inputs[name] for name in names}).logits.numpy()
    return logits


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet"])
def test_exits_and_predictions_are_those_of_the_sweep(
    kind: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    """For every criterion, batch size and padding, but for samples on the threshold itself."""
    model, tokenizer = load(save(tmp_path / "model", tiny_encoder, kind))
    texts = draw(60)
    logits = all_logits(model, tokenizer, texts)
    top = np.sort(logits, axis=2)
    tied = (top[:, :, -1] - top[:, :, -2] < 1e-5).any(axis=1)
    near, compared, left_at = 0, 0, set()
    for criterion, kind_of in CRITERIA.items():
        values = criterion_values(criterion, logits, model.exits)
        grid = kind_of.thresholds(values, model.exits)
        for threshold in grid[20::30] if len(grid) == 101 else grid[::2]:
            place = exits_taken(criterion, values, np.array([threshold]))[:, 0]
            exits = np.asarray(model.exits)[place]
            classes = logits.argmax(axis=2)[np.arange(len(texts)), place]
            if criterion in ("entropy", "max_probability"):
                doubtful = (np.abs(values - threshold) < 1e-5).any(axis=1) | tied
            else:
                doubtful = tied
            for batch_size in (1, 7, 32):
                rule = Rule(criterion, threshold.item())
                found = predict(model, tokenizer, texts, rule, batch_size)
                differs = (found.exits != exits) | (found.classes != classes)
                assert not (differs & ~doubtful).any(), (criterion, threshold, batch_size)
                near += int(doubtful.sum())
                compared += len(texts)
            assert found.layers == pytest.approx(exits.mean(), abs=0.05)
            assert found.speedup == pytest.approx(5 / found.layers)
            left_at |= set(found.exits.tolist())
    assert near <= compared / 100 and left_at == {1, 2, 3, 4, 5}


def test_samples_that_left_go_through_no_further_layer(kept: Path) -> None:
    model, tokenizer = load(kept)
    texts = draw(32)
    values = criterion_values("entropy", all_logits(model, tokenizer, texts), model.exits)
    seen: list[tuple[int, ...]] = []
    layers = model.encoder.encoder.layer
    for layer in layers:
        layer.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape[:2])))
    threshold = float(np.quantile(values[:, :-1], 0.4))
    found = predict(model, tokenizer, texts, Rule("entropy", threshold))
    still_in = [int((found.exits >= layer).sum()) for layer in range(1, 6)]
    assert [rows for rows, _ in seen] == still_in[: len(seen)] and not any(still_in[len(seen) :])
    assert len(set(still_in)) >= 4
    lengths = np.array([len(tokenizer(*text)["input_ids"]) for text in texts])
    longest = [lengths[found.exits >= layer].max() for layer in range(1, len(seen) + 1)]
    assert [length for _, length in seen] == longest
    seen.clear()
    predict(model, tokenizer, texts, Rule("fixed", 2))
    assert len(seen) == 2


@pytest.mark.parametrize("kind", ["bert", "electra"])
@pytest.mark.parametrize("many", [True, False])
def test_without_a_rule_every_layer_runs(
    kind: str, many: bool, tiny_encoder: Path, tmp_path: Path
) -> None:
    model, tokenizer = load(save(tmp_path / "model", tiny_encoder, kind, many))
    texts = draw(40)
    logits = all_logits(model, tokenizer, texts)
    found = predict(model, tokenizer, texts, batch_size=7)
    np.testing.assert_allclose(found.logits, logits[:, -1] if many else logits, atol=1e-5)
    assert (found.exits == 5).all() and found.layers == 5 and found.speedup == 1


def test_a_text_longer_than_the_training_allowed_is_cut(kept: Path) -> None:
    model, tokenizer = load(kept)
    long = ["cat dog " * 100, "bird"]
    found = predict(model, tokenizer, [long], Rule("fixed", 3))
    np.testing.assert_allclose(
        found.logits, all_logits(model, tokenizer, [["cat dog " * 22, "bird"]])[:, 2], atol=1e-5
    )


def test_the_file_has_each_texts_label_exit_and_probability(kept: Path, tmp_path: Path) -> None:
    texts = draw(30)
    path, out = tmp_path / "texts.txt", tmp_path / "out" / "predictions.csv"
    path.write_text("".join(f"{text}\n" for (text,) in texts))
    before = torch.get_num_threads()
    found = predict_file(kept, path, out, rule=Rule("max_probability", 0.6), threads=1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(COLUMNS)
    assert [int(row["index"]) for row in rows] == list(range(30))
    assert {row["prediction"] for row in rows} <= {"no", "maybe", "yes"}
    assert [int(row["exit"]) for row in rows] == found.exits.tolist()
    likely = np.array([float(row["probability"]) for row in rows])
    assert ((likely > 0.6) == (found.exits < 5))[found.exits < 5].all()
    model, tokenizer = load(kept)
    probabilities = torch.softmax(torch.tensor(all_logits(model, tokenizer, texts)), -1).numpy()
    own = probabilities[np.arange(30), found.exits - 1]
    np.testing.assert_allclose(likely, own.max(axis=1), atol=1e-5)
    names = [["no", "maybe", "yes"][chosen] for chosen in own.argmax(axis=1)]
    assert [row["prediction"] for row in rows] == names


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv", 'left,n,right\n"one, two",1,three\nfour,2,five\n', ("left", "right")),
        ("a.tsv", "left\tright\none, two\tthree\nfour\tfive\n", ("left", "right")),
        (
            "a.jsonl",
            '{"left": "one, two", "right": "three"}\n{"right": "five", "left": "four"}\n',
            ("left", "right"),
        ),
        ("a.txt", "one, two\nthree\u2028four\n", ()),
    ],
)
def test_texts_are_read(name: str, content: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    expected = (
        [["one, two", "three"], ["four", "five"]]
        if columns
        else [["one, two"], ["three\u2028four"]]
    )
    assert read_texts(tmp_path / name, columns) == expected


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.txt", "one\n \nthree\n", (), "a.txt: line 2: text is empty"),
        ("a.txt", "", (), "a.txt: line 1: the file is empty"),
        ("a.txt", "one\n", ("text",), "no columns"),
        ("a.csv", "text\none\n", (), "name the one or two columns"),
        ("a.csv", "text\none\n", ("a", "b", "c"), "name the one or two columns"),
        ("a.csv", "text\none\n", ("body",), "a.csv: line 2: no column 'body' among text"),
        ("a.csv", "text,n\none,1\n,2\n", ("text",), "a.csv: line 3: text is empty"),
        ("a.csv", "text\n", ("text",), "no rows"),
        ("a.jsonl", '{"text": 3}\n', ("text",), "a.jsonl: line 1: text is 3, not text"),
        ("a.jsonl", '{"text": "\\ud83d"}\n', ("text",), "half a character pair"),
        ("a.tsv", 'text\n"one\n', ("text",), "starts with a quote"),
        ("a.xlsx", "", ("text",), "unknown suffix"),
        ("b.txt", None, (), "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_explained(
    name: str, content: str | None, columns: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_texts(tmp_path / name, columns)


def test_a_quoted_tsv_is_read_as_it_is_meant(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\n"one ""x"""\n')
    assert read_texts(tmp_path / "a.tsv", ["text"], "csv") == [['one "x"']]
    assert read_texts(tmp_path / "a.tsv", ["text"], "none") == [['"one ""x"""']]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule("entropy", 1.5), "between 0 and 1"),
        (Rule("patience", 6), "from 1 to 5"),
        (Rule("fixed", 6), "no exit on that layer"),
    ],
)
def test_a_wrong_threshold_leaves_no_file(
    kept: Path, tmp_path: Path, rule: Rule, message: str
) -> None:
    (tmp_path / "a.txt").write_text("the cat\n")
    with pytest.raises(InputError, match=message):
        predict_file(kept, tmp_path / "a.txt", tmp_path / "out.csv", rule=rule)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("option", "shown"), [("batch_size", "batch size"), ("threads", "threads")]
)
def test_at_least_one_of_each(kept: Path, tmp_path: Path, option: str, shown: str) -> None:
    with pytest.raises(InputError, match=f"{shown} 0"):
        predict_file(kept, tmp_path / "a.txt", tmp_path / "out.csv", **{option: 0})


def test_a_model_that_cannot_leave_early_says_so(tiny_encoder: Path, tmp_path: Path) -> None:
    single, tokenizer = load(save(tmp_path / "single", tiny_encoder, many=False))
    with pytest.raises(InputError, match="one exit only, on layer 5"):
        predict(single, tokenizer, draw(2), Rule("entropy", 0.5))
    electra, tokenizer = load(save(tmp_path / "electra", tiny_encoder, "electra"))
    with pytest.raises(InputError, match="'electra'.*bert, roberta, distilbert, mpnet"):
        predict(electra, tokenizer, draw(2), Rule("entropy", 0.5))


def test_a_folder_that_is_no_kept_model_is_explained(
    kept: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(kept, tmp_path / name))

    with pytest.raises(InputError, match="nowhere: holds no config.json"):
        load(tmp_path / "nowhere")
    (folder := copy("a")).joinpath("model.safetensors").unlink()
    with pytest.raises(InputError, match="holds no model.safetensors"):
        load(folder)
    for path in (folder := copy("b")).glob("tokenizer*"):
        path.unlink()
    with pytest.raises(InputError, match="holds no tokenizer"):
        load(folder)
    (folder := copy("c")).joinpath("model.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match="cannot be loaded"):
        load(folder)
    (folder := copy("d")).joinpath("config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be loaded"):
        load(folder)
    BertForSequenceClassification(BertConfig(**SMALL, **SHAPE)).save_pretrained(copy("e"))
    with pytest.raises(InputError, match="holds a BertForSequenceClassification"):
        load(tmp_path / "e")
    path = copy("f") / "config.json"
    config = json.loads(path.read_text())
    config["encoder"]["num_hidden_layers"] = 6
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match="model.safetensors lacks encoder.encoder.layer.5"):
        load(path.parent)
    with pytest.raises(InputError, match="fewer than two classes"):
        load(save(tmp_path / "g", tiny_encoder, classes=1))


@torch.inference_mode()
def test_a_batch_that_leaves_at_once_runs_one_layer(kept: Path) -> None:
    model, tokenizer = load(kept)
    inputs = tokenizer(["the cat", "a dog"], return_tensors="pt")
    logits, exits = exit_early(model, dict(inputs), Rule("max_probability", 0.0))
    assert exits.tolist() == [1, 1] and logits.shape == (2, 3)
