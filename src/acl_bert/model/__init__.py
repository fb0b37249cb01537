"""The models, made known to transformers' Auto classes."""

from transformers import AutoConfig, AutoModelForSequenceClassification

from acl_bert.model.classifier import ClassifierConfig, EncoderClassifier
from acl_bert.model.multi_exit import MultiExitConfig, MultiExitForSequenceClassification

__all__ = [
    "ClassifierConfig",
    "EncoderClassifier",
    "MultiExitConfig",
    "MultiExitForSequenceClassification",
]

for config, model in (
    (ClassifierConfig, EncoderClassifier),
    (MultiExitConfig, MultiExitForSequenceClassification),
):
    AutoConfig.register(config.model_type, config)
    AutoModelForSequenceClassification.register(config, model)
