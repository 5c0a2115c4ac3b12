"""Bands: from where to where a number of a GPU means what, and what to do about it.

Rule of this file: data. Bounds are in our units (ratios of 0 to 1, degrees Celsius). They are the reading of these
metrics that is common in exporters' guides; those of SM and DRAM activity are from NVIDIA's DCGM profiling pages.
"""

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "info", "watch", "critical"]
INF = float("inf")


@dataclass(frozen=True)
class Band:
    """What a value below ``below`` (and not below the band before) means, and what to do about it."""

    below: float
    word: str
    tone: Tone
    advice: str = ""


UTILISATION = (
    Band(0.30, "under-used", "watch", "look for what it waits for: input, other ranks, small batches"),
    Band(0.70, "moderate", "info", "there is room: a larger batch, or more work in flight"),
    Band(0.95, "good", "good"),
    Band(INF, "at the limit", "good", "only says that some kernel ran: SM, tensor and DRAM activity tell how well"),
)
MEMORY_CONTROLLER = (
    Band(0.30, "compute-bound", "info"),
    Band(0.40, "rather compute-bound", "info"),
    Band(0.60, "balanced", "good"),
    Band(0.80, "rather memory-bound", "info"),
    Band(INF, "memory-bound", "watch", "fuse kernels, use a smaller data type, keep tensors contiguous"),
)
OCCUPANCY = (
    Band(0.50, "low", "watch", "larger batches or fused kernels keep more warps in flight"),
    Band(0.80, "good", "good"),
    Band(INF, "excellent", "good"),
)
SM = (
    Band(0.50, "low", "watch", "the multiprocessors wait: for memory, for launches, or for other ranks"),
    Band(0.80, "moderate", "info"),
    Band(INF, "good", "good"),
)
TENSOR = (
    Band(0.000001, "unused", "watch", "use bf16 or fp16 with shapes that are multiples of 8, or allow TF32"),
    Band(0.50, "partly used", "info", "other kernels or waiting take the rest of the time"),
    Band(INF, "efficient", "good"),
)
DRAM = (
    Band(0.60, "room left", "info"),
    Band(0.80, "busy", "good"),
    Band(INF, "memory-bound", "watch", "about 80 % is as much as can be had"),
)
MEMORY = (
    Band(0.30, "batch too small", "info", "a larger batch may use the GPU better"),
    Band(0.60, "room left", "info"),
    Band(0.80, "good", "good"),
    Band(0.90, "full", "info"),
    Band(INF, "risk of out-of-memory", "watch", "a smaller batch, activation checkpointing, sharded optimizer state"),
)
POWER = (
    Band(0.50, "idle or saving", "info"),
    Band(0.90, "working", "good"),
    Band(INF, "at the limit", "info", "the power limit sets the clock: usual under full load"),
)
TEMPERATURE = (
    Band(70.0, "cool", "good"),
    Band(85.0, "normal", "good"),
    Band(95.0, "warm", "watch", "look at fans, air flow and neighbours"),
    Band(INF, "hot", "critical", "throttle reasons are the proof that it costs speed; fix the cooling"),
)
PCIE = (
    Band(0.50, "room left", "good"),
    Band(INF, "transfer-bound", "watch", "keep data on the GPU, pin memory, overlap copies with computing"),
)
NVLINK = (
    Band(0.80, "room left", "info"),
    Band(INF, "good", "good"),
)
NONE_IS_GOOD = (Band(1.0, "none", "good"), Band(INF, "critical", "critical", "drain the node and reset the GPU"))
WATCH = (Band(1.0, "none", "good"), Band(INF, "watch", "watch", "a count that rises is the sign, not the count"))
