"""GPUs and hosts over all of their windows.

Rule of this file: pure and bounded. Windows of a device come with rising starts; others are repetitions. A device has
windows of several lengths that tell the same samples: the longest counts that tells most of its time, so that a
length that was kept for a day only does not stand for a month.
"""

from paceline.events import DeviceWindow, HostWindow

from .report import DeviceUse, HostUse

MOST_DEVICES = 20_000
_MOST_JOBS = 16
_MEANS = (
    *("utilization_ratio", "fb_used_bytes", "fb_total_bytes", "power_w", "power_limit_w"),
    *("temperature_celsius", "throttled_ratio", "cpu_ratio", "memory_used_bytes", "memory_total_bytes"),
    *("pressure_cpu_ratio", "pressure_io_ratio"),
)


class _Use:
    """One subject's windows of one length."""

    def __init__(self) -> None:
        self.newest_s = -1.0
        self.seconds = 0.0
        self.sums: dict[str, list[float]] = {}
        self.hottest: float | None = None
        self.energy_j: float | None = None
        self.jobs: dict[str, None] = {}

    def add(self, window: DeviceWindow | HostWindow) -> None:
        if window.start_s <= self.newest_s:
            return
        self.newest_s = window.start_s
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

    def mean(self, name: str) -> float | None:
        total = self.sums.get(name)
        return total[0] / total[1] if total and total[1] > 0 else None


class MachineBook:
    """All devices and hosts of a source."""

    def __init__(self) -> None:
        #: By cluster, node and device, and by cluster and node: names of nodes are a cluster's own.
        self._devices: dict[tuple[str, str, str], dict[float, _Use]] = {}
        self._hosts: dict[tuple[str, str], dict[float, _Use]] = {}
        self.left_out: set[tuple[str, str, str]] = set()

    def update(self, window: DeviceWindow | HostWindow) -> None:
        """Count one window in."""
        if not window.length_s > 0:
            return
        if isinstance(window, HostWindow):
            host = (window.cluster, window.node)
            if host in self._hosts or len(self._hosts) < MOST_DEVICES:
                self._hosts.setdefault(host, {}).setdefault(window.length_s, _Use()).add(window)
            return
        key = (window.cluster, window.node, window.device)
        if key not in self._devices and len(self._devices) >= MOST_DEVICES:
            if len(self.left_out) < MOST_DEVICES:
                self.left_out.add(key)
            return
        self._devices.setdefault(key, {}).setdefault(window.length_s, _Use()).add(window)

    def devices(self) -> list[DeviceUse]:
        """Every device, by node and name."""
        order = sorted(self._devices.items(), key=lambda item: (*item[0][1:], item[0][0]))
        return [_device(node, name, _chosen(uses)) for (_, node, name), uses in order]

    def hosts(self) -> list[HostUse]:
        """Every host, by name."""
        order = sorted(self._hosts.items(), key=lambda item: (item[0][1], item[0][0]))
        return [_host(node, _chosen(uses)) for (_, node), uses in order]


def _chosen(uses: dict[float, _Use]) -> _Use:
    most = max(use.seconds for use in uses.values())
    return max((length, use) for length, use in uses.items() if use.seconds >= 0.9 * most)[1]


def _device(node: str, name: str, use: _Use) -> DeviceUse:
    return DeviceUse(
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


def _host(node: str, use: _Use) -> HostUse:
    return HostUse(
        node,
        use.seconds,
        use.mean("cpu_ratio"),
        use.mean("memory_used_bytes"),
        use.mean("memory_total_bytes"),
        use.mean("pressure_cpu_ratio"),
        use.mean("pressure_io_ratio"),
    )
