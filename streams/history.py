"""From what a Prometheus holds of GPUs to the windows of a minute that advice is made of.

Rule of this file: pure. A stretch of all series is put together, then told minute by minute. A mean of a minute is all
that is known of it, so that it is the maximum, too.
"""

from collections.abc import Iterator, Mapping

from paceline.events import DeviceWindow, JobProfile
from paceline.gpu.dcgm import exported
from paceline.gpu.exporter import behind, label, owner_of_labels, place_of_labels
from paceline.gpu.limits import possible
from paceline.prometheus import MINUTE_S, Metric, Row
from paceline.schema import unit_of

COLUMNS = ("utilization_ratio", "sm_active_ratio", "tensor_active_ratio", "fb_used_bytes", "fb_free_bytes")
#: Of several names of one thing the later ones are DCGM 4.6's.
DEVICES = tuple(
    Metric(name, column, unit_of(column), factor) for column in COLUMNS for name, factor in exported(column)
)
#: Which jobs took steps, and so trained: one value a job is enough.
STEPS = Metric("paceline_steps_per_second", "steps_per_s", "1/s")


class Stretch:
    """The GPUs of all nodes over a stretch of time."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        #: Minute, cluster, node, GPU -> its columns, and its job.
        self._minutes: dict[tuple[int, str, str, str], dict[str, float]] = {}
        #: The same -> its jobs where pods are not renamed, and where they are (any series of the stretch tells).
        self._jobs: dict[tuple[int, str, str, str], set[tuple[str, str]]] = {}
        self._nodes: dict[str, str] = {}
        self._renamed = False

    def take(self, metric: Metric, row: Row) -> int:
        """Take in a series; how many values of it count. What does not say of which GPU it is is left out."""
        labels, times_s, values = row
        node, device = place_of_labels(labels, self._nodes)
        # An instance of a GPU under MIG tells of itself alone.
        if not node or not device or label(labels, "GPU_I_ID"):
            return 0
        count, self._renamed = 0, self._renamed or behind(labels)
        jobs = (_job(labels, renamed=False), _job(labels, renamed=True))
        for at_s, value in zip(times_s, values, strict=True):
            if not possible(metric.field, value):
                continue
            place = (int(at_s // MINUTE_S), labels.get("cluster", self.cluster), node, device)
            self._minutes.setdefault(place, {}).setdefault(metric.field, value)
            if jobs[0]:
                self._jobs.setdefault(place, set()).add(jobs)
            count += 1
        return count

    def windows(self) -> Iterator[DeviceWindow]:
        """What every GPU did, minute by minute."""
        for place in sorted(self._minutes):
            minute, cluster, node, device = place
            values = dict(self._minutes[place])
            free = values.pop("fb_free_bytes", None)
            if free is not None and "fb_used_bytes" in values:
                values["fb_total_bytes"] = values["fb_used_bytes"] + free
            window = {"cluster": cluster, "start_s": minute * MINUTE_S, "length_s": MINUTE_S, "node": node}
            # What several share is no one's.
            named = {jobs[self._renamed] for jobs in self._jobs.get(place, ())} - {""}
            job = {"job": next(iter(named))} if len(named) == 1 else {}
            yield DeviceWindow(device=device, samples=1, mean=values, max=values, **window, **job)  # type: ignore[arg-type]


def _job(labels: Mapping[str, str], *, renamed: bool) -> str:
    owner = owner_of_labels(labels, renamed=renamed)
    return "" if owner is None else owner[0]


def trained(labels: Mapping[str, str], cluster: str, time_s: float) -> JobProfile | None:
    """The job that ``labels`` name took steps: it trains, whatever its GPUs look like. None where none is named."""
    job = label(labels, "training_job")
    if not job:
        return None
    known = {"kind": "training", "kind_probability": 1.0, "time_s": time_s}
    return JobProfile(cluster=labels.get("cluster", cluster), job=job, attempt=0, **known)  # type: ignore[arg-type]
