"""How much of a cluster's GPUs was used, by day and by node.

Rule of this file: pure and bounded. A GPU is used in a window in which it was busy at least ``IDLE_RATIO`` of the
time, idle below, and not known where it was not measured; windows that an archive joined say for how much of their
time. A GPU is one of a cluster, a node and a name; its instances under MIG are parts of it, and not counted again.
"""

import copy
from typing import NamedTuple

import msgspec

from paceline.events import LONG_WINDOW_S, DeviceWindow
from paceline.gpu.use import IDLE_RATIO
from paceline.gpu.uuids import INSTANCE

from .stretches import Stretches

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


class _Part:
    """Windows of one device within one stretch."""

    __slots__ = ("joined", "seconds", "throttled", "use")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.throttled = 0.0
        self.joined = 0.0
        self.use = Use()

    def add(self, window: DeviceWindow) -> None:
        self.seconds += window.length_s
        self.use = self.use.plus(_use(window))
        self.throttled += window.mean.get("throttled_ratio", 0.0) * window.length_s / 3600
        if window.length_s > LONG_WINDOW_S and window.used_s is msgspec.UNSET:
            self.joined += window.length_s / 3600 * (window.mean.get("utilization_ratio", 0.0) > 0)


def _use(window: DeviceWindow) -> Use:
    spent_h = window.length_s / 3600
    busy = window.mean.get("utilization_ratio")
    if window.used_s is not msgspec.UNSET and window.idle_s is not msgspec.UNSET:
        used_h = min(max(window.used_s / 3600, 0.0), spent_h)
        idle_h = min(max(window.idle_s / 3600, 0.0), spent_h - used_h)
    else:
        used_h = spent_h if busy is not None and busy >= IDLE_RATIO else 0.0
        idle_h = spent_h if busy is not None and busy < IDLE_RATIO else 0.0
    held_h = idle_h if isinstance(window.job, str) and window.job else 0.0
    return Use(used_h, idle_h, held_h, spent_h - used_h - idle_h)


class Sums:
    """Device-hours in all, by day (counted from 1 January 1970, UTC), and by cluster and node; of a node also those
    throttled."""

    def __init__(self) -> None:
        self.total = Use()
        self.days: dict[int, Use] = {}
        self.nodes: dict[tuple[str, str], Use] = {}
        self.throttled: dict[tuple[str, str], float] = {}
        self.left_out: dict[str, int] = {}
        #: Hours of windows that were joined without a word of how long their GPU was used.
        self.joined = 0.0

    def add(self, node: tuple[str, str], start_s: float, part: _Part) -> None:
        """Add what a device of ``node`` did in the stretch from ``start_s`` on."""
        self.total = self.total.plus(part.use)
        self.joined += part.joined
        day = int(start_s // DAY_S)
        if day in self.days or len(self.days) < MOST_DAYS:
            self.days[day] = self.days.get(day, Use()).plus(part.use)
        else:
            self._leave_out("five minutes of devices on further days")
        if node in self.nodes or len(self.nodes) < MOST_NODES:
            self.nodes[node] = self.nodes.get(node, Use()).plus(part.use)
            self.throttled[node] = self.throttled.get(node, 0.0) + part.throttled
        else:
            self._leave_out("five minutes of devices on further nodes")

    def _leave_out(self, what: str) -> None:
        self.left_out[what] = self.left_out.get(what, 0) + 1


class ClusterUse:
    """All windows of a cluster's devices."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str, str], Stretches[_Part]] = {}
        self._past = Sums()
        self._beyond: set[tuple[str, str, str]] = set()

    def update(self, window: DeviceWindow) -> None:
        """Count one window in."""
        if not window.length_s > 0 or window.device.startswith(INSTANCE):
            return
        key = (window.cluster, window.node, window.device)
        if key not in self._devices and len(self._devices) >= MOST_DEVICES:
            if len(self._beyond) < MOST_DEVICES:
                self._beyond.add(key)
            return
        stretches = self._devices.get(key)
        if stretches is None:
            stretches = self._devices[key] = Stretches(_Part)
        for start_s, past in stretches.past(window.start_s):
            self._past.add(key[:2], start_s, past)
        part = stretches.part(window)
        if part is not None:
            part.add(window)

    @property
    def devices(self) -> int:
        """How many were sampled."""
        return len(self._devices)

    def sums(self) -> Sums:
        """What it all adds up to."""
        sums = copy.deepcopy(self._past)
        for (cluster, node, _), stretches in self._devices.items():
            for start_s, part in stretches.rest():
                sums.add((cluster, node), start_s, part)
        sums.days = dict(sorted(sums.days.items()))
        if self._beyond:
            sums.left_out["devices"] = len(self._beyond)
        return sums
