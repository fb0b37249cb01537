"""The paper's objectives (§2): contrastive losses and ACL-Grad. Tensors in, numbers out."""

from acl_bert.objectives.contrastive import (
    acl_cl_loss,
    acl_embed_loss,
    supervised_contrastive_loss,
)
from acl_bert.objectives.gate import GateDecision, combine, gate_decision, gate_decisions

__all__ = [
    "GateDecision",
    "acl_cl_loss",
    "acl_embed_loss",
    "combine",
    "gate_decision",
    "gate_decisions",
    "supervised_contrastive_loss",
]
