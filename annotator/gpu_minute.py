"""How busy a GPU was in its last minute: mean and highest of utilisation, memory and power.

Rule of this file: pure and bounded. A sample's time is by its node's clock, and only compared with others of the same
GPU: rows may come late, twice or in any order, and what is older than a minute before the newest counts no more. A
clock that was set back is noticed by hearing nothing newer for a minute.
"""

from typing import NamedTuple

from paceline.events import DeviceSamples
from paceline.gpu.uuids import in_cluster

#: What is looked at, in buckets of so many seconds; how long a GPU that is not heard of still counts.
SPAN_S, BUCKET_S, FRESH_S = 60.0, 10.0, 120.0
MOST_DEVICES = 100_000


class Sample(NamedTuple):
    """One row of a GPU; None was not measured."""

    utilization_ratio: float | None
    memory_ratio: float | None
    memory_bytes: float | None
    power_w: float | None


class MeanMax(NamedTuple):
    """Of what was measured in the span."""

    mean: float
    max: float


class Use(NamedTuple):
    """A GPU in its last minute; None was not measured."""

    utilization_ratio: MeanMax | None
    memory_ratio: MeanMax | None
    memory_bytes: MeanMax | None
    power_w: MeanMax | None


class _Minute:
    """A GPU's buckets: start -> a (sum, count, highest) for each column of ``Sample``."""

    __slots__ = ("buckets", "heard_s", "node", "rose_s")

    def __init__(self, node: str, heard_s: float) -> None:
        self.node, self.heard_s, self.rose_s = node, heard_s, heard_s
        self.buckets: dict[float, list[tuple[float, int, float] | None]] = {}


class GpuMinutes:
    """The last minute of every GPU, by its name in the cluster."""

    def __init__(self) -> None:
        self._devices: dict[str, _Minute] = {}

    def __len__(self) -> int:
        return len(self._devices)

    def update(self, event: DeviceSamples, heard_s: float) -> None:
        """Take samples that were told at ``heard_s``, by our clock or the broker's."""
        for row, index in enumerate(event.device):
            total = event.fb_total_bytes[row]
            used = event.fb_used_bytes[row]
            ratio = used / total if used is not None and total else None
            sample = Sample(_share(event.utilization_ratio[row]), _share(ratio), _size(used), _size(event.power_w[row]))
            self.add(event.node, event.uuids[index], event.t0_s + event.time_s[row], sample, heard_s)

    def add(self, node: str, uuid: str, time_s: float, sample: Sample, heard_s: float) -> None:
        """Take one row."""
        name = in_cluster(node, uuid)
        held = self._devices.pop(name, None)
        if held is None or held.node != node:
            held = _Minute(node, heard_s)
        self._devices[name] = held  # The last place is the newest.
        held.heard_s = max(held.heard_s, heard_s)
        start_s = time_s // BUCKET_S * BUCKET_S
        newest_s = max(held.buckets, default=start_s)
        if start_s <= newest_s - SPAN_S:
            if heard_s - held.rose_s < SPAN_S:
                return  # Late.
            held.buckets.clear()  # The clock was set back.
        if start_s >= newest_s:
            held.rose_s = heard_s
        if start_s > newest_s:
            held.buckets = {at_s: sums for at_s, sums in held.buckets.items() if at_s > start_s - SPAN_S}
        _count(held.buckets.setdefault(start_s, [None] * len(sample)), sample)
        if len(self._devices) > MOST_DEVICES:
            del self._devices[next(iter(self._devices))]

    def use(self, node: str, uuid: str, now_s: float, since_s: float = 0.0) -> Use | None:
        """How busy it was, in what was sampled from ``since_s`` on; None where nothing is heard of it."""
        held = self._devices.get(in_cluster(node, uuid))
        if held is None or now_s - held.heard_s > FRESH_S:
            return None
        rows = [sums for start_s, sums in held.buckets.items() if start_s >= since_s]
        columns = [_merged([row[at] for row in rows]) for at in range(len(Use._fields))]
        return Use(*columns) if any(columns) else None

    def forget(self, now_s: float) -> None:
        """Let go of GPUs that are not heard of."""
        silent = [name for name, held in self._devices.items() if now_s - held.heard_s > 10 * FRESH_S]
        for name in silent:
            del self._devices[name]


def _count(sums: list[tuple[float, int, float] | None], sample: Sample) -> None:
    for at, value in enumerate(sample):
        if value is not None:
            total, count, highest = sums[at] or (0.0, 0, value)
            sums[at] = total + value, count + 1, max(highest, value)


def _merged(parts: list[tuple[float, int, float] | None]) -> MeanMax | None:
    told = [part for part in parts if part is not None]
    count = sum(part[1] for part in told)
    return MeanMax(sum(part[0] for part in told) / count, max(part[2] for part in told)) if count else None


def _share(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, value))


def _size(value: float | None) -> float | None:
    return None if value is None else min(1e15, max(0.0, value))
