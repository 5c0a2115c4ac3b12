"""Which series windows and jobs speak of: names, units and ranges; means and sums over a job, a node, the cluster.

Rule of this file: pure. A key is ``cluster/what/…/field``; aggregates are series of their own, forecast as such.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.events import DeviceWindow, HostWindow, JobDescribed, JobWindow
from paceline.schema import unit_of

from .history import SeriesSubject

#: Seconds of the windows that are followed.
NODES_S, JOBS_S = 60.0, 10.0
DEVICE = ("sm_active_ratio", "utilization_ratio", "fb_used_bytes", "power_w", "temperature_celsius")
HOST = ("cpu_ratio", "memory_used_bytes", "disk_read_bytes_per_s", "network_rx_bytes_per_s")
#: A GPU is free with no more than this in use, of its time and of its memory.
FREE_TIME, FREE_MEMORY = 0.02, 0.05
#: Windows of devices may come so many intervals late and still count in the aggregates.
OPEN = 4


@dataclass(frozen=True)
class Measurement:
    """One value of one series over the interval that began at ``time_s``."""

    subject: SeriesSubject
    time_s: float
    value: float


@dataclass(frozen=True)
class _Part:
    """What one GPU adds to the aggregates of an interval."""

    busy: float | None
    power_w: float | None
    free: bool
    node: str
    job: str | None


class Subjects:
    """Turns events into readings. It keeps who runs where, and the newest intervals' parts of each aggregate."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], tuple[str, str]] = {}
        self._open: OrderedDict[tuple[str, int], dict[str, _Part]] = OrderedDict()

    def on_job(self, event: JobDescribed) -> None:
        """Learn on which devices a job runs, or that it has ended."""
        for place in event.places:
            for device in (place.device, str(place.local_rank)):
                if event.ended_s is None:
                    self._jobs[place.node, device] = (event.cluster, event.job)
                elif self._jobs.get((place.node, device)) == (event.cluster, event.job):
                    del self._jobs[place.node, device]

    def readings(self, event: object) -> Iterator[Measurement]:
        """The readings of a window; none of a length that is not followed."""
        if isinstance(event, DeviceWindow) and event.length_s == NODES_S:
            yield from self._device(event)
        elif isinstance(event, HostWindow) and event.length_s == NODES_S:
            yield from _host(event)
        elif isinstance(event, JobWindow) and event.length_s == JOBS_S:
            yield from _job(event)

    def _device(self, event: DeviceWindow) -> Iterator[Measurement]:
        _, job = self._jobs.get((event.node, event.device), (event.cluster, None))
        for field in DEVICE:
            value = event.mean.get(field)
            if value is None:
                continue
            high = 1.0 if field.endswith("_ratio") else None
            if field == "fb_used_bytes":
                high = event.max.get("fb_total_bytes")
            key = f"{event.cluster}/device/{event.node}/{event.device}/{field}"
            subject = SeriesSubject(
                key, unit_of(field), NODES_S, event.cluster, job, event.node, event.device, high=high
            )
            yield Measurement(subject, event.start_s, value)
        yield from self._aggregates(event, job)

    def _aggregates(self, event: DeviceWindow, job: str | None) -> Iterator[Measurement]:
        place = (event.cluster, int(event.start_s // NODES_S))
        if place not in self._open:
            if len(self._open) >= OPEN and place < min(self._open, key=lambda one: one[1]):
                return
            self._open[place] = {}
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
        parts = self._open[place]
        parts[f"{event.node}/{event.device}"] = _part(event, job)
        base = f"{event.cluster}/cluster"
        yield from _summed(parts, base, event, None, None)
        own = {key: part for key, part in parts.items() if part.node == event.node}
        yield from _summed(own, f"{event.cluster}/node/{event.node}", event, event.node, None)
        if job is not None:
            own = {key: part for key, part in parts.items() if part.job == job}
            yield from _summed(own, f"{event.cluster}/job/{job}", event, None, job)


def _part(event: DeviceWindow, job: str | None) -> _Part:
    busy = event.mean.get("sm_active_ratio", event.mean.get("utilization_ratio"))
    used, total = event.mean.get("fb_used_bytes"), event.mean.get("fb_total_bytes")
    idle = busy is not None and busy <= FREE_TIME
    empty = used is None or not total or used <= FREE_MEMORY * total
    return _Part(busy, event.mean.get("power_w"), idle and empty and job is None, event.node, job)


def _summed(
    parts: dict[str, _Part], base: str, event: DeviceWindow, node: str | None, job: str | None
) -> Iterator[Measurement]:
    def reading(field: str, unit: str, value: float, high: float | None) -> Measurement:
        subject = SeriesSubject(f"{base}/{field}", unit, NODES_S, event.cluster, job, node, None, high=high)
        return Measurement(subject, event.start_s, value)

    busy = [part.busy for part in parts.values() if part.busy is not None]
    power = [part.power_w for part in parts.values() if part.power_w is not None]
    if busy:
        yield reading("gpu_busy_ratio", "ratio, 0 to 1", sum(busy) / len(busy), 1.0)
    if power:
        yield reading("gpu_power_w", "W", sum(power), None)
    if job is None:
        yield reading("free_gpus", "GPUs", float(sum(part.free for part in parts.values())), float(len(parts)))


def _host(event: HostWindow) -> Iterator[Measurement]:
    for field in HOST:
        value = event.mean.get(field)
        if value is None:
            continue
        high = 1.0 if field.endswith("_ratio") else None
        if field == "memory_used_bytes":
            high = event.max.get("memory_total_bytes")
        key = f"{event.cluster}/node/{event.node}/{field}"
        subject = SeriesSubject(key, unit_of(field), NODES_S, event.cluster, node=event.node, high=high)
        yield Measurement(subject, event.start_s, value)


def _job(event: JobWindow) -> Iterator[Measurement]:
    fields = {
        "step_s": ("s", event.step_median_s if event.steps else None, None),
        "steps_per_s": ("1/s", event.steps / event.length_s, None),
        "wait_ratio": ("ratio, 0 to 1", event.wait_ratio, 1.0),
    }
    for field, (unit, value, high) in fields.items():
        if value is not None:
            subject = SeriesSubject(
                f"{event.cluster}/job/{event.job}/{field}", unit, JOBS_S, event.cluster, event.job, high=high
            )
            yield Measurement(subject, event.start_s, value)
