"""ACL: aligned contrastive learning for BERT and multi-exit BERT fine-tuning."""

__version__ = "0.1.0"
