"""The paper's objectives (docs/paper.md §2) and its rivals' (§3). Tensors in, numbers out."""

from acl_bert.objectives.contrastive import (
    acl_cl_loss,
    acl_embed_loss,
    supervised_contrastive_loss,
)
from acl_bert.objectives.gate import (
    GateDecision,
    InnerProducts,
    RunningTargets,
    Weights,
    combine,
    inner_products,
    settle,
)
from acl_bert.objectives.lacon import lacon_loss

__all__ = [
    "GateDecision",
    "InnerProducts",
    "RunningTargets",
    "Weights",
    "acl_cl_loss",
    "acl_embed_loss",
    "combine",
    "inner_products",
    "lacon_loss",
    "settle",
    "supervised_contrastive_loss",
]
