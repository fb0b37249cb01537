"""Distillation from a teacher's logits or h, ACL-CL's baselines (docs/paper.md §3.2).

The targets get no gradient. Values are float32, or float64 if any input is, with autocast off.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, softmax


def logits_distillation_loss(
    student_logits: Tensor, teacher_logits: Tensor, temperature: float = 2.0
) -> Tensor:
    """T² · CE(softmax(teacher / T), softmax(student / T)), mean over samples; a scalar.

    student_logits, teacher_logits: (N, K). T² keeps the gradient's size from shrinking with T.
    Raises ValueError if the shapes differ or the temperature is not above 0.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    student, teacher = _pair("logits", student_logits, teacher_logits)
    targets = softmax(teacher / temperature, dim=1)
    return cross_entropy(student / temperature, targets) * temperature**2


def feature_distillation_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """The mean squared difference of representations, (N, d) both; a scalar.

    Raises ValueError if the shapes differ.
    """
    return mse_loss(*_pair("representations", student, teacher))


def _pair(what: str, student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    if student.shape != teacher.shape or student.dim() != 2:
        raise ValueError(
            f"{what} of student and teacher have shapes {tuple(student.shape)} and "
            f"{tuple(teacher.shape)}; both must be the same, (samples, columns)"
        )
    dtype = torch.promote_types(torch.promote_types(student.dtype, teacher.dtype), torch.float32)
    return student.to(dtype), teacher.detach().to(dtype)
