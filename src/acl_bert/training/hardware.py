"""What the machine offers: the device, the precision it is quick at, and its name."""

import platform
from pathlib import Path

import torch

from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.errors import InputError


def settle(settings: RunSettings) -> RunSettings:
    """The settings with `auto` replaced by what this machine has: a run's numbers depend on it."""
    return settings.model_copy(update={"training": settle_training(settings.training)})


def settle_training(training: Training) -> Training:
    """bf16 is taken only where there is hardware for it, not an emulation.

    Raises InputError where a GPU is asked for and none is visible.
    """
    device, precision = training.device, training.precision
    gpu = torch.cuda.is_available()
    if device == "cuda" and not gpu:
        raise InputError("training.device: cuda, but no GPU is visible; use auto or cpu")
    if device == "auto":
        device = "cuda" if gpu else "cpu"
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
        cpuinfo = Path("/proc/cpuinfo").read_text()
        return next(
            line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if "model name" in line
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory_mib(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
