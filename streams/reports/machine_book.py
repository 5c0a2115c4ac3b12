"""GPUs and hosts over all of their windows.

Rule of this file: pure and bounded. Names of nodes are a cluster's own, and names of devices a node's.
"""

import copy
from collections.abc import Collection, Iterator

from paceline.events import DeviceWindow, HostWindow

from .report import DeviceUse, HostUse
from .stretches import Stretches

#: Devices and hosts that are reported, and names beyond them that are counted.
MOST_DEVICES, MOST_COUNTED = 20_000, 200_000
_MOST_JOBS = 16
_MEANS = (
    *("utilization_ratio", "fb_used_bytes", "fb_total_bytes", "power_w", "power_limit_w"),
    *("temperature_celsius", "throttled_ratio", "cpu_ratio", "memory_used_bytes", "memory_total_bytes"),
    *("pressure_cpu_ratio", "pressure_io_ratio"),
)


class _Use:
    """What windows of one subject add up to."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.sums: dict[str, list[float]] = {}
        self.hottest: float | None = None
        self.energy_j: float | None = None
        self.jobs: dict[str, None] = {}

    def add(self, window: DeviceWindow | HostWindow) -> None:
        self.seconds += window.length_s
        for name in _MEANS:
            value = window.mean.get(name)
            if value is not None:
                total = self.sums.setdefault(name, [0.0, 0.0])
                total[0] += value * window.length_s
                total[1] += window.length_s
        hot = window.max.get("temperature_celsius")
        if hot is not None:
            self.hottest = hot if self.hottest is None else max(hot, self.hottest)
        self._add_of_device(window)

    def _add_of_device(self, window: DeviceWindow | HostWindow) -> None:
        energy_j = getattr(window, "energy_j", None)
        if isinstance(energy_j, int | float):
            self.energy_j = (self.energy_j or 0.0) + energy_j
        job = getattr(window, "job", None)
        if isinstance(job, str) and job and len(self.jobs) < _MOST_JOBS:
            self.jobs[job] = None

    def join(self, other: "_Use") -> None:
        """Add what other windows add up to."""
        self.seconds += other.seconds
        for name, (value, weight) in other.sums.items():
            total = self.sums.setdefault(name, [0.0, 0.0])
            total[0] += value
            total[1] += weight
        if other.hottest is not None:
            self.hottest = other.hottest if self.hottest is None else max(other.hottest, self.hottest)
        if other.energy_j is not None:
            self.energy_j = (self.energy_j or 0.0) + other.energy_j
        for job in other.jobs:
            if len(self.jobs) < _MOST_JOBS:
                self.jobs[job] = None

    def mean(self, name: str) -> float | None:
        total = self.sums.get(name)
        return total[0] / total[1] if total and total[1] > 0 else None


class _Subject:
    """All windows of a device or host."""

    def __init__(self) -> None:
        self._past = _Use()
        self._stretches: Stretches[_Use] = Stretches(_Use)

    def add(self, window: DeviceWindow | HostWindow) -> None:
        for _, use in self._stretches.past(window.start_s):
            self._past.join(use)
        part = self._stretches.part(window)
        if part is not None:
            part.add(window)

    def use(self) -> _Use:
        use = copy.deepcopy(self._past)
        for _, more in self._stretches.rest():
            use.join(more)
        return use


class MachineBook:
    """All devices and hosts of a source."""

    def __init__(self) -> None:
        #: By node, device and cluster, and by node and cluster.
        self._devices: dict[tuple[str, ...], _Subject] = {}
        self._hosts: dict[tuple[str, ...], _Subject] = {}
        self._beyond: dict[str, set[tuple[str, ...]]] = {"devices": set(), "hosts": set()}

    def update(self, window: DeviceWindow | HostWindow) -> None:
        """Count one window in."""
        if not window.length_s > 0:
            return
        what, held, key = self._place(window)
        if key not in held and len(held) >= MOST_DEVICES:
            if len(self._beyond[what]) < MOST_COUNTED:
                self._beyond[what].add(key)
            return
        held.setdefault(key, _Subject()).add(window)

    def _place(self, window: DeviceWindow | HostWindow) -> tuple[str, dict[tuple[str, ...], _Subject], tuple[str, ...]]:
        if isinstance(window, HostWindow):
            return "hosts", self._hosts, (window.node, window.cluster)
        return "devices", self._devices, (window.node, window.device, window.cluster)

    @property
    def left_out(self) -> dict[str, int]:
        """How many devices and hosts are beyond the limit, by what they are; those of which there are any."""
        return {what: len(names) for what, names in self._beyond.items() if names}

    def devices(self, nodes: Collection[tuple[str, str]] | None = None) -> list[DeviceUse]:
        """Every device of ``nodes`` (cluster and name; None: of all), by node and name."""
        return [_device(key[2], key[0], key[1], subject.use()) for key, subject in _of(self._devices, nodes)]

    def hosts(self, nodes: Collection[tuple[str, str]] | None = None) -> list[HostUse]:
        """Every host of ``nodes`` (cluster and name; None: of all), by name."""
        return [_host(key[1], key[0], subject.use()) for key, subject in _of(self._hosts, nodes)]


def _of(
    held: dict[tuple[str, ...], _Subject], nodes: Collection[tuple[str, str]] | None
) -> Iterator[tuple[tuple[str, ...], _Subject]]:
    """What is ``held`` of ``nodes``, in order; the first of a key is its node, the last its cluster."""
    for key, subject in sorted(held.items(), key=lambda item: item[0]):
        if nodes is None or (key[-1], key[0]) in nodes:
            yield key, subject


def _device(cluster: str, node: str, name: str, use: _Use) -> DeviceUse:
    return DeviceUse(
        cluster,
        node,
        name,
        use.seconds,
        use.mean("utilization_ratio"),
        use.mean("fb_used_bytes"),
        use.mean("fb_total_bytes"),
        use.mean("power_w"),
        use.mean("power_limit_w"),
        use.mean("temperature_celsius"),
        use.hottest,
        use.mean("throttled_ratio"),
        use.energy_j,
        tuple(use.jobs),
    )


def _host(cluster: str, node: str, use: _Use) -> HostUse:
    return HostUse(
        cluster,
        node,
        use.seconds,
        use.mean("cpu_ratio"),
        use.mean("memory_used_bytes"),
        use.mean("memory_total_bytes"),
        use.mean("pressure_cpu_ratio"),
        use.mean("pressure_io_ratio"),
    )
