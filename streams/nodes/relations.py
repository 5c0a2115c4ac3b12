"""Rules over several numbers of one GPU, and where the numbers of a healthy job of one kind lie.

Rule of this file: data, in our columns and units.
"""

from dataclasses import dataclass
from typing import Literal

from .bands import Tone


@dataclass(frozen=True)
class Relation:
    """A rule over several numbers: every (name, ``>=`` or ``<``, bound) must hold."""

    word: str
    terms: tuple[tuple[str, Literal[">=", "<"], float], ...]
    tone: Tone
    advice: str


@dataclass(frozen=True)
class Profile:
    """Where the numbers of a healthy job of one kind lie: name -> (low, high)."""

    name: str
    ranges: dict[str, tuple[float, float]]


RELATIONS = (
    Relation(
        "compute-bound",
        (("utilization_ratio", ">=", 0.70), ("memory_controller_ratio", "<", 0.30)),
        "good",
        "tensor cores and a smaller data type make it faster",
    ),
    Relation(
        "memory-bound",
        (("utilization_ratio", "<", 0.70), ("memory_controller_ratio", ">=", 0.80)),
        "watch",
        "fuse kernels, keep data on the GPU",
    ),
    Relation(
        "throttling risk",
        (("utilization_ratio", ">=", 0.70), ("temperature_celsius", ">=", 85.0)),
        "watch",
        "fix the cooling before throttle reasons appear",
    ),
    Relation(
        "input-bound",
        (("pcie_ratio", ">=", 0.50), ("utilization_ratio", "<", 0.70)),
        "watch",
        "prefetch, pin memory, decode on the GPU",
    ),
    Relation(
        "GPUs talk over NVLink",
        (("nvlink_ratio", ">=", 0.80), ("pcie_ratio", "<", 0.30)),
        "good",
        "",
    ),
)

PROFILES = (
    Profile(
        "training",
        {
            "utilization_ratio": (0.85, 0.95),
            "memory_ratio": (0.60, 0.80),
            "tensor_active_ratio": (0.50, 0.80),
            "power_ratio": (0.80, 0.95),
            "temperature_celsius": (70.0, 85.0),
        },
    ),
    Profile(
        "inference",
        {
            "utilization_ratio": (0.30, 0.60),
            "memory_ratio": (0.40, 0.70),
            "power_ratio": (0.50, 0.70),
            "temperature_celsius": (60.0, 75.0),
        },
    ),
)
#: The GPUs of one job should be busy within so much of each other (share of time, absolute).
MULTI_GPU_APART = 0.05
