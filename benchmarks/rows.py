"""The rows that the bench trains on: real RTE where it is at hand, else rows of RTE's lengths."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from acl_bert.config.study import load_study
from acl_bert.data.tokens import TokenStore
from acl_bert.runs.files import tokens_path
from acl_bert.study.inputs import bring_up_to_date

GLUE_DIR = os.environ.get("ACL_BERT_GLUE_DIR")  # a folder in GLUE's TSV layout
TASK = "rte" if GLUE_DIR else "rte_like"
ENCODER = "encoder"
SOURCE = "RTE's own rows" if GLUE_DIR else "generated rows of RTE's lengths"

# Of RTE's 2,490 training pairs under BERT's uncased tokenizer, special tokens included.
LENGTH_DECILES = (13, 33, 40, 45, 50, 56, 62, 72, 103, 135, 289)
TRAIN_ROWS, DEV_ROWS = 2490, 64
HYPOTHESIS, SPECIAL = 5, 3  # tokens of a row that are not its premise's
WORDS = ("the", "of", "and", "to", "in", "is", "was", "for", "on", "that", "with", "as", "at", "by")


def write_study(folder: Path, encoder: str, training: dict[str, Any]) -> Path:
    """A study of one task in `folder`, prepared and tokenised as any other; its config's path."""
    source = {"kind": "glue", "folder": str(Path(GLUE_DIR).resolve())} if GLUE_DIR else {
        "kind": "files", "folder": str(folder)
    }  # fmt: skip
    task = {} if GLUE_DIR else {
        "title": "RTE's lengths",
        "text": ["sentence1", "sentence2"],
        "labels": ["0", "1"],
        "metrics": ["accuracy"],
        "selection_metric": "accuracy",
        "files": {"train": "train.jsonl", "dev": "dev.jsonl"},
    }  # fmt: skip
    study = {
        "name": "bench",
        "source": source,
        "tasks": {TASK: task},
        "encoders": {ENCODER: {"path": encoder}},
        "methods": {"ce": {}},
        "seeds": [1],
        "training": training,
        "tracking": {"enabled": False},
    }
    if not GLUE_DIR:
        generator = np.random.default_rng(0)
        _write_rows(folder / "train.jsonl", TRAIN_ROWS, generator)
        _write_rows(folder / "dev.jsonl", DEV_ROWS, generator)
    config = folder / "study.yaml"
    config.write_text(yaml.safe_dump(study), encoding="utf-8")
    bring_up_to_date(load_study(config), folder / "bench", TASK, ENCODER)
    return config


def read_tokens(folder: Path) -> TokenStore:
    return TokenStore(tokens_path(folder / "bench", TASK, ENCODER))


def _write_rows(path: Path, count: int, generator: np.random.Generator) -> None:
    shares = np.linspace(0, 1, len(LENGTH_DECILES))
    lengths = np.interp(generator.random(count), shares, LENGTH_DECILES).astype(int)
    with path.open("w", encoding="utf-8") as stream:
        for length in lengths:
            # Each word is one token.
            words = generator.choice(WORDS, length - SPECIAL)
            row = {
                "sentence1": " ".join(words[HYPOTHESIS:]),
                "sentence2": " ".join(words[:HYPOTHESIS]),
                "label": str(generator.integers(2)),
            }
            stream.write(json.dumps(row) + "\n")
