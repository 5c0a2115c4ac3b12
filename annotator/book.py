"""What the bus tells of one cluster: nodes and the pods on their devices, jobs, their kinds and cycles, findings.

Rule of this file: pure and bounded; time is an argument. Delivery is at least once and in any order: of a node or a
part the newest number of a producer counts, of two producers of a node who told last, of a finding the newest revision,
of a job the newest attempt. A part whose ranks a later part describes is over: its pod was replaced. Events of other
clusters are passed over. No text here is safe to show.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from paceline.alerts.alert import Alert, of_finding
from paceline.alerts.book import AlertBook, Standing
from paceline.events import POD_LABEL, SEVERITY_ORDER, DeviceSamples, Finding, JobDescribed, JobProfile, NodeDescribed
from paceline.events.silence import NODE_SILENT_S, NODE_WITHOUT_GPUS_SILENT_S
from paceline.held_bytes import BoundedMapping, HeldBytes, size_of

from .gpu_minute import GpuMinutes

#: Nodes, parts of jobs and profiles that are known of at most; devices and pods of a node, ranks of a part.
MOST_NODES, MOST_PARTS, MOST_PROFILES = 50_000, 100_000, 20_000
MOST_DEVICES, MOST_PODS, MOST_PLACES = 256, 1_024, 4_096
#: Bytes that each takes at most. A node of 8 GPUs takes 15 KB, its part of a job 3 KB, a profile 1 KB.
NODE_BYTES, PART_BYTES, PROFILE_BYTES, HEARD_BYTES = 128 * 2**20, 64 * 2**20, 32 * 2**20, 16 * 2**20
NAMESPACE = "kubernetes_namespace"
#: Job, namespace and teller.
PartKey = tuple[str, str, str]


class Job(NamedTuple):
    """A job of the cluster."""

    name: str
    attempt: int


class Part(NamedTuple):
    """What one sidecar says of its job: the ranks in its pod, or on its node where it is in none."""

    job: Job
    node: str
    namespace: str
    pod: str
    devices: tuple[str, ...]
    ranks: tuple[int, ...]
    started_s: float
    ended_s: float | None
    producer: str
    sequence: int


class Verdict(NamedTuple):
    """A finding as it stands, and what an alert does not hold of it."""

    alert: Alert
    cause: str
    confidence: float
    standing: Standing
    #: Whether it was ever more than a suspicion.
    fired: bool

    @property
    def accuses(self) -> bool:
        """Whether it names ranks or hardware as what is wrong."""
        return bool(self.alert.ranks) or self.alert.of_node


class _Detail(NamedTuple):
    revision: int
    cause: str
    confidence: float
    fired: bool
    #: When its alert began: an alert that begins later under this id is of the next run.
    starts_s: float


_UNKNOWN = _Detail(0, "unknown", 0.0, False, 0.0)


class Book:
    """All of it, of ``cluster``."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.nodes = BoundedMapping[str, NodeDescribed](MOST_NODES, NODE_BYTES)
        self.parts: dict[PartKey, Part] = {}
        self._part_bytes = HeldBytes[PartKey](PART_BYTES, MOST_PARTS)
        #: Which part describes each rank of a job (name, attempt, namespace).
        self._ranks: dict[tuple[str, int, str], dict[int, PartKey]] = {}
        self.profiles = BoundedMapping[str, JobProfile](MOST_PROFILES, PROFILE_BYTES)
        self.minutes = GpuMinutes()
        #: When each node was heard of last: of GPUs their samples, else its description.
        self._heard_s = BoundedMapping[str, float](MOST_NODES, HEARD_BYTES)
        self._alerts = AlertBook()
        self._details: dict[str, _Detail] = {}
        #: Events of other clusters, and what was let go of because there was too much.
        self.foreign = self.shed = 0

    def update(self, event: Any, heard_s: float) -> None:
        """Take ``event``, which was told at ``heard_s``."""
        if getattr(event, "cluster", self.cluster) != self.cluster:
            self.foreign += 1
            return
        match event:
            case DeviceSamples():
                self.minutes.update(event, heard_s)
                self._hear(event.node, heard_s)
            case NodeDescribed():
                self._describe_node(event)
                if not event.devices or event.node not in self._heard_s:
                    self._hear(event.node, heard_s)
            case JobDescribed():
                self._describe_job(event)
                self._alerts.update(event, heard_s)
            case JobProfile():
                self._profile(event)
            case Finding():
                self._find(event, heard_s)

    def verdicts(self, now_s: float) -> Iterator[Verdict]:
        """Every finding, whether it stands or not."""
        for alert in self._alerts.alerts.values():
            told = self._details.get(alert.id, _UNKNOWN)
            yield Verdict(alert, told.cause, told.confidence, self._alerts.standing(alert, now_s), told.fired)

    def silent(self, described: NodeDescribed, now_s: float) -> bool:
        """Whether nothing was heard of a node for some minutes."""
        most_s = NODE_SILENT_S if described.devices else NODE_WITHOUT_GPUS_SILENT_S
        return now_s - self._heard_s.get(described.node, now_s) > most_s

    def _hear(self, node: str, heard_s: float) -> None:
        self._heard_s.put(node, heard_s, size_of(heard_s))

    def _describe_node(self, event: NodeDescribed) -> None:
        held = self.nodes.get(event.node)
        if held is not None and held.producer == event.producer and event.sequence < held.sequence:
            return
        if held is not None and held.producer != event.producer and event.time_s < held.time_s:
            return
        self.shed += self.nodes.put(event.node, event, size_of(event))

    def _describe_job(self, event: JobDescribed) -> None:
        namespace, pod = event.labels.get(NAMESPACE, ""), event.labels.get(POD_LABEL, "")
        key = event.job, namespace, event.teller
        held = self.parts.get(key)
        if held is not None and (event.attempt, event.started_s) < (held.job.attempt, held.started_s):
            return
        if held is not None and held.producer == event.producer and event.sequence < held.sequence:
            return
        places = event.places[:MOST_PLACES]
        devices = tuple(dict.fromkeys(place.device for place in places))[:MOST_DEVICES]
        part = Part(
            Job(event.job, event.attempt),
            event.node,
            namespace,
            pod,
            devices,
            tuple(place.rank for place in places),
            event.started_s,
            event.ended_s,
            event.producer,
            event.sequence,
        )
        if not self._take_place(key, part):
            return
        if held is not None:
            self._drop_part(key)
        self.parts[key] = part
        self._ranks.setdefault((*part.job, namespace), {}).update(dict.fromkeys(part.ranks, key))
        for gone in self._part_bytes.note(key, size_of(part)):
            self._drop_part(gone)
            self.shed += 1

    def _take_place(self, key: PartKey, part: Part) -> bool:
        """Drop older parts that describe ranks of ``part``; False where a later one does."""
        ranks = self._ranks.get((*part.job, part.namespace), {})
        others = {ranks[rank] for rank in part.ranks if rank in ranks} - {key}
        if any(self.parts[other].started_s > part.started_s for other in others):
            return False
        for other in others:
            if self.parts[other].started_s < part.started_s:
                self._drop_part(other)
        return True

    def _drop_part(self, key: PartKey) -> None:
        part = self.parts.pop(key)
        self._part_bytes.forget(key)
        place = *part.job, part.namespace
        ranks = self._ranks.get(place, {})
        for rank in part.ranks:
            if ranks.get(rank) == key:
                del ranks[rank]
        if not ranks:
            self._ranks.pop(place, None)

    def _profile(self, event: JobProfile) -> None:
        held = self.profiles.get(event.job)
        if held is None or (event.attempt, event.time_s or 0.0) >= (held.attempt, held.time_s or 0.0):
            self.shed += self.profiles.put(event.job, event, size_of(event))

    def _find(self, event: Finding, heard_s: float) -> None:
        self._alerts.update(event, heard_s)
        told = of_finding(event, heard_s)
        alert = self._alerts.alerts.get(told.id)
        if alert is not None:
            held = self._details.get(told.id, _UNKNOWN)
            if held.starts_s < alert.starts_s:
                held = _UNKNOWN
            newest = event.revision >= held.revision
            self._details[told.id] = _Detail(
                max(event.revision, held.revision),
                event.cause if newest else held.cause,
                event.confidence if newest else held.confidence,
                held.fired or told.fires,
                alert.starts_s,
            )
        if len(self._details) > 2 * len(self._alerts.alerts) + 100:
            self._details = {key: held for key, held in self._details.items() if key in self._alerts.alerts}


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Which to tell of: the gravest, then what names a rank or device, then the surest, then the first by name."""
    standing = [verdict for verdict in verdicts if verdict.standing.fires]
    return min(
        standing,
        key=lambda one: (SEVERITY_ORDER[one.alert.severity], not one.accuses, -one.confidence, one.alert.id),
        default=None,
    )
