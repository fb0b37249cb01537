"""A kept model: weights, tokenizer and model card in one folder, as transformers saves them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acl_bert.config.study import Encoder, RunSettings
from acl_bert.data.tokens import load_tokenizer
from acl_bert.encoders import resolve_path
from acl_bert.model.classifier import EncoderClassifier


def save_model(
    model: EncoderClassifier,
    settings: RunSettings,
    encoder: Encoder,
    task: Mapping[str, Any],
    exits: Mapping[str, Mapping[str, float]],
    folder: Path,
) -> None:
    """Write `folder` so that it can be used without the study.

    task: the task's task.json. exits: dev metrics by exit layer, for the card.
    """
    model.config.texts = task["texts"]
    model.save_pretrained(folder)
    tokenizer = load_tokenizer(resolve_path(encoder.path), encoder.revision)
    tokenizer.model_max_length = settings.training.max_length
    tokenizer.save_pretrained(folder)
    card = _model_card(settings, encoder, task, exits)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _model_card(
    settings: RunSettings,
    encoder: Encoder,
    task: Mapping[str, Any],
    exits: Mapping[str, Mapping[str, float]],
) -> str:
    """The text of README.md, with the hub's metadata on top."""
    from huggingface_hub import EvalResult, ModelCardData

    method, training = settings.method, settings.training
    last = list(exits.values())[-1]
    on_hub = encoder.revision is not None  # a local folder's name would lead nowhere
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-classification",
        base_model=encoder.path if on_hub else None,
        tags=["acl-bert"],
        model_name=f"{settings.task} {settings.method_id} {settings.encoder}",
        eval_results=[
            EvalResult("text-classification", task["source"], task["title"], name, value)
            for name, value in last.items()
        ]
        or None,
    )
    marks = [task["stand_in"]] if task["stand_in"] else []
    marks += ["a subset of the rows"] if task["subset"] else []
    rows = [["exit at layer", *last], ["---:"] * (1 + len(last))]
    rows += [[layer, *(f"{x:.4f}" for x in scores.values())] for layer, scores in exits.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    paragraphs = [
        f"---\n{metadata.to_yaml()}\n---",
        f"# {task['title']}: {method.title} on {settings.encoder}",
        f"Fine-tuned from `{encoder.path}`"
        f"{f' at `{encoder.revision}`' if encoder.revision else ''} with acl-bert, method "
        f"`{settings.method_id}`{f' after `{method.teacher}`' if method.teacher else ''}, seed "
        f"{settings.seed}: {training.epochs} epochs, batch {training.batch_size}, learning rate "
        f"{training.learning_rate:g}, at most {training.max_length} tokens. Labels: "
        f"{', '.join(map(str, task['labels']))}.",
        f"## Dev{' (' + '; '.join(marks) + ')' if marks else ''}",
        table,
        "## Use",
        "```python\n"
        "import acl_bert.model  # makes the model's type known to transformers\n"
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n\n"
        "model = AutoModelForSequenceClassification.from_pretrained(folder)\n"
        "tokenizer = AutoTokenizer.from_pretrained(folder)\n"
        "```",
    ]
    if method.is_multi_exit:
        paragraphs.append(
            "`model(**inputs).logits` is (batch, exits, classes): one answer a layer. "
            "`python -m acl_bert predict` answers at the first exit that is sure enough."
        )
    return "\n\n".join(paragraphs) + "\n"
