"""LaCon (Zhang et al., NAACL 2022, arXiv 2205.10227), ACL's nearest rival (docs/paper.md §3.5).

There is no CE: samples and label embeddings are drawn to each other from both sides, and a sample
is predicted to be of the class whose embedding has the highest cosine with it. With N samples h_i
of class y_i, K label embeddings l_k, and s(a, b) = a·b / (||a|| ||b|| τ):

    ICL  each sample against all labels, summed over m heads, the pieces of equal length into which
         h_i and l_k are cut:
         −1/N Σ_heads Σ_i log [ exp s(h_i, l_{y_i}) / Σ_k exp s(h_i, l_k) ]
    LCL  each label of a class p in the batch, P, against the samples of other classes:
         −1/|P| Σ_{p∈P} Σ_{i: y_i=p} log [ exp s(l_p, h_i) / Σ_{j: y_j≠p} exp s(l_p, h_j) ]
    LER  the labels apart from each other: the mean over k ≠ k' of exp(1 + cos(l_k, l_k')) − 1

and the loss is ICL + LCL + ω·LER. LCL is as the paper prints it: its denominator has no positive,
so that it may be negative, and it is a sum over the samples of a class, not a mean.

This is the paper's LaCon-vanilla. Its projection of the first token is the model's (representation
mlp), its prediction the cosine classifier's. Left out is LaCon-fusion, where the label embeddings
attend to the tokens before that projection. The paper does not say what follows here: P has only
classes beside which the batch has a sample of another, since LCL is undefined for others; and the
heads differ in length by one where m does not divide d.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from acl_bert.objectives.items import autocast_off, check_items, classes_of, unit_rows, widest


def lacon_loss(
    representations: Tensor,
    labels: Tensor,
    label_embeddings: Tensor,
    temperature: float = 0.1,
    heads: int = 6,
    regularizer: float = 0.5,
) -> Tensor:
    """ICL + LCL + `regularizer` · LER; a scalar, float32, or float64 if an input is.

    representations: (N, d), the h_i. labels: (N,), integers in 0..K−1. label_embeddings: (K, d).
    heads: m, from 1 to d. A vector too short to have a direction has cosine 0 with all others.
    Autocast is off. Raises ValueError for wrong shapes, and numbers out of their range.
    """
    items = {
        "representations": (representations, labels),
        "label_embeddings": (label_embeddings, classes_of(label_embeddings)),
    }
    check_items(items, temperature)
    d = representations.shape[1]
    if not 1 <= heads <= d:
        raise ValueError(f"heads is {heads}; it must be from 1 to d = {d}")
    dtype = widest([representations, label_embeddings])
    with autocast_off(representations.device):
        samples, anchors = representations.to(dtype), label_embeddings.to(dtype)
        pieces = zip(*(x.tensor_split(heads, dim=1) for x in (samples, anchors)), strict=True)
        icl = torch.stack(
            [cross_entropy(unit_rows(a) @ unit_rows(b).T / temperature, labels) for a, b in pieces]
        ).sum()
        samples, anchors = unit_rows(samples), unit_rows(anchors)
        lcl = _label_centred(samples @ anchors.T / temperature, labels)
        return icl + lcl + regularizer * _dispersion(anchors)


def _label_centred(similarity: Tensor, labels: Tensor) -> Tensor:
    """LCL from cos(h_i, l_k)/τ, (N, K)."""
    own = labels[:, None] == torch.arange(similarity.shape[1], device=labels.device)
    # The lowest number, not −inf, from which a class without others would make a NaN.
    others = similarity.masked_fill(own, torch.finfo(similarity.dtype).min).logsumexp(dim=0)
    judged = own.any(dim=0) & (~own).any(dim=0)
    total: Tensor = (others - similarity).masked_fill(~(own & judged), 0.0).sum()
    return total / judged.sum().clamp_min(1)


def _dispersion(labels: Tensor) -> Tensor:
    """LER of label embeddings of unit length, (K, d)."""
    count = len(labels)
    pairs = torch.exp(1.0 + labels @ labels.T) - 1.0
    itself = torch.eye(count, dtype=torch.bool, device=labels.device)
    total: Tensor = pairs.masked_fill(itself, 0.0).sum()
    return total / max(count * (count - 1), 1)
