"""The verb that labels texts with a trained model."""

from argparse import Namespace
from pathlib import Path

from acl_bert.cli.verbs import Verb, option
from acl_bert.errors import InputError


def predict(args: Namespace) -> None:
    if (args.criterion is None) != (args.threshold is None):
        raise InputError(
            "--criterion and --threshold go together; without both no text leaves early"
        )

    from transformers.utils import logging

    from acl_bert.inference.predict import Rule, predict_file

    logging.disable_progress_bar()
    rule = None if args.criterion is None else Rule(args.criterion, args.threshold)
    predicted = predict_file(
        _model_of(args.model) if args.model.match("seed-*.json") else args.model,
        args.input,
        args.output,
        args.text,
        args.quoting,
        rule,
        args.batch_size,
        args.threads,
    )
    print(
        f"{args.output}: {len(predicted.exits)} texts, {predicted.layers:.2f} of "
        f"{predicted.depth} layers on average, {predicted.speedup:.2f} times fewer than all"
    )


def _model_of(name: Path) -> Path:
    """The model of the run that a study's small file names."""
    from acl_bert.runs.store import STORE, Store, read_name

    for above in name.absolute().parents:
        if (above / STORE).is_dir():
            model = Store(above / STORE).model(read_name(name)["run"])
            if model.is_dir():
                return model
            raise InputError(
                f"{name}: {model} is not there; a study keeps it with keep_models: all"
            )
    raise InputError(f"{name}: no folder {STORE} beside its study; give a model's folder")


VERBS = (
    Verb(
        predict,
        "Label texts with a kept model, each at the first exit that is sure enough.",
        (
            option(
                "--model",
                "A model's folder, or a study's file seed-<n>.json.",
                type=Path,
                required=True,
            ),
            option("--input", "A .txt, .csv, .tsv or .jsonl file.", type=Path, required=True),
            option("--output", "The CSV file to write.", type=Path, required=True),
            option("--text", "The one or two columns of text.", nargs="+", default=[]),
            option(
                "--quoting", "Whether quotes mean anything in a .tsv file.", choices=["none", "csv"]
            ),
            option(
                "--criterion",
                "When a text leaves early; without it, every text goes through all layers.",
                choices=["entropy", "max_probability", "patience", "fixed"],
            ),
            option(
                "--threshold",
                "Leave at an entropy (from 0 to 1) below it, at a probability above it, after so "
                "many exits that agree, or at this exit.",
                type=float,
            ),
            option("--batch-size", "Texts in a batch.", type=int, default=32),
            option("--threads", "Threads on a CPU; without it, torch's default.", type=int),
        ),
    ),
)
