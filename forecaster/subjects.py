"""Which series windows and jobs speak of: names, units and ranges; means and sums over a job, a node, the cluster.

Rule of this file: pure. A key is ``cluster/what/…/field``; aggregates are series of their own, forecast as such. An
instance of a GPU under MIG has series, but its GPU alone counts in a group: it is what people ask for, and its power
and memory are those of all instances.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.events import (
    FREE_GPUS,
    LONG_WINDOW_S,
    MEDIUM_WINDOW_S,
    DeviceWindow,
    HostWindow,
    JobDescribed,
    JobWindow,
)
from paceline.events.silence import PLACED_JOB_SILENT_S
from paceline.gpu.uuids import INSTANCE
from paceline.schema import unit_of

from .aggregates import Aggregates, Share, Sums
from .clocks import Clocks
from .group_sizes import GPUS
from .history import SeriesSubject
from .job_places import JobPlaces

#: Seconds of the windows that are followed.
NODES_S, JOBS_S = LONG_WINDOW_S, MEDIUM_WINDOW_S
DEVICE = ("sm_active_ratio", "utilization_ratio", "fb_used_bytes", "power_w", "temperature_celsius")
HOST = ("cpu_ratio", "memory_used_bytes", "disk_read_bytes_per_s", "network_rx_bytes_per_s")
#: A GPU is free with no more than this in use, of its time and of its memory.
FREE_TIME, FREE_MEMORY = 0.02, 0.05


@dataclass(frozen=True)
class Measurement:
    """One value of one series over the interval that began at ``time_s``; NaN takes back what was reported of it."""

    subject: SeriesSubject
    time_s: float
    value: float


class Subjects:
    """Turns events into readings. It keeps who runs where, and what each group of GPUs comes to."""

    def __init__(self) -> None:
        self._jobs = JobPlaces()
        self._aggregates = Aggregates()
        self._clocks = Clocks()

    def on_job(self, event: JobDescribed) -> None:
        """Learn on which devices a job runs, or that it has ended."""
        self._jobs.hear(event.cluster, event.job, event.started_s)
        for place in event.places:
            for device in (place.device, str(place.local_rank)):
                on = (event.cluster, place.node, device)
                if event.ended_s is None:
                    self._jobs.put(on, event.job)
                else:
                    self._jobs.remove(on, event.job)

    def is_ahead(self, event: object, written_s: float | None = None) -> bool:
        """Whether a window that is followed comes from a clock that is far ahead; such a one has no readings.

        ``written_s``: when its message was written.
        """
        if isinstance(event, DeviceWindow | HostWindow) and event.length_s == NODES_S:
            sender = event.node
        elif isinstance(event, JobWindow) and event.length_s >= JOBS_S:
            sender = f"job/{event.job}"
        else:
            return False
        return not self._clocks.plausible(event.cluster, sender, event.start_s, written_s)

    def readings(self, event: object) -> Iterator[Measurement]:
        """The readings of a window; none of a length that is not followed."""
        if isinstance(event, DeviceWindow) and event.length_s == NODES_S:
            yield from self._device(event)
        elif isinstance(event, HostWindow) and event.length_s == NODES_S:
            yield from _host(event)
        elif isinstance(event, JobWindow) and event.length_s >= JOBS_S:
            self._jobs.hear(event.cluster, event.job, event.start_s)
            if event.length_s == JOBS_S:
                yield from _job(event)

    def _device(self, event: DeviceWindow) -> Iterator[Measurement]:
        job = self._job_of(event)
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
        if not event.device.startswith(INSTANCE):
            yield from self._grouped(event, job)

    def _job_of(self, event: DeviceWindow) -> str | None:
        """Whose the GPU is: a job that was killed never says that it ends, and does not keep what it left idle."""
        if event.job:
            self._jobs.hear(event.cluster, event.job, event.start_s)
            return event.job
        job = self._jobs.job_on((event.cluster, event.node, event.device))
        since_s = event.start_s - PLACED_JOB_SILENT_S
        return None if job and _at_rest(event) and not self._jobs.heard_since(event.cluster, job, since_s) else job

    def _grouped(self, event: DeviceWindow, job: str | None) -> Iterator[Measurement]:
        place = int(event.start_s // NODES_S)
        if not self._aggregates.first(f"{event.cluster}/{event.node}/{event.device}", place):
            return
        share = _share(event, job)
        groups: list[tuple[str, str | None, str | None]] = [
            (f"{event.cluster}/cluster", None, None),
            (f"{event.cluster}/node/{event.node}", event.node, None),
        ]
        if job is not None:
            groups.append((f"{event.cluster}/job/{job}", None, job))
        for base, node, owner in groups:
            for sums in self._aggregates.add(base, place, share):
                yield from _summed(sums, base, event.cluster, node, owner)


def _share(event: DeviceWindow, job: str | None) -> Share:
    return Share(_busy(event), event.mean.get("power_w"), job is None and _at_rest(event))


def _busy(event: DeviceWindow) -> float | None:
    return event.mean.get("sm_active_ratio", event.mean.get("utilization_ratio"))


def _at_rest(event: DeviceWindow) -> bool:
    """Whether the GPU was measured to be idle and, where that was measured, empty."""
    busy, used, total = _busy(event), event.mean.get("fb_used_bytes"), event.mean.get("fb_total_bytes")
    idle = busy is not None and busy <= FREE_TIME
    return idle and (used is None or not total or used <= FREE_MEMORY * total)


def _summed(sums: Sums, base: str, cluster: str, node: str | None, job: str | None) -> Iterator[Measurement]:
    def reading(field: str, unit: str, value: float, high: float | None) -> Measurement:
        subject = SeriesSubject(f"{base}/{field}", unit, NODES_S, cluster, job, node, None, high=high)
        return Measurement(subject, sums.place * NODES_S, value)

    if sums.busy is not None:
        yield reading("gpu_busy_ratio", "ratio, 0 to 1", sums.busy, 1.0)
    if sums.power_w is not None:
        yield reading("gpu_power_w", "W", sums.power_w, None)
    if job is None:
        yield reading(FREE_GPUS, "GPUs", sums.free, float(sums.gpus))
        if node is None:
            yield reading(GPUS, "GPUs", math.nan if math.isnan(sums.free) else float(sums.gpus), None)


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
