"""Labels for texts from a kept model; a text leaves at the first exit that is sure enough."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from acl_bert.data.readers import Row, lines_of, read_table, read_text
from acl_bert.data.sources import check_text
from acl_bert.data.tokens import load_tokenizer
from acl_bert.encoders import VOCABULARIES
from acl_bert.errors import InputError
from acl_bert.evaluation.early_exit import CRITERIA, max_probability
from acl_bert.files import write_csv
from acl_bert.inference.layers import LayerByLayer, layers_of
from acl_bert.model.build import load_model
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.training.batches import evaluation_batches

COLUMNS = ("index", "prediction", "exit", "probability")


class Rule(NamedTuple):
    """When a text leaves: a criterion of CRITERIA, and its threshold."""

    criterion: str
    threshold: float


@dataclass(frozen=True)
class Predictions:
    """Of n texts, in their order; the model has `depth` layers."""

    logits: np.ndarray
    """(n, classes), float32: those of the exit that the text left at."""
    exits: np.ndarray
    """(n,): that exit's layer, from 1."""
    depth: int

    @property
    def classes(self) -> np.ndarray:
        """(n,): the predicted class ids."""
        return self.logits.argmax(axis=1)

    @property
    def layers(self) -> float:
        """How many layers a text went through, on average."""
        return float(self.exits.mean())

    @property
    def speedup(self) -> float:
        """The depth over `layers`: what is saved if all layers take equally long."""
        return self.depth / self.layers


def predict_file(
    folder: Path,
    texts: Path,
    out: Path,
    columns: Sequence[str] = (),
    quoting: str | None = None,
    rule: Rule | None = None,
    batch_size: int = 32,
    threads: int | None = None,
) -> Predictions:
    """Predict a file's texts (see `read_texts`) with a kept model, and write them as COLUMNS.

    Without a rule the full model is run. `threads`: torch's; None leaves them as they are. Raises
    InputError for whatever is wrong with what was given, before `out` is written.
    """
    for name, number in (("batch size", batch_size), ("threads", threads)):
        if number is not None and number < 1:
            raise InputError(f"{name} {number}: give at least 1")
    if out.is_dir() or (out.exists() and out.samefile(texts)):
        raise InputError(f"{out}: is a folder, or the texts themselves; name another file to write")
    rows = read_texts(texts, columns, quoting)
    if threads is not None:
        torch.set_num_threads(threads)
    model, tokenizer = load(folder)
    if len(rows[0]) != model.config.texts:
        raise InputError(
            f"{texts}: {len(rows[0])} texts a row, but the model was trained on "
            f"{model.config.texts}; name as many columns"
        )
    predictions = predict(model, tokenizer, rows, rule, batch_size)
    names: Any = model.config.id2label
    labels = [names[k] for k in predictions.classes]
    probabilities = max_probability(predictions.logits)
    indices = range(len(rows))
    lines = zip(indices, labels, predictions.exits, probabilities, strict=True)
    write_csv(out, COLUMNS, lines)
    return predictions


def read_texts(path: Path, columns: Sequence[str] = (), quoting: str | None = None) -> list[Any]:
    """One or two texts a row: the lines of a .txt file, else the named columns of a table.

    A table is a .csv, .tsv (with `quoting` as `read_table` has it) or .jsonl file. Raises
    InputError naming file and line for an empty text, a missing column, no rows.
    """
    rows: Iterable[Row]
    if path.suffix.lower() == ".txt":
        if columns:
            raise InputError(f"{path}: a .txt file has a text a line and no columns; name none")
        columns = ("text",)
        rows = ((line, {"text": text}) for line, text in lines_of(read_text(path)))
    elif len(columns) not in (1, 2):
        raise InputError(f"{path}: name the one or two columns that hold its texts")
    else:
        rows = read_table(path, quoting)
    texts = []
    for line, row in rows:
        where = f"{path}: line {line}"
        for column in columns:
            if column not in row:
                raise InputError(f"{where}: no column {column!r} among {', '.join(row)}")
        texts.append([row[column] for column in columns])
        check_text(where, list(columns), texts[-1])
    if not texts:
        raise InputError(f"{path}: line 2: no rows; give the file some")
    return texts


def load(folder: Path) -> tuple[EncoderClassifier, Any]:
    """A kept model, float32, ready to predict, and its tokenizer, from the folder `model`.

    Raises InputError where the folder lacks one of them or holds another kind of model.
    """
    model = load_model(folder)
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise InputError(f"{folder}: holds no tokenizer; save the one of the training there too")
    if len(model.config.id2label or {}) < 2:
        raise InputError(f"{folder}: config.json names fewer than two classes; train it on some")
    tokenizer = load_tokenizer(str(folder), None)
    if len(tokenizer) > model.config.encoder.vocab_size:
        raise InputError(
            f"{folder}: its tokenizer has {len(tokenizer)} words, its model "
            f"{model.config.encoder.vocab_size}; save the tokenizer of the training there"
        )
    model.to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]
    return model, tokenizer


def predict(
    model: EncoderClassifier,
    tokenizer: Any,
    texts: Sequence[Sequence[str]],
    rule: Rule | None = None,
    batch_size: int = 32,
) -> Predictions:
    """Predict one or two texts each, in batches of similar length; without a rule, by all layers.

    A text longer than the tokenizer's `model_max_length` loses tokens from the end of its longer
    part, as in training. Raises InputError for a rule that the model cannot follow.
    """
    if rule is not None:
        if len(model.exits) < 2:
            raise InputError(
                f"{rule.criterion}: the model has one exit only, on layer {model.exits[0]}; "
                "predict without a criterion, or train it with an exit on every layer"
            )
        layers_of(model.encoder)
        CRITERIA[rule.criterion].check(rule.threshold, model.exits)
    positions = getattr(model.config.encoder, "max_position_embeddings", float("inf"))
    encoded = tokenizer(
        *zip(*texts, strict=True),
        truncation="longest_first",
        max_length=min(tokenizer.model_max_length, positions),
        return_attention_mask=True,
        verbose=False,
    )
    padding = {"input_ids": tokenizer.pad_token_id, "attention_mask": 0, "token_type_ids": 0}
    lengths = np.array([len(ids) for ids in encoded["input_ids"]])
    logits = np.empty((len(texts), len(model.config.id2label or {})), dtype=np.float32)
    exits = np.full(len(texts), model.exits[-1])
    with torch.inference_mode():
        for batch in evaluation_batches(lengths, batch_size):
            inputs = {
                name: pad_sequence(
                    [torch.tensor(encoded[name][row]) for row in batch], True, value
                ).to(model.device)
                for name, value in padding.items()
                if name in encoded
            }
            if rule is None:
                logits[batch] = full_logits(model, inputs)
            else:
                logits[batch], exits[batch] = exit_early(model, inputs, rule)
    return Predictions(logits, exits, model.exits[-1])


def full_logits(model: EncoderClassifier, inputs: dict[str, Tensor]) -> np.ndarray:
    """A batch's logits, (batch, classes), at the last exit of a plain forward pass."""
    return _logits(model.heads[-1], model.encoder(**inputs).last_hidden_state)


def exit_early(
    model: EncoderClassifier, inputs: dict[str, Tensor], rule: Rule
) -> tuple[np.ndarray, np.ndarray]:
    """A batch's logits, (batch, classes), and the layers, (batch,), of the exits it left at.

    Samples that leave are taken out of the batch; layers that none is left for do not run.
    """
    criterion = CRITERIA[rule.criterion]()
    batch = LayerByLayer(model.encoder, **inputs)
    rows = np.arange(len(inputs["input_ids"]))  # the samples still in, by their row in the batch
    taken = np.full(len(rows), model.exits[-1])
    left_with = np.empty((len(rows), len(model.config.id2label or {})), dtype=np.float32)
    for layer, head in zip(model.exits, model.heads, strict=True):
        logits = _logits(head, batch.advance(layer))
        left_with[rows] = logits  # what is written last is what a sample leaves with
        leaving = criterion.leaves(criterion.values(layer, logits), rule.threshold)
        taken[rows[leaving]] = layer
        if leaving.all() or layer == model.exits[-1]:
            break
        if leaving.any():
            staying = np.flatnonzero(~leaving)
            rows = rows[staying]
            criterion.keep(staying)
            batch.keep(torch.from_numpy(staying).to(model.device))
    return left_with, taken


def _logits(head: Any, hidden_states: Tensor) -> np.ndarray:
    logits: np.ndarray = head.classify(head.represent(hidden_states)).cpu().numpy()
    return logits
