"""Whose the joules are: from the windows of devices and hosts to an account a job, and one a node for what is nobody's.

Rule of this file: sums, and bounded; one length of windows counts (or that and all longer, which an archive has in
place of it), each window once. A host's joules are shared by the
jobs there: by how many of its GPUs each had in that window, or, of a host where no job has a GPU, by the ranks that
described themselves. It waits for its devices' next window, two of its own at most, for each tells its own. What it
assumes: the windows of one device come in order, but for repetitions and clocks that are set back.
"""

from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from paceline.events import (
    ARCHIVE_WINDOW_S,
    LONG_WINDOW_S,
    DeviceWindow,
    Event,
    HostWindow,
    JobDescribed,
    JobWindow,
    Seconds,
)
from paceline.repeats import Repeats

from .job_energy import JobEnergy

#: Jobs and nodes that have an account, the newest heard; devices of a node.
MOST_JOBS, MOST_NODES, MOST_DEVICES = 1000, 16_384, 256
#: Windows whose holders of GPUs are remembered, and parts of jobs that are known to be on one node.
_MOST_OPEN, _MOST_PARTS_HERE = 4, 256
Key = tuple[str, str]


class _Present(msgspec.Struct):
    """Ranks of a job on a node that one of its parts tells of: since when, and until when."""

    job: str
    ranks: int
    started_s: float
    ended_s: float | None


class NodeEnergy(msgspec.Struct):
    """What of a node's joules is no job's: while it was idle or used by no job, and while nobody sampled it."""

    idle_gpu_j: float = 0.0
    idle_host_j: float = 0.0
    gap_j: float = 0.0
    newest_device_s: float = float("-inf")
    newest_host_s: float = float("-inf")
    counted: dict[str, Repeats] = {}
    #: GPUs by job, and the host's joules, by the start of a window.
    holders: dict[float, dict[str, float]] = {}
    hosts: dict[float, tuple[float | None, float | None]] = {}
    present: dict[str, _Present] = {}

    def is_new(self, name: str, start_s: float, length_s: float, which: Hashable) -> bool:
        """Whether this window of device ``name``, "" for the host, was not counted before; ``which`` of its start."""
        if name not in self.counted and len(self.counted) >= MOST_DEVICES:
            return False
        if not self.counted.setdefault(name, Repeats()).is_new(start_s, length_s, which):
            return False
        if name:
            self.newest_device_s = start_s
        else:
            if start_s < self.newest_host_s:  # The clock was set back, and it is that of the devices, too.
                self.newest_device_s = min(self.newest_device_s, start_s)
            self.newest_host_s = start_s
        return True

    def users(self, start_s: float) -> tuple[dict[str, float], str]:
        """Each job's share of the host in a window, and by what they share it."""
        held, word = dict(self.holders.get(start_s, {})), "gpus"
        if not held:
            word = "ranks"
            for one in self.present.values():
                if one.started_s <= start_s and (one.ended_s is None or start_s < one.ended_s):
                    held[one.job] = held.get(one.job, 0.0) + one.ranks
        total = sum(held.values())
        shares = {job: part / total for job, part in held.items()} if total > 0 else {}
        return shares, word if len(shares) > 1 else ""


class EnergyBook:
    """The accounts of jobs, ``most_jobs`` of them, and nodes, of windows of ``length_s``, or those and ``longer`` ones.

    Longer ones are an archive's: of five minutes or less of them, from the start of the five minutes on.
    """

    def __init__(self, length_s: Seconds = LONG_WINDOW_S, most_jobs: int = MOST_JOBS, *, longer: bool = False) -> None:
        self.length_s, self.most_jobs, self._longer = length_s, most_jobs, longer
        self.jobs: OrderedDict[Key, JobEnergy] = OrderedDict()
        self.nodes: OrderedDict[Key, NodeEnergy] = OrderedDict()

    def update(self, event: Event) -> None:
        """Take in one event; those that tell nothing of energy change nothing."""
        if isinstance(event, JobDescribed):
            self._describe(event)
        elif isinstance(event, JobWindow) and self._counts(event):
            self._job(event.cluster, event.job).add_steps(event)
        elif isinstance(event, DeviceWindow) and self._counts(event):
            self._device(event)
        elif isinstance(event, HostWindow) and self._counts(event):
            self._host(event)

    def _counts(self, event: JobWindow | DeviceWindow | HostWindow) -> bool:
        return event.length_s == self.length_s or (self._longer and event.length_s > self.length_s)

    def of(self, cluster: str, job: str) -> JobEnergy | None:
        """A job's account; None where nothing is known of its energy."""
        held = self.jobs.get((cluster, job))
        return held if held is not None and held.total_j is not None else None

    def finish(self) -> None:
        """Nothing more comes: what waits is shared by what is known."""
        for (cluster, _), node in self.nodes.items():
            self._settle(cluster, node, float("inf"))
        for job in self.jobs.values():
            job.finish()

    def _device(self, event: DeviceWindow) -> None:
        node = self._node(event.cluster, event.node)
        if not node.is_new(event.device, event.start_s, event.length_s, (event.length_s, event.job)):
            return
        if event.energy_gap_j is not msgspec.UNSET:
            node.gap_j += max(event.energy_gap_j, 0.0)
        if event.energy_j is msgspec.UNSET:
            return
        joules = max(event.energy_j, 0.0)
        by_job = {} if event.energy_by_job is msgspec.UNSET else event.energy_by_job
        split = "" if event.energy_split is msgspec.UNSET else str(event.energy_split)
        for job, part_j in by_job.items():
            part_j = min(max(part_j, 0.0), joules)
            self._job(event.cluster, job).add_gpu(
                event.start_s, event.length_s, part_j, (str(event.energy_source), split)
            )
            held = node.holders.setdefault(event.start_s, {})
            held[job] = held.get(job, 0.0) + (part_j / joules if joules else 1.0 / len(by_job))
        node.idle_gpu_j += max(joules - sum(by_job.values()), 0.0)
        self._settle(event.cluster, node, self._known_before_s(node))

    def _host(self, event: HostWindow) -> None:
        node = self._node(event.cluster, event.node)
        if not node.is_new("", event.start_s, event.length_s, event.length_s):
            return
        told = [None if one is msgspec.UNSET else max(one, 0.0) for one in (event.cpu_energy_j, event.dram_energy_j)]
        if told != [None, None]:
            node.hosts[event.start_s] = told[0], told[1]
        self._settle(event.cluster, node, self._known_before_s(node))

    def _known_before_s(self, node: NodeEnergy) -> float:
        """Windows of the host before this are known: all of its devices have told theirs, or tell none."""
        return max(node.newest_device_s, node.newest_host_s - 2 * self.length_s)

    def _settle(self, cluster: str, node: NodeEnergy, before_s: float) -> None:
        """Share the host's joules of the windows before ``before_s``, and forget who had its GPUs then.

        Those after the host's newest are shared, too: its clock was set back, and nothing more comes of that time.
        """
        newest_s = node.newest_host_s
        for start_s in sorted(start_s for start_s in node.hosts if start_s < before_s or start_s > newest_s):
            cpu_j, dram_j = node.hosts.pop(start_s)
            shares, word = node.users(start_s)
            for job, share in shares.items():
                part_cpu_j, part_dram_j = (None if one is None else one * share for one in (cpu_j, dram_j))
                self._job(cluster, job).add_host(start_s, self.length_s, part_cpu_j, part_dram_j, word)
            if not shares:
                node.idle_host_j += (cpu_j or 0.0) + (dram_j or 0.0)
        # The oldest go by when they came: after a clock was set back, the newest have the lowest starts.
        while len(node.holders) > _MOST_OPEN:
            del node.holders[next(iter(node.holders))]

    def _describe(self, event: JobDescribed) -> None:
        self._job(event.cluster, event.job).describe(event)
        present, who = self._node(event.cluster, event.node).present, f"{event.job} {event.attempt} {event.teller}"
        if who not in present and len(present) >= _MOST_PARTS_HERE:
            del present[min(present, key=lambda part: present[part].started_s)]
        present[who] = _Present(event.job, max(len(event.places), 1), event.started_s, event.ended_s)

    def _job(self, cluster: str, job: str) -> JobEnergy:
        held = self.jobs.pop((cluster, job), None) or JobEnergy(joined_s=ARCHIVE_WINDOW_S if self._longer else 0.0)
        self.jobs[cluster, job] = held
        if len(self.jobs) > self.most_jobs:
            self.jobs.popitem(last=False)
        return held

    def _node(self, cluster: str, node: str) -> NodeEnergy:
        held = self.nodes.pop((cluster, node), None) or NodeEnergy()
        self.nodes[cluster, node] = held
        if len(self.nodes) > MOST_NODES:
            self.nodes.popitem(last=False)
        return held
