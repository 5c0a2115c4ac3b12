"""From the kernel's CPU times to shares: how busy each core was, and how much of it a hypervisor took.

Rule of this file: a decision. It is told the times and remembers the ones before.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Times(Protocol):
    """A core's seconds since boot, by kind; guest time is already in ``user`` and ``nice``."""

    @property
    def user(self) -> float: ...  # noqa: D102
    @property
    def nice(self) -> float: ...  # noqa: D102
    @property
    def system(self) -> float: ...  # noqa: D102
    @property
    def idle(self) -> float: ...  # noqa: D102
    @property
    def iowait(self) -> float: ...  # noqa: D102
    @property
    def irq(self) -> float: ...  # noqa: D102
    @property
    def softirq(self) -> float: ...  # noqa: D102
    @property
    def steal(self) -> float: ...  # noqa: D102


class Shares(NamedTuple):
    """Of the time since the reading before. None, or no core, where that is unknown."""

    busy: float | None
    steal: float | None
    per_core: list[float]


UNKNOWN = Shares(None, None, [])


class Cpu:
    """Shares of the interval between two readings.

    A core that came or went, and a clock that ran backwards, make an interval unknown: both happen to virtual machines.
    """

    def __init__(self) -> None:
        self._before: list[tuple[float, float, float]] = []

    def update(self, cores: Sequence[Times]) -> Shares:
        """The shares since the last call."""
        before, self._before = self._before, [_split(core) for core in cores]
        if len(before) != len(self._before) or not before:
            return UNKNOWN
        spent = [
            tuple(b - a for a, b in zip(old, new, strict=True)) for old, new in zip(before, self._before, strict=True)
        ]
        total, busy, steal = (sum(core[kind] for core in spent) for kind in range(3))
        if total <= 0:
            return UNKNOWN
        per_core = [_share(core[1], core[0]) for core in spent]
        return Shares(_share(busy, total), _share(steal, total), per_core)


def _split(core: Times) -> tuple[float, float, float]:
    busy = core.user + core.nice + core.system + core.irq + core.softirq + core.steal
    return busy + core.idle + core.iowait, busy, core.steal


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part / whole)), 4) if whole > 0 else 0.0
