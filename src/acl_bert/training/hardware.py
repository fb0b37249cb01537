"""What the machine offers: the device, the precision it is quick at, and its name."""

import platform
from pathlib import Path

import torch

from acl_bert.errors import InputError
from acl_bert.settings.training import Training


def choose_device(training: Training) -> torch.device:
    if training.device == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device: cuda, but no GPU is visible; use auto or cpu")
    if training.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda")


def choose_precision(training: Training, device: torch.device) -> str:
    """fp32 or bf16; `auto` takes bf16 only where there is hardware for it, not an emulation."""
    if training.precision != "auto":
        return training.precision
    if device.type == "cuda":
        quick = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities = torch.cpu.get_capabilities()
        quick = bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
    return "bf16" if quick else "fp32"


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
