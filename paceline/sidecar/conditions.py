"""What the ranks of a node went through beside their own work: their processes, their GPUs, and pressure.

Rule of this file: one sample costs a few milliseconds at most, and nothing that goes wrong here reaches a rank. What
cannot be read is None.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.cpu_quota import Quota, quota_of, throttled_ratio
from paceline.events import RankCondition
from paceline.sidecar.gpu_readings import GpuReadings, Reading
from paceline.sidecar.process import Pressures, Process, group_mount, pressures

_WHOLE = ("throttle_reasons", "fb_used_bytes", "fb_total_bytes")
_DEVICE = (*_WHOLE, "sm_clock_mhz", "sm_clock_max_mhz", "utilization_ratio", "temperature_celsius")


class _Rank(NamedTuple):
    """A rank's process, when it was sampled last, its control group, and the quota that it had then."""

    process: Process
    sampled_s: float
    group: str | None
    quota: Quota | None


class Conditions:
    """Samples the ranks of this node; it remembers what it needs of the sample before."""

    def __init__(self, gpus: GpuReadings | None = None, proc: Path = Path("/proc")) -> None:
        self._gpus = gpus or GpuReadings()
        self._proc = proc
        self._mount = group_mount(proc)
        self._ranks: dict[int, _Rank] = {}
        self._turn = 0

    def sample(self, ranks: Mapping[int, tuple[int, str]], now_s: float, steady_s: float) -> list[RankCondition]:
        """What each of ``ranks``, rank -> (process id, device), went through since the sample before.

        ``now_s`` is Unix time; spans are by ``steady_s``, of a clock that nobody sets. The first sample of a rank has
        a span of 0 and no count. A device is a GPU's UUID, as in ``Hello``; ``cpu`` has none of a GPU's columns.
        """
        self._ranks = {rank: seen for rank, seen in self._ranks.items() if rank in ranks}
        self._turn += 1
        devices = {device: self._gpus.drain(device) for _, device in ranks.values()}
        self._gpus.start()
        groups: dict[str | None, Pressures] = {}
        conditions = []
        for place, (rank, (pid, device)) in enumerate(ranks.items()):
            thorough = place == self._turn % len(ranks)
            conditions.append(self._condition(rank, pid, devices[device], groups, (now_s, steady_s), thorough))
        return conditions

    def _condition(
        self,
        rank: int,
        pid: int,
        device: Reading | None,
        groups: dict[str | None, Pressures],
        at_s: tuple[float, float],
        thorough: bool,
    ) -> RankCondition:
        now_s, steady_s = at_s
        process, before_s, group, before = self._rank(rank, pid, steady_s)
        quota = quota_of(pid, self._proc)
        self._ranks[rank] = _Rank(process, steady_s, group, quota)
        if group not in groups:
            folder = None if group is None or self._mount is None else self._mount / group
            groups[group] = pressures(folder, self._proc)
        cpu, memory, io = groups[group]
        return RankCondition(
            rank=rank,
            time_s=now_s,
            span_s=round(max(steady_s - before_s, 0.0), 6),
            **_columns(device),  # type: ignore[arg-type]
            major_faults=process.major_faults(thorough=thorough),
            swap_used_bytes=process.swap_bytes(),
            pressure_cpu_ratio=cpu,
            pressure_memory_ratio=memory,
            pressure_io_ratio=io,
            cpu_quota_count=None if quota is None else quota.cpus,
            cpu_throttled_ratio=throttled_ratio(before, quota),
        )

    def _rank(self, rank: int, pid: int, steady_s: float) -> _Rank:
        seen = self._ranks.get(rank)
        if seen is not None and seen.process.pid == pid and seen.process.is_same():
            return seen
        process = Process(pid, self._proc)
        return _Rank(process, steady_s, process.group(), None)

    def close(self) -> None:
        """Give everything back to the driver."""
        self._gpus.close()


def _columns(device: Reading | None) -> dict[str, int | float | None]:
    if device is None:
        return {}
    columns = {name: device.get(name) for name in _DEVICE}
    return columns | {name: None if (value := columns[name]) is None else int(value) for name in _WHOLE}
