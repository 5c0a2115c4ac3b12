"""Which jobs use each GPU of a node, and for how much of its energy each stands.

Rule of this file: a decision. A job alone has all of it; several share it by the memory of their processes, or evenly
where some do not tell theirs, for no driver tells a process's power. Instances under MIG are parts of their GPU, whose
energy is one number: their jobs share that. Processes of no job count by their memory, where it is not next to nothing;
their part is nobody's. What a GPU takes for being on goes with the rest. When a job has left says ``tenants``. A
message tells who is there at its end; a row goes by the nearer of that and the message before.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paceline.events import DeviceSamples, EnergySplit, NodeDescribed

from ..nodes.tenants import Tenants
from ..stored import Kept, Stored

#: Devices of a node, and instances, that are known.
MOST_DEVICES = 256
#: Processes without a job that hold less of the memory than this are display servers and the like.
_LEAST_RATIO = 0.05


class Use(NamedTuple):
    """Each job's share of a GPU, and how it was split where several use it."""

    shares: Mapping[str, float] = {}
    split: EnergySplit | None = None


NOBODY = Use()


class Coming(NamedTuple):
    """Those who use GPUs at the end of a message, from ``since_s`` on, half the way there."""

    since_s: float
    uses: Mapping[str, Use]


class DeviceUsers(Stored):
    """The users of a node's GPUs."""

    parents: Kept[dict[str, str]]
    uses: Kept[dict[str, Use]]
    looked_s: Kept[float | None]

    def __init__(self) -> None:
        #: Instance under MIG -> its GPU.
        self.parents = {}
        self.uses = {}
        #: The end of the message before.
        self.looked_s = None

    def describe(self, event: NodeDescribed) -> None:
        """Take down which devices are parts of which."""
        parts = ((one.uuid, one.parent) for one in event.devices[:MOST_DEVICES])
        self.parents = {uuid: parent for uuid, parent in parts if parent}

    def of(self, uuid: str, at_s: float, coming: Coming) -> Use:
        """Who used GPU ``uuid`` at ``at_s``, in a message at whose end ``coming`` are there."""
        here = self.uses.get(uuid, NOBODY)
        return coming.uses.get(uuid, here) if at_s >= coming.since_s or uuid not in self.uses else here

    def coming(self, event: DeviceSamples) -> Coming:
        """Who is there at the end of ``event``; a GPU that is empty then is not told: ``update`` says what of that."""
        end_s = event.t0_s + max(event.time_s, default=0.0)
        since_s = end_s if self.looked_s is None else (self.looked_s + end_s) / 2
        return Coming(since_s, {gpu: use for gpu, use in self._seen(event).items() if use.shares})

    def update(self, event: DeviceSamples, tenants: Tenants) -> None:
        """Take in who runs where; a GPU whose jobs are away for a moment stays theirs."""
        self.looked_s = event.t0_s + max(event.time_s, default=0.0)
        held = {self.parents.get(uuid, uuid) for uuid, one in tenants.tenants.items() if one.job}
        self._take({gpu: use for gpu, use in self._seen(event).items() if use.shares or gpu not in held})

    def _take(self, uses: Mapping[str, Use]) -> None:
        """Keep who uses each; of too many, those of the newest messages."""
        for gpu, use in uses.items():
            self.uses.pop(gpu, None)
            self.uses[gpu] = use
        while len(self.uses) > MOST_DEVICES:
            del self.uses[next(iter(self.uses))]

    def _seen(self, event: DeviceSamples) -> dict[str, Use]:
        """GPU -> who uses it, by the processes of ``event``; those that do not tell them are left out."""
        if "processes" in event.not_measured:
            return {}
        roots = [self.parents.get(uuid, uuid) for uuid in event.uuids[:MOST_DEVICES]]
        held: dict[str, list[tuple[str, int | None]]] = {root: [] for root in roots}
        for process in event.processes:
            if 0 <= process.device < len(roots):
                known = process.used_bytes is not None and process.used_bytes >= 0
                held[roots[process.device]].append((process.job or "", process.used_bytes if known else None))
        return {gpu: use_of(processes) for gpu, processes in held.items()}


def use_of(processes: Iterable[tuple[str, int | None]]) -> Use:
    """Whose a GPU is, by its processes: job ("" for none) and bytes of memory, None where not told.

    >>> use_of([("a", 30), ("a", 30), ("b", 20)])
    Use(shares={'a': 0.75, 'b': 0.25}, split='memory')
    >>> use_of([("a", None), ("b", 20)]), use_of([("a", None)]), use_of([("", 20)])
    (Use(shares={'a': 0.5, 'b': 0.5}, split='even'), Use(shares={'a': 1.0}, split=None), Use(shares={}, split=None))
    """
    held: dict[str, int | None] = {}
    for job, used in processes:
        before = held.get(job, 0)
        held[job] = None if used is None or before is None else before + used
    jobs = sorted(job for job in held if job)
    known = {job: used for job, used in held.items() if used is not None}
    total = sum(known.values())
    if not jobs:
        return NOBODY
    if total <= 0 or any(job not in known for job in jobs):
        return Use({job: 1.0 / len(jobs) for job in jobs}, "even" if len(jobs) > 1 else None)
    if known.get("", 0) < _LEAST_RATIO * total:
        total -= known.pop("", 0)
    shared = len(known) > 1
    return Use({job: known[job] / total for job in jobs}, "memory" if shared else None)
