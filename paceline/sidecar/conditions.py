"""What the ranks of a node went through beside their own work: their processes, their GPUs, and pressure.

Rule of this file: one sample costs a few milliseconds at most, and nothing that goes wrong here reaches a rank. What
cannot be read is None.
"""

from collections.abc import Mapping
from pathlib import Path

from paceline.events import RankCondition
from paceline.sidecar.gpu_readings import Gauges, Reading
from paceline.sidecar.process import Pressures, Process, group_mount, pressures

_WHOLE = ("throttle_reasons", "fb_used_bytes", "fb_total_bytes")
_DEVICE = (*_WHOLE, "sm_clock_mhz", "sm_clock_max_mhz", "utilization_ratio", "temperature_celsius")


class Conditions:
    """Samples the ranks of this node; it remembers what it needs of the sample before."""

    def __init__(self, gauges: Gauges | None = None, proc: Path = Path("/proc")) -> None:
        self._gauges = gauges or Gauges()
        self._proc = proc
        self._mount = group_mount(proc)
        self._known: dict[int, tuple[Process, float, str | None]] = {}
        self._turn = 0

    def sample(self, ranks: Mapping[int, tuple[int, str]], now_s: float) -> list[RankCondition]:
        """What each of ``ranks``, rank -> (process id, device), went through since the sample before.

        ``now_s`` is Unix time. The first sample of a rank has a span of 0 and no count. A device is a GPU's UUID, as in
        ``Hello``; ``cpu`` has none of a GPU's columns.
        """
        self._known = {rank: known for rank, known in self._known.items() if rank in ranks}
        self._turn += 1
        devices = {device: self._gauges.take(device) for _, device in ranks.values()}
        self._gauges.start()
        groups: dict[str | None, Pressures] = {}
        found = []
        for place, (rank, (pid, device)) in enumerate(ranks.items()):
            thorough = place == self._turn % len(ranks)
            found.append(self._condition(rank, pid, devices[device], groups, now_s, thorough))
        return found

    def _condition(
        self,
        rank: int,
        pid: int,
        device: Reading | None,
        groups: dict[str | None, Pressures],
        now_s: float,
        thorough: bool,
    ) -> RankCondition:
        process, before_s, group = self._process(rank, pid, now_s)
        self._known[rank] = (process, now_s, group)
        if group not in groups:
            folder = None if group is None or self._mount is None else self._mount / group
            groups[group] = pressures(folder, self._proc)
        cpu, memory, io = groups[group]
        return RankCondition(
            rank=rank,
            time_s=now_s,
            span_s=round(max(now_s - before_s, 0.0), 6),
            **_columns(device),  # type: ignore[arg-type]
            major_faults=process.major_faults(thorough=thorough),
            swap_used_bytes=process.swap_bytes(),
            pressure_cpu_ratio=cpu,
            pressure_memory_ratio=memory,
            pressure_io_ratio=io,
        )

    def _process(self, rank: int, pid: int, now_s: float) -> tuple[Process, float, str | None]:
        known = self._known.get(rank)
        if known is not None and known[0].pid == pid and known[0].is_same():
            return known
        process = Process(pid, self._proc)
        return process, now_s, process.group()

    def close(self) -> None:
        """Give everything back to the driver."""
        self._gauges.close()


def _columns(device: Reading | None) -> dict[str, int | float | None]:
    if device is None:
        return {}
    found = {name: device.get(name) for name in _DEVICE}
    return found | {name: None if (value := found[name]) is None else int(value) for name in _WHOLE}
