"""The machine: its device, the precision it is quick at, its name, its memory."""

import platform
import resource
from pathlib import Path

import torch

from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.errors import InputError


def resolve_settings(settings: RunSettings) -> RunSettings:
    """The settings with `auto` replaced by what this machine has: a run's numbers depend on it."""
    return settings.model_copy(update={"training": resolve_training(settings.training)})


def resolve_training(training: Training) -> Training:
    """bf16 is taken only where there is hardware for it, not an emulation.

    Raises InputError where a GPU is asked for and none is visible.
    """
    device, precision = training.device, training.precision
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise InputError("training.device: cuda, but no GPU is visible; use auto or cpu")
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    if precision == "auto":
        precision = "bf16" if _is_quick_at_bf16(device) else "fp32"
    return training.model_copy(update={"device": device, "precision": precision})


def _is_quick_at_bf16(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def describe_device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory_mib(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
