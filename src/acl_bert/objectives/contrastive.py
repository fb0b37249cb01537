"""The contrastive losses of docs/paper.md §2: SCL, ACL-Embed and ACL-CL.

All three are one formula over different items. With items x_1..x_I of known class, z = x / ||x||,
temperature τ, and P(i) = the other items of i's class, anchor i costs

    L_i = −1/|P(i)| Σ_{j∈P(i)} log [ exp(z_i·z_j/τ) / Σ_{k≠i} exp(z_i·z_k/τ) ]

and the loss is the mean of L_i over the anchors that have a positive (P(i) not empty).

    loss       items                                                        anchors
    SCL        the N samples                                                all items
    ACL-Embed  N samples, K label embeddings                                all, or the samples
    ACL-CL     N samples and K labels of the student, the same of the       all, or the student's
               teacher

Common to the three functions:

- `normalize=False` takes z = x. With it, a row too short to have a direction (norm at or below the
  machine epsilon of the computing dtype) has z = 0 and gets a gradient of exactly zero.
- `reduction="sum"` sums over the anchors instead of averaging.
- Without any positive the loss is 0 and so is every gradient, yet `backward()` works.
- Everything is computed and returned in float32, or in float64 if any input is, with autocast off.
- A ValueError reports wrong shapes and unknown options. Labels outside 0..K−1 are not refused,
  since checking them would make a GPU wait; they count as classes without a label embedding.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from acl_bert.objectives.items import autocast_off, check_items, classes_of, unit_rows, widest

Reduction = Literal["mean", "sum"]


def supervised_contrastive_loss(
    representations: Tensor,
    labels: Tensor,
    temperature: float = 0.3,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """SCL (docs/paper.md §2.2): each sample against the other samples.

    representations: (N, d), the h_i. labels: (N,), integers. Returns a scalar.
    """
    items = {"representations": (representations, labels)}
    return _contrastive_loss(items, len(items), temperature, normalize, reduction)


def acl_embed_loss(
    representations: Tensor,
    labels: Tensor,
    label_embeddings: Tensor,
    temperature: float = 0.3,
    normalize: bool = True,
    anchors: Literal["all", "samples"] = "all",
    reduction: Reduction = "mean",
) -> Tensor:
    """ACL-Embed (docs/paper.md §2.3): label k joins the batch as one more sample of class k.

    representations: (N, d), the h_i. labels: (N,), integers in 0..K−1. label_embeddings: (K, d),
    the l_k, which are the classifier's weight itself. anchors: "all", or "samples" to leave the
    labels as candidates only. Returns a scalar.
    """
    items = {
        "representations": (representations, labels),
        "label_embeddings": (label_embeddings, classes_of(label_embeddings)),
    }
    anchor_groups = _choice("anchors", anchors, {"all": 2, "samples": 1})
    return _contrastive_loss(items, anchor_groups, temperature, normalize, reduction)


def acl_cl_loss(
    student_representations: Tensor,
    student_label_embeddings: Tensor,
    teacher_representations: Tensor,
    teacher_label_embeddings: Tensor,
    labels: Tensor,
    temperature: float = 0.3,
    normalize: bool = True,
    anchors: Literal["student", "all"] = "student",
    reduction: Reduction = "mean",
) -> Tensor:
    """ACL-CL (docs/paper.md §2.5): samples and labels at student exit m and teacher exit M.

    The batch has 2N + 2K items.

    student_representations, teacher_representations: (N, d), the h^m_i and h^M_i of the same
    samples. student_label_embeddings, teacher_label_embeddings: (K, d), the l^m_k and l^M_k.
    labels: (N,), integers in 0..K−1. anchors: "student", or "all" to have the teacher's items as
    anchors too. Returns a scalar.

    Gradients reach the teacher's items as well: for a frozen teacher the caller detaches them.
    """
    if len(student_label_embeddings) != len(teacher_label_embeddings):
        raise ValueError(
            f"student_label_embeddings has {len(student_label_embeddings)} classes, "
            f"teacher_label_embeddings {len(teacher_label_embeddings)}; both need all K"
        )
    classes = classes_of(student_label_embeddings)
    items = {
        "student_representations": (student_representations, labels),
        "student_label_embeddings": (student_label_embeddings, classes),
        "teacher_representations": (teacher_representations, labels),
        "teacher_label_embeddings": (teacher_label_embeddings, classes),
    }
    anchor_groups = _choice("anchors", anchors, {"student": 2, "all": 4})
    return _contrastive_loss(items, anchor_groups, temperature, normalize, reduction)


def _contrastive_loss(
    items: Mapping[str, tuple[Tensor, Tensor]],
    anchor_groups: int,
    temperature: float,
    normalize: bool,
    reduction: Reduction,
) -> Tensor:
    """The formula at the top of this module.

    items: groups of vectors (n, d) with their classes (n,), by argument name. The anchors are the
    items of the first `anchor_groups` groups, so that anchor i is item i and only the
    anchors × items part of the similarity matrix is ever computed.
    """
    check_items(items, temperature)
    average = _choice("reduction", reduction, {"mean": True, "sum": False})
    vectors = [group for group, _ in items.values()]
    anchor_count = sum(len(group) for group in vectors[:anchor_groups])
    dtype = widest(vectors)

    with autocast_off(vectors[0].device):
        x = torch.cat([group.to(dtype) for group in vectors])
        z = unit_rows(x) if normalize else x
        classes = torch.cat([group_classes for _, group_classes in items.values()])

        similarity = z[:anchor_count] @ z.T / temperature
        itself = torch.eye(*similarity.shape, dtype=torch.bool, device=x.device)
        positive = (classes[:anchor_count, None] == classes) & ~itself
        # The lowest number, not −inf, from which an anchor alone in its batch would make a NaN.
        others = similarity.masked_fill(itself, torch.finfo(dtype).min)
        surprisal = -torch.log_softmax(others, dim=1)

        positives = positive.sum(dim=1)
        per_anchor = surprisal.masked_fill(~positive, 0.0).sum(dim=1) / positives.clamp_min(1)
        total: Tensor = per_anchor.sum()
        if average:
            total = total / (positives > 0).sum().clamp_min(1)
        return total


def _choice(name: str, value: str, choices: Mapping[str, int]) -> int:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose from {', '.join(map(repr, choices))}")
    return choices[value]
