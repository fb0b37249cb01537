"""Models to train: from a pre-trained encoder, from a teacher, or from a saved folder."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.utils import logging

from acl_bert.encoders import WEIGHTS, resolve_path
from acl_bert.errors import InputError, first_line
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.model.multi_exit import MultiExitForSequenceClassification


def build_classifier(
    path: str,
    revision: str | None,
    labels: list[str],
    representation: str,
    every_layer: bool = False,
    layers: int | None = None,
    cosine_temperature: float | None = None,
) -> EncoderClassifier:
    """A pre-trained encoder under new heads, which are drawn from torch's global generator.

    `every_layer`: an exit on each layer, instead of one on the last. `layers`: how many of the
    encoder's are kept, from the first. `representation`, `cosine_temperature`: as for `Head`. Each
    head's pooler, unless it is an mlp, starts from the pre-trained pooler where the checkpoint has
    one. Raises InputError where the encoder cannot be loaded, or has fewer layers.
    """
    resolved = resolve_path(path)
    described = f"encoder {path!r}{f' at {revision}' if revision else ''}"
    verbosity = logging.get_verbosity()
    try:
        inner = AutoConfig.from_pretrained(resolved, revision=revision)
        if layers is not None:
            if layers > inner.num_hidden_layers:
                raise InputError(
                    f"{described} has {inner.num_hidden_layers} layers; `layers: {layers}` of the "
                    "method is more: lower it"
                )
            inner.num_hidden_layers = layers
            logging.set_verbosity_error()  # it would warn of each weight that is left out
        encoder, loading = AutoModel.from_pretrained(
            resolved,
            config=inner,
            revision=revision,
            output_loading_info=True,
            use_safetensors=True,
        )
    except (OSError, ValueError) as error:
        raise InputError(f"{described} could not be loaded: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
    pooler: Any = getattr(encoder, "pooler", None)
    model_class = MultiExitForSequenceClassification if every_layer else EncoderClassifier
    config = model_class.config_class(  # type: ignore[call-arg]
        encoder=encoder.config,
        attn_implementation=encoder.config._attn_implementation,  # else the encoder loses its own
        representation=representation,
        cosine_temperature=cosine_temperature,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    model = model_class(config, encoder)
    pretrained = not any("pooler" in key for key in loading["missing_keys"])
    if pretrained and hasattr(pooler, "dense"):
        for head in model.heads:
            if isinstance(head.pooler, nn.Linear):
                head.pooler.load_state_dict(pooler.dense.state_dict())
    return model.float()


def load_model(folder: Path) -> EncoderClassifier:
    """A model as `save_pretrained` wrote it, of either class, in evaluation mode.

    Raises InputError where the folder holds none, or not all of one.
    """
    remedy = "give a model folder that a run of this project kept"
    for name in ("config.json", WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: holds no {name}; {remedy}")
    try:
        model, loading = AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True
        )
    except Exception as error:  # a damaged file is one of many unrelated kinds
        raise InputError(f"{folder}: cannot be loaded ({first_line(error)}); {remedy}") from error
    if not isinstance(model, EncoderClassifier):
        raise InputError(f"{folder}: holds a {type(model).__name__}; {remedy}")
    for what, names in (("lacks", "missing_keys"), ("has, beyond config.json,", "unexpected_keys")):
        if wrong := sorted(loading[names]):
            raise InputError(f"{folder}: {WEIGHTS} {what} {wrong[0]}; {remedy}")
    return model.float().eval()


@torch.no_grad()
def start_from(model: EncoderClassifier, teacher: EncoderClassifier) -> None:
    """Give `model` the teacher's encoder and, where it is as deep, the teacher's last exit.

    A model that was cut takes the teacher's first layers. Its other exits stay as they are.
    Raises InputError where the teacher's encoder is of another kind, or has fewer layers.
    """
    weights = teacher.encoder.state_dict()
    own = model.encoder.state_dict()
    shapes = {name: weight.shape for name, weight in weights.items()}
    if other := [name for name, weight in own.items() if shapes.get(name) != weight.shape]:
        raise InputError(
            f"the teacher's encoder, of {teacher.exits[-1]} layers, has no {other[0]} as the "
            "student's; a student has the same encoder, and is no deeper"
        )
    model.encoder.load_state_dict({name: weights[name] for name in own})
    if model.exits[-1] == teacher.exits[-1]:
        model.heads[-1].load_state_dict(teacher.heads[-1].state_dict())
