"""Which pod has which GPUs and runs which job, and what is found about it: the book and the cluster's objects, joined.

Rule of this file: pure. Names come twice, uids do not: what was said of a pod by its name before it was created
belongs to another one. A GPU may be several pods' (time-slicing), and a pod may hold GPUs with no job that we know.
GPUs of different nodes may have one name (``gpu 0``): they are compared by their names in the cluster.
"""

from collections import defaultdict
from typing import NamedTuple

from paceline.events import DeviceDescribed, NodeDescribed
from paceline.gpu.uuids import in_cluster

from .book import Book, Job, Part, Verdict
from .kube_objects import Known, KubeObjects

#: How far a node's clock may be behind the API server's.
SLACK_S = 60.0


class PodFacts(NamedTuple):
    """A pod with what is known of it; ``devices`` by their names on its node."""

    pod: Known
    devices: tuple[str, ...]
    job: Job | None
    ranks: tuple[int, ...]


class Joined(NamedTuple):
    """``pods`` by uid; ``nodes`` that Kubernetes knows, with their descriptions; names that it does not know;
    ``devices`` by their names in the cluster."""

    pods: dict[str, PodFacts]
    nodes: list[tuple[Known, NodeDescribed]]
    unknown_nodes: list[NodeDescribed]
    devices: dict[str, DeviceDescribed]
    verdicts: list[Verdict]


class _Draft:
    def __init__(self, pod: Known) -> None:
        self.pod = pod
        self.devices: dict[str, None] = {}
        self.ranks: dict[int, None] = {}
        self.newest: Part | None = None

    def run(self, part: Part) -> None:
        """Take a part that runs, or ran, in the pod: the newest job counts, with the ranks of all its parts there."""
        if self.newest is None or part.started_s >= self.newest.started_s:
            if self.newest is None or self.newest.job != part.job:
                self.ranks.clear()
            self.newest = part
        if self.newest.job == part.job:
            self.ranks.update(dict.fromkeys(part.ranks))


def joined(book: Book, objects: KubeObjects, now_s: float) -> Joined:
    """All of it, as it stands now."""
    drafts: dict[str, _Draft] = {}
    nodes, unknown, devices = [], [], {}
    for described in book.nodes.values():
        node = objects.nodes.get(described.node)
        if node is None:
            unknown.append(described)
        else:
            nodes.append((node, described))
        devices.update({in_cluster(described.node, device.uuid): device for device in described.devices})
        _hold_devices(described, objects, drafts)
    by_device = _hold_jobs(book, objects, devices, drafts)
    pods = {uid: _facts(draft, by_device) for uid, draft in drafts.items()}
    return Joined(pods, nodes, unknown, devices, list(book.verdicts(now_s)))


def _hold_devices(described: NodeDescribed, objects: KubeObjects, drafts: dict[str, _Draft]) -> None:
    """What the node says of pods on its devices; only of pods that Kubernetes has put there."""
    for held in described.pods:
        pod = objects.pod(held.namespace, held.pod, held.uid)
        if pod is None or (not held.uid and described.time_s < pod.created_s - SLACK_S):
            continue
        if pod.node == described.node:
            drafts.setdefault(pod.ref.uid, _Draft(pod)).devices[held.device] = None


def _hold_jobs(
    book: Book, objects: KubeObjects, devices: dict[str, DeviceDescribed], drafts: dict[str, _Draft]
) -> dict[str, Part]:
    """What sidecars say of the pods they are in; the running part of a job on each device, for those in none."""
    by_device: dict[str, Part] = {}
    for part in book.parts.values():
        if part.ended_s is None:
            for device in (in_cluster(part.node, name) for name in part.devices):
                if device not in by_device or part.started_s >= by_device[device].started_s:
                    by_device[device] = part
        pod = objects.pod(part.namespace, part.pod) if part.pod else None
        if pod is None or part.started_s < pod.created_s - SLACK_S:
            continue
        draft = drafts.setdefault(pod.ref.uid, _Draft(pod))
        draft.run(part)
        if part.ended_s is None:
            draft.devices.update((name, None) for name in part.devices if in_cluster(pod.node, name) in devices)
    return by_device


def _facts(draft: _Draft, by_device: dict[str, Part]) -> PodFacts:
    part = draft.newest
    if part is None:
        names = (in_cluster(draft.pod.node, name) for name in draft.devices)
        told = (by_device[name] for name in names if name in by_device)
        part = next((one for one in told if _may_be_of(one, draft.pod)), None)
    if part is None:
        return PodFacts(draft.pod, tuple(sorted(draft.devices)), None, ())
    return PodFacts(draft.pod, tuple(sorted(draft.devices)), part.job, tuple(sorted(part.ranks)))


def _may_be_of(part: Part, pod: Known) -> bool:
    """Whether a part that was found by its device may run in ``pod``: it names no other, and is no older."""
    return not part.pod and part.started_s >= pod.created_s - SLACK_S


def _in_cluster(verdict: Verdict) -> set[str]:
    """Its devices. It does not say which of several nodes has those without a UUID: one of that name on each."""
    alert = verdict.alert
    return {in_cluster(node, name) for node in alert.nodes or [""] for name in alert.devices}


class VerdictIndex:
    """Findings by job and by device and node, so that thousands of pods are not compared with thousands of findings."""

    def __init__(self, verdicts: list[Verdict]) -> None:
        self.by_job: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
        self.by_rank: dict[tuple[str, int, int], list[Verdict]] = defaultdict(list)
        self.by_node: dict[str, list[Verdict]] = defaultdict(list)
        self.by_device: dict[str, list[Verdict]] = defaultdict(list)
        for one in verdicts:
            if one.alert.job:
                self.by_job[one.alert.job, one.alert.attempt].append(one)
                for rank in one.alert.ranks:
                    self.by_rank[one.alert.job, one.alert.attempt, rank].append(one)
            if one.accuses:
                for name in one.alert.nodes:
                    self.by_node[name].append(one)
                for name in _in_cluster(one):
                    self.by_device[name].append(one)

    def of_node(self, node: str, uuids: tuple[str, ...]) -> list[Verdict]:
        """Those that accuse the node or its devices."""
        return list({one.alert.id: one for one in [*self.by_node.get(node, ()), *self._of(node, uuids)]}.values())

    def of_pod(self, facts: PodFacts) -> list[Verdict]:
        """Those that accuse its devices, its ranks, or its node as a whole."""
        told = self._of(facts.pod.node, facts.devices)
        if facts.job is not None and self.by_job:
            told += [one for rank in facts.ranks for one in self.by_rank.get((*facts.job, rank), ())]
        told += [one for one in self.by_node.get(facts.pod.node, ()) if one.alert.of_node and not one.alert.devices]
        return list({one.alert.id: one for one in told}.values())

    def _of(self, node: str, names: tuple[str, ...]) -> list[Verdict]:
        return [one for name in names for one in self.by_device.get(in_cluster(node, name), ())]

    def of_job(self, job: Job) -> list[Verdict]:
        """Those of a job, whomever they accuse."""
        return self.by_job.get((job.name, job.attempt), [])
