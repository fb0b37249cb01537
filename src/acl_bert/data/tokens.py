"""Tokenised once per task and encoder, read memory-mapped by every run.

A split is a few flat arrays: row i's token ids are ids[offsets[i]:offsets[i + 1]]. Reading needs
numpy alone; the tokenizer is imported where it is used.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from acl_bert.data.prepare import read_split, read_task
from acl_bert.errors import InputError, first_line
from acl_bert.files import atomic_folder, read_json, to_json
from acl_bert.runs.files import TOKENS

_CHUNK = 10_000  # rows tokenised at once: bounds the memory that MNLI takes


def tokenise(
    data_folder: Path,
    encoder_path: str,
    revision: str | None,
    max_length: int,
    folder: Path,
    encoder: str,
    encoder_fingerprint: str,
) -> None:
    """Tokenise a prepared task's splits and publish `folder`.

    `encoder_path` is a hub id or a local folder, `encoder` how the study names it (recorded). A
    row longer than `max_length` tokens loses tokens from the end of its longer text; tokens.json
    counts such rows. Raises InputError if the tokenizer cannot be had or is shorter than that.
    """
    tokenizer = load_tokenizer(encoder_path, revision)
    longest = min(tokenizer.model_max_length, _positions(encoder_path, revision))
    if max_length > longest:
        raise InputError(
            f"training.max_length: {max_length} is more than the {longest:.0f} "
            f"tokens that {encoder} takes; lower it"
        )
    task = read_task(data_folder)
    ids_type = np.uint16 if len(tokenizer) <= 2**16 else np.int32
    digest = hashlib.sha256()
    truncated = {}
    with atomic_folder(folder) as aside:
        for split in task["splits"]:
            arrays, truncated[split] = _tokenise_split(
                read_split(data_folder, split), tokenizer, max_length, ids_type
            )
            (aside / split).mkdir()
            for name, array in sorted(arrays.items()):
                np.save(aside / split / f"{name}.npy", array)
                digest.update(f"{split}/{name} {array.dtype} {len(array)}\n".encode())
                digest.update(array.tobytes())
        description = {
            "fingerprint": digest.hexdigest(),
            "data_fingerprint": task["fingerprint"],
            "encoder": encoder,
            "revision": revision,
            "encoder_fingerprint": encoder_fingerprint,
            "max_length": max_length,
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "truncated": truncated,
            "task": task,
        }
        (aside / TOKENS).write_text(to_json(description), encoding="utf-8")


def is_tokenised(
    data_folder: Path, max_length: int, folder: Path, encoder_fingerprint: str
) -> bool:
    """Whether `folder` holds what `tokenise` would make of the prepared task now."""
    if not (folder / TOKENS).is_file():
        return False
    made = TokenStore(folder).description
    return bool(
        made["data_fingerprint"] == read_task(data_folder)["fingerprint"]
        and made["max_length"] == max_length
        and made["encoder_fingerprint"] == encoder_fingerprint
    )


# In these the first token has the position after padding's; those up to it are never used.
_AFTER_PADDING = {
    "camembert", "data2vec-text", "ibert", "lilt", "longformer", "luke", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


def _positions(encoder_path: str, revision: str | None) -> float:
    """How many tokens an encoder has positions for; not every tokenizer says so itself."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(encoder_path, revision=revision)
    positions = getattr(config, "max_position_embeddings", float("inf"))
    if config.model_type in _AFTER_PADDING:
        return float(positions - config.pad_token_id - 1)
    return float(positions)


def load_tokenizer(encoder_path: str, revision: str | None) -> Any:
    from transformers import AutoTokenizer  # slow to import

    try:
        tokenizer = AutoTokenizer.from_pretrained(encoder_path, revision=revision, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{encoder_path}: no tokenizer can be loaded ({first_line(error)}); "
            "check the encoder's path and revision, and the network"
        ) from error
    if tokenizer.pad_token_id is None:
        raise InputError(
            f"{encoder_path}: the tokenizer has no padding token; take another encoder"
        )
    return tokenizer


def _tokenise_split(
    rows: Iterator[dict[str, Any]], tokenizer: Any, max_length: int, ids_type: type[np.generic]
) -> tuple[dict[str, np.ndarray], int]:
    columns: dict[str, list[np.ndarray]] = {}
    truncated = 0
    # Long rows are tokenised a second time: only from the whole row can it be told that it is long.
    options = {"return_attention_mask": False, "verbose": False}
    while chunk := list(islice(rows, _CHUNK)):
        texts = [row["text"] for row in chunk]
        encoded = tokenizer(*zip(*texts, strict=True), **options)
        long = [i for i, row in enumerate(encoded["input_ids"]) if len(row) > max_length]
        truncated += len(long)
        if long:
            again = tokenizer(
                *zip(*(texts[i] for i in long), strict=True),
                truncation="longest_first",
                max_length=max_length,
                **options,
            )
            for key in again:
                for i, row in zip(long, again[key], strict=True):
                    encoded[key][i] = row
        ids = encoded["input_ids"]
        made = {
            "ids": np.fromiter(chain.from_iterable(ids), ids_type),
            "lengths": np.array([len(row) for row in ids]),
            "index": np.array([row["index"] for row in chunk], np.int64),
        }
        if "token_type_ids" in encoded:
            made["types"] = np.fromiter(chain.from_iterable(encoded["token_type_ids"]), np.uint8)
        if all("label" in row for row in chunk):
            made["labels"] = np.array([row["label"] for row in chunk], np.int64)
        for name, values in made.items():
            columns.setdefault(name, []).append(values)
    arrays = {name: np.concatenate(values) for name, values in columns.items()}
    arrays["offsets"] = np.concatenate([[0], np.cumsum(arrays.pop("lengths"))]).astype(np.int64)
    return arrays, truncated


class Split:
    """The n rows of a split: `lengths` (tokens), `labels` (None if unlabelled), `index`."""

    def __init__(self, folder: Path, pad_token_id: int) -> None:
        # Views of the mapped memory: np.memmap itself is slow to index.
        try:
            arrays = {
                path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in folder.glob("*.npy")
            }
            offsets = arrays["offsets"]
            self._ids, self.index = arrays["ids"], arrays["index"]
        except (ValueError, KeyError) as error:
            raise InputError(
                f"{folder}: damaged ({error}); remove the tokens and tokenise again"
            ) from error
        self._types = arrays.get("types")
        self._starts = offsets[:-1]
        self._pad = pad_token_id
        self.lengths: np.ndarray = np.diff(offsets)
        self.labels: np.ndarray | None = arrays.get("labels")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def targets(self) -> np.ndarray:
        """The labels of a split that has them; GLUE's test sets have none."""
        assert self.labels is not None
        return self.labels

    def batch(self, indices: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        """The rows at `indices`, padded at the end to the longest of them.

        Returns `input_ids`, `attention_mask` and, if the encoder has segments, `token_type_ids`:
        int64, (rows, longest length).
        """
        rows = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[rows]
        positions = np.arange(lengths.max())
        real = positions < lengths[:, None]
        source = (self._starts[rows, None] + positions)[real]
        input_ids = np.full(real.shape, self._pad, dtype=np.int64)
        input_ids[real] = self._ids[source]
        batch = {"input_ids": input_ids, "attention_mask": real.astype(np.int64)}
        if self._types is not None:
            token_types = np.zeros(real.shape, dtype=np.int64)
            token_types[real] = self._types[source]
            batch["token_type_ids"] = token_types
        return batch


class TokenStore:
    """A folder that `tokenise` published; `description` is its tokens.json."""

    def __init__(self, folder: Path) -> None:
        path = folder / TOKENS
        self.folder = folder
        try:
            self.description: dict[str, Any] = read_json(path)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; tokenise the task first") from None
        except ValueError as error:
            raise InputError(
                f"{path}: damaged ({error}); remove the folder and tokenise again"
            ) from error

    @property
    def task(self) -> dict[str, Any]:
        """The task's task.json."""
        task: dict[str, Any] = self.description["task"]
        return task

    @property
    def test_sets(self) -> list[str]:
        """Names of the splits that are predicted, and neither trained nor scored on."""
        others = {"train", "selection", *self.task["dev_sets"]}
        return [name for name in self.task["splits"] if name not in others]

    def split(self, name: str) -> Split:
        if name not in self.task["splits"]:
            raise InputError(f"{self.folder}: no split {name}; it has {list(self.task['splits'])}")
        return Split(self.folder / name, self.description["pad_token_id"])
