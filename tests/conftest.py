"""A small encoder with random weights, in the hub's layout, and a task tokenised for it."""

import os
from collections.abc import Generator

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test that reaches for the hub is a fault
os.environ.pop("MLFLOW_TRACKING_URI", None)

from pathlib import Path

import pytest
from words import WORDS

# Skipping is for what not every machine has; in CI everything else is there, so that a skip of
# anything else is a fault.
MAY_BE_ABSENT = ["ACL_BERT_GLUE_DIR", "GPU"]
if os.environ.get("ACL_BERT_NO_PACKAGES"):  # .ci/run could not install them
    MAY_BE_ABSENT.append("Debian packages")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(name in reason for name in MAY_BE_ABSENT):
            report.outcome, report.longrepr = "failed", f"must not be skipped in CI: {reason}"
    return report


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder whose parent is this test's too: a study's store lies beside the study."""
    folder = tmp_path / tmp_path.name
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 3 layers, width 32, with a pooler."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-encoder")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizerFast(
        vocab={word: number for number, word in enumerate(vocabulary)}, model_max_length=64
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_task(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Tokens of a task with 96 train, 32 selection and 48 dev rows: is the first noun `cat`?"""
    import random

    from acl_bert.data.prepare import prepare
    from acl_bert.data.spec import Selection, Source, resolve
    from acl_bert.data.tokens import tokenise
    from acl_bert.encoders import encoder_fingerprint

    folder = tmp_path_factory.mktemp("tiny-task")
    draw = random.Random(0)
    files = {}
    for split, size in (("train", 96), ("selection", 32), ("dev", 48)):
        files[split] = str(folder / f"{split}.tsv")
        lines = ["sentence\tlabel"]
        for _ in range(size):
            noun = draw.choice(["cat", "dog"])
            rest = draw.choices(WORDS, k=draw.randint(2, 12))
            lines.append(" ".join(["the", noun, *rest]) + f"\t{'yes' if noun == 'cat' else 'no'}")
        Path(files[split]).write_text("\n".join(lines) + "\n")
    spec = resolve(
        "tiny",
        {
            "title": "Tiny",
            "text": ["sentence"],
            "labels": ["no", "yes"],
            "metrics": ["accuracy", "f1", "matthews"],
            "selection_metric": "accuracy",
            "files": files,
        },
    )
    prepare(spec, Source(kind="files"), Selection(), folder / "data")
    fingerprint = encoder_fingerprint(str(tiny_encoder), None)
    tokenise(folder / "data", str(tiny_encoder), None, 32, folder / "tokens", "tiny", fingerprint)
    return folder / "tokens"
