"""What a benchmark says: speeds, what could not be measured and why, and what the machine did meanwhile.

Rule of this file: pure; words and numbers alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paceline.rated import Speed

#: What can be measured, in this order.
PARTS = ("gemm", "memory", "pcie", "disk", "all_reduce")
#: An all-reduce's speed: its message by its time; and what each link carried of it.
ALL_REDUCE, BUS = "all_reduce", "all_reduce_bus"
#: Others' share of a device from which on a rating is marked, and a node is called busy.
BUSY = 0.10
#: Units of speeds.
FLOPS, BYTES = "flop/s", "bytes/s"


@dataclass(frozen=True)
class Skipped:
    """What was not measured: its reason is no fault of the node's (``failed`` where it is)."""

    device: str
    name: str
    why: str
    failed: bool = False


@dataclass
class Results:
    """All that one run has found; filled as it goes, so that an end before time keeps what is there."""

    speeds: list[Speed] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    #: How a speed was measured: by device and name, in a few words.
    notes: dict[str, str] = field(default_factory=dict)
    #: What others did on the machine, a sentence each.
    busy: list[str] = field(default_factory=list)

    def skip(self, device: str, name: str, why: str, *, failed: bool = False) -> None:
        """Note that ``name`` was not measured on ``device``."""
        self.skipped.append(Skipped(device, name, why, failed))

    def look_back(self, busy_ratios: Mapping[str, float | None]) -> None:
        """Put to each GPU's speeds how busy it was before and after, by ``busy_ratios``."""
        for place, one in enumerate(self.speeds):
            if one.device in busy_ratios:
                self.speeds[place] = replace(one, busy_ratio=busy_ratios[one.device])

    @property
    def failed(self) -> bool:
        """Whether something broke that should have worked."""
        return any(each.failed for each in self.skipped)

    @property
    def is_busy(self) -> bool:
        """Whether others used the machine enough to be in the numbers."""
        return bool(self.busy) or any(is_busy(speed) for speed in self.speeds)


def is_busy(speed: Speed) -> bool:
    """Whether others used the device meanwhile, enough to be in the number."""
    return speed.busy_ratio is not None and speed.busy_ratio > BUSY
