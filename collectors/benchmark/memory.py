"""A device's own memory, and the way between it and the host's: bytes a second.

Rule of this file: PyTorch is an argument. Arrays are larger than caches. Each byte that is read or written counts
once: a copy moves two for each of an array, a triad (a = b + s c) three. On CUDA and ROCm these paths follow the
documented interface and were not run on hardware.
"""

import os

from . import timing
from .target import Target, UnmeasuredError

NAMES = ("memory_copy", "memory_triad")
PCIE_NAMES = ("pcie_to_device", "pcie_to_host")
#: Bytes of one array; at most this part of the memory that is free.
CPU_BYTES, GPU_BYTES, PCIE_BYTES, LARGEST_PART = 256 * 2**20, 1024 * 2**20, 256 * 2**20, 16
LEAST_BYTES = 2**20
#: Bytes of a number here.
_WIDTH = 4


def measure(target: Target, name: str, budget_s: float) -> tuple[list[float], str]:
    """Bytes a second, a sample each; and how they were measured."""
    torch, count = target.torch, _size(target, GPU_BYTES if target.is_gpu else CPU_BYTES) // _WIDTH
    first = torch.ones(count, device=target.device, dtype=torch.float32)
    out = torch.empty_like(first)
    if name == "memory_copy":
        seconds = timing.sample(target.timer, lambda: out.copy_(first), budget_s)
        return [2.0 * _WIDTH * count / each for each in seconds], _note(count)
    second = torch.ones_like(first)
    seconds = timing.sample(target.timer, lambda: torch.add(first, second, alpha=3.0, out=out), budget_s)
    return [3.0 * _WIDTH * count / each for each in seconds], _note(count)


def measure_pcie(target: Target, name: str, budget_s: float) -> tuple[list[float], str]:
    """Bytes a second between pinned memory of the host and the device, a sample each; and how they were measured.

    Raises:
        UnmeasuredError: the device is no GPU.
    """
    if not target.is_gpu:
        raise UnmeasuredError("the CPU has its memory without a bus between")
    torch, count = target.torch, min(PCIE_BYTES, _size(target, PCIE_BYTES), _free_host()) // _WIDTH
    host = torch.ones(count, dtype=torch.float32, pin_memory=True)
    device = torch.empty(count, dtype=torch.float32, device=target.device)
    to, source = (device, host) if name == "pcie_to_device" else (host, device)
    seconds = timing.sample(target.timer, lambda: to.copy_(source, non_blocking=True), budget_s)
    return [float(_WIDTH) * count / each for each in seconds], f"{_note(count)}, pinned"


def _note(count: int) -> str:
    return f"{_WIDTH * count // 2**20} MiB an array"


def _size(target: Target, most: int) -> int:
    """Bytes of an array that leave room for others'."""
    free = target.torch.cuda.mem_get_info(target.device)[0] // LARGEST_PART if target.is_gpu else _free_host()
    return max(LEAST_BYTES, min(most, free))


def _free_host() -> int:
    """The part of the host's free memory that one array may take."""
    try:
        with open("/proc/meminfo", encoding="ascii", errors="replace") as lines:
            free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        free = None
    if free is None:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return free // LARGEST_PART
