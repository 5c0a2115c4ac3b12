"""How much of a cluster's GPUs was used, by day and by node.

Rule of this file: pure and bounded. A GPU is used in a window in which it was busy at least ``IDLE_RATIO`` of the
time, idle below, and not known where nobody measured it. Windows of a device come with rising starts; others are
repetitions. Windows of several lengths tell the same hours, so they are kept apart and one length is read.
"""

from typing import NamedTuple

from paceline.events import DeviceWindow
from paceline.gpu.use import IDLE_RATIO

DAY_S = 86_400.0
MOST_DAYS, MOST_NODES, MOST_DEVICES = 400, 20_000, 200_000


class Use(NamedTuple):
    """Device-hours: used, idle (of which a job held ``held``), and not measured."""

    used: float = 0.0
    idle: float = 0.0
    held: float = 0.0
    unknown: float = 0.0

    @property
    def total(self) -> float:
        """All that was told of."""
        return self.used + self.idle + self.unknown

    def plus(self, other: "Use") -> "Use":
        """Both."""
        return Use(*(one + more for one, more in zip(self, other, strict=True)))


class _Level:
    """Windows of one length."""

    def __init__(self) -> None:
        self.newest_s: dict[str, float] = {}
        self.days: dict[int, Use] = {}
        self.nodes: dict[str, Use] = {}
        self.throttled: dict[str, float] = {}
        self.total = Use()

    def add(self, window: DeviceWindow) -> None:
        if window.start_s <= self.newest_s.get(window.device, -1.0):
            return
        if window.device not in self.newest_s and len(self.newest_s) >= MOST_DEVICES:
            return
        self.newest_s[window.device] = window.start_s
        use = _use(window)
        self.total = self.total.plus(use)
        day = int(window.start_s // DAY_S)
        if day in self.days or len(self.days) < MOST_DAYS:
            self.days[day] = self.days.get(day, Use()).plus(use)
        if window.node in self.nodes or len(self.nodes) < MOST_NODES:
            self.nodes[window.node] = self.nodes.get(window.node, Use()).plus(use)
            slowed = window.mean.get("throttled_ratio", 0.0) * window.length_s / 3600
            self.throttled[window.node] = self.throttled.get(window.node, 0.0) + slowed


def _use(window: DeviceWindow) -> Use:
    spent_h = window.length_s / 3600
    busy = window.mean.get("utilization_ratio")
    if busy is None:
        return Use(unknown=spent_h)
    if busy >= IDLE_RATIO:
        return Use(used=spent_h)
    return Use(idle=spent_h, held=spent_h if isinstance(window.job, str) and window.job else 0.0)


class ClusterUse:
    """All windows of a cluster's devices."""

    def __init__(self) -> None:
        self._levels: dict[float, _Level] = {}

    def update(self, window: DeviceWindow) -> None:
        """Count one window in."""
        if window.length_s > 0 and (window.length_s in self._levels or len(self._levels) < 8):
            self._levels.setdefault(window.length_s, _Level()).add(window)

    def _chosen(self) -> _Level:
        """The longest windows that tell nearly all hours."""
        if not self._levels:
            return _Level()
        most = max(level.total.total for level in self._levels.values())
        full = [(length, one) for length, one in self._levels.items() if one.total.total >= 0.9 * most]
        return max(full, key=lambda item: item[0])[1]

    @property
    def total(self) -> Use:
        """Of all devices."""
        return self._chosen().total

    @property
    def devices(self) -> int:
        """How many were sampled."""
        return len(self._chosen().newest_s)

    def days(self) -> dict[int, Use]:
        """By day, counted from 1 January 1970 (UTC)."""
        return dict(sorted(self._chosen().days.items()))

    def nodes(self) -> dict[str, Use]:
        """By node."""
        return self._chosen().nodes

    def throttled(self) -> dict[str, float]:
        """Device-hours in which a node's devices were slowed down."""
        return self._chosen().throttled
