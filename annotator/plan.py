"""What is to be written now: every object that is known, compared with what it holds.

Rule of this file: pure; time is an argument. It is a function of the state, asked again and again: no queue of changes
is kept, so that what was lost, refused or written by somebody else is put right by the next look.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.events import NodeDescribed
from paceline.gpu.uuids import in_cluster

from . import documents, maxima
from .book import Book, Job, Verdict, worst
from .documents import CYCLE, FINDING, INVENTORY, JOB, KIND, MAXIMA, MOST_BYTES_OF_ALL, PROPOSAL, USE, Document
from .gpu_minute import Use
from .joined import Joined, PodFacts, VerdictIndex, joined
from .kube_objects import Known, KubeObjects, Ref
from .maxima import Highest
from .owners import Owners, Wanted
from .steady import news

#: Owners whose maxima are remembered; how long one without pods is told to have none.
MOST_OWNERS = 20_000
Changes = dict[str, str | None]


class Want(NamedTuple):
    """``changes`` that an object lacks: a key without the prefix -> its text, or None where it is to go.

    ``urgent``: a finding is among them. ``highest``: the owner's maxima as known here, to be merged on writing.
    """

    ref: Ref
    changes: Changes
    urgent: bool = False
    highest: Mapping[str, Highest] | None = None


class Accused(NamedTuple):
    """A pod that a finding which stands, or has recovered, is told at by an Event."""

    verdict: Verdict
    pod: Ref
    node: str


class Health(NamedTuple):
    """The worst finding that accuses a node; ``silent``: nothing was heard of it for some minutes."""

    worst: Verdict | None
    silent: bool


@dataclass
class Plan:
    """``wants`` are to be written, ``unread`` owners read first; ``health`` is how each node is, by name."""

    wants: list[Want] = field(default_factory=list)
    unread: dict[str, Wanted] = field(default_factory=dict)
    accused: list[Accused] = field(default_factory=list)
    health: dict[str, Health] = field(default_factory=dict)
    unknown_nodes: list[NodeDescribed] = field(default_factory=list)
    #: Objects that something is known of, by kind.
    objects: dict[str, int] = field(default_factory=dict)


@dataclass
class _Owned:
    """An owner's pods, and what is known of them together."""

    owner: Known
    pods: list[PodFacts] = field(default_factory=list)
    uses: dict[str, Use] = field(default_factory=dict)
    #: What accuses its pods, by the finding's id.
    told: dict[str, Verdict] = field(default_factory=dict)


class Planner:
    """Looks at ``book`` and ``objects`` together; ``propose``: taints are proposed on accused nodes."""

    def __init__(self, book: Book, objects: KubeObjects, owners: Owners, propose: bool = False) -> None:
        self._book, self._objects, self._owners, self._propose = book, objects, owners, propose
        #: The highest that was seen of each owner's GPUs since this process began, by the owner's uid.
        self._highest: dict[str, dict[str, Highest]] = {}
        #: Owners that had pods at the last look.
        self._had: dict[str, Ref] = {}

    def plan(self, now_s: float) -> Plan:
        """What is to be written at ``now_s``."""
        now = joined(self._book, self._objects, now_s)
        index = VerdictIndex(now.verdicts)
        made = Plan(unknown_nodes=now.unknown_nodes)
        for node, described in now.nodes:
            self._node(made, node, described, index, now_s)
        owned: dict[str, _Owned] = {}
        for facts in now.pods.values():
            uses = self._uses(facts, now_s)
            told = index.of_pod(facts)
            self._pod(made, facts, uses, now, told, now_s)
            one = self._owned(made, owned, facts, now_s)
            if one is not None:
                one.pods.append(facts)
                one.uses |= {in_cluster(facts.pod.node, uuid): use for uuid, use in uses.items()}
                one.told.update((verdict.alert.id, verdict) for verdict in told)
        for one in owned.values():
            self._owner(made, one, now, index, now_s)
        self._left(made, owned)
        self._orphans(made, now)
        made.objects = {"node": len(now.nodes), "pod": len(now.pods), "owner": len(owned)}
        return made

    def forget(self, uid: str, now_s: float) -> None:
        """The object of that uid is gone: where it was an owner, nothing is to be taken from it any more."""
        if self._had.pop(uid, None) is not None:
            self._highest.pop(uid, None)
            self._owners.unreadable(uid, now_s)

    def _node(self, made: Plan, node: Known, described: NodeDescribed, index: VerdictIndex, now_s: float) -> None:
        devices = {device.uuid: device for device in described.devices}
        minutes, name = self._book.minutes, described.node
        uses = {uuid: use for uuid in devices if (use := minutes.use(name, uuid, now_s)) is not None}
        told = index.of_node(described.node, tuple(devices))
        wanted = {
            INVENTORY: documents.node_inventory(described),
            USE: documents.gpu_use(uses, devices),
            FINDING: _finding(told),
        }
        first = worst(told)
        made.health[node.ref.name] = Health(first, self._book.silent(described, now_s))
        if self._propose:
            grave = first is not None and first.alert.severity == "critical"
            wanted[PROPOSAL] = documents.proposal(node.ref.name, first) if grave and first else None
        _want(made, node, wanted, now_s)

    def _pod(
        self, made: Plan, facts: PodFacts, uses: dict[str, Use], now: Joined, told: list[Verdict], now_s: float
    ) -> None:
        names = {uuid: in_cluster(facts.pod.node, uuid) for uuid in uses}
        devices = {uuid: now.devices[name] for uuid, name in names.items() if name in now.devices}
        wanted = {
            USE: documents.gpu_use(uses, devices),
            FINDING: _finding(told),
            **self._job(facts.job, facts.ranks),
        }
        made.accused += [Accused(one, facts.pod.ref, facts.pod.node) for one in told]
        _want(made, facts.pod, wanted, now_s)

    def _owned(self, made: Plan, owned: dict[str, _Owned], facts: PodFacts, now_s: float) -> _Owned | None:
        top = self._owners.top(facts.pod, now_s)
        if top.wanted is not None:
            made.unread.setdefault(top.wanted.ref.uid, top.wanted)
        return None if top.owner is None else owned.setdefault(top.owner.ref.uid, _Owned(top.owner))

    def _owner(self, made: Plan, one: _Owned, now: Joined, index: VerdictIndex, now_s: float) -> None:
        uid = one.owner.ref.uid
        seen = maxima.of_uses(one.uses.values(), now_s)
        highest = maxima.merged(self._highest.get(uid, {}), seen)
        if highest and (uid in self._highest or len(self._highest) < MOST_OWNERS):
            self._highest[uid] = highest
        jobs = sorted({facts.job for facts in one.pods if facts.job is not None})
        held = {in_cluster(facts.pod.node, uuid) for facts in one.pods for uuid in facts.devices}
        devices = [now.devices[name] for name in held & {*now.devices}]
        verdicts = one.told | {told.alert.id: told for job in jobs for told in index.of_job(job)}
        wanted: dict[str, Document | None] = {
            USE: documents.owner_use(list(one.uses.values())),
            FINDING: _finding(verdicts.values()),
            # Of several jobs of one owner, the newest attempt of the last by name: one document is one job's.
            **self._job(jobs[-1] if jobs else None, ()),
        }
        if devices:
            nodes = {facts.pod.node for facts in one.pods}
            wanted[INVENTORY] = documents.owner_inventory(devices, len(one.pods), len(nodes))
        kept = maxima.merged(maxima.written(one.owner.annotations.get(MAXIMA)), highest)
        if kept:
            wanted[MAXIMA] = maxima.document(kept)
        _want(made, one.owner, wanted, now_s, highest)

    def _left(self, made: Plan, owned: Mapping[str, _Owned]) -> None:
        """Owners whose pods are gone are told so once: use and finding go, all else stays."""
        for uid, ref in self._had.items():
            held = self._owners.find(uid)
            if uid not in owned and held is not None:
                gone: Changes = {key: None for key in (USE, FINDING) if key in held.annotations}
                if gone:
                    made.wants.append(Want(ref, gone))
        still = {uid: ref for uid, ref in self._had.items() if self._waits(uid)}
        self._had = {**still, **{uid: one.owner.ref for uid, one in owned.items()}}
        self._highest = {uid: told for uid, told in self._highest.items() if uid in self._had}

    def _orphans(self, made: Plan, now: Joined) -> None:
        """Pods and nodes of which nothing is known any more: what was told of now goes, all else stays."""
        described = {node.ref.name for node, _ in now.nodes}
        rest = [pod for uid, pod in self._objects.pods.items() if pod.annotations and uid not in now.pods]
        rest += [node for name, node in self._objects.nodes.items() if node.annotations and name not in described]
        for one in rest:
            gone: Changes = {key: None for key in (USE, FINDING, PROPOSAL) if key in one.annotations}
            if gone:
                made.wants.append(Want(one.ref, gone))

    def _waits(self, uid: str) -> bool:
        held = self._owners.find(uid)
        return held is not None and not {USE, FINDING}.isdisjoint(held.annotations)

    def _uses(self, facts: PodFacts, now_s: float) -> dict[str, Use]:
        """Of a pod's GPUs, since it was created: what came before was somebody else's."""
        minutes, node, since_s = self._book.minutes, facts.pod.node, facts.pod.created_s
        return {uuid: use for uuid in facts.devices if (use := minutes.use(node, uuid, now_s, since_s)) is not None}

    def _job(self, job: Job | None, ranks: Sequence[int]) -> dict[str, Document | None]:
        """What is known of the job: what is not known is left as it is."""
        if job is None:
            return {}
        told: dict[str, Document | None] = {JOB: documents.job(job, self._book.cluster, ranks)}
        profile = self._book.profiles.get(job.name)
        if profile is not None and profile.attempt == job.attempt:
            told |= {KIND: documents.kind(profile), CYCLE: documents.cycle(profile)}
        return told


def _finding(verdicts: Iterable[Verdict]) -> Document | None:
    standing = [one for one in verdicts if one.standing.fires]
    first = worst(standing)
    return None if first is None else documents.finding(first, len(standing) - 1)


def _want(
    made: Plan,
    known: Known,
    wanted: Mapping[str, Document | None],
    now_s: float,
    highest: Mapping[str, Highest] | None = None,
) -> None:
    """Add what ``known`` lacks of ``wanted``."""
    changes: Changes = {}
    for key, document in wanted.items():
        held = known.annotations.get(key)
        if document is None:
            if held is not None:
                changes[key] = None
        elif (text := news(held, document, now_s)) is not None:
            changes[key] = text
    if changes:
        made.wants.append(Want(known.ref, _bounded(known, changes), FINDING in changes, highest))


def _bounded(known: Known, changes: Changes) -> Changes:
    """``changes`` that fit beside what is there: the least important are left out."""
    after = {**known.annotations, **{key: text or "" for key, text in changes.items()}}
    size, fitting = sum(len(text.encode()) for text in after.values()), dict(changes)
    for key in (PROPOSAL, USE, CYCLE, KIND):
        if size > MOST_BYTES_OF_ALL and fitting.get(key):
            size -= len((fitting.pop(key) or "").encode())
    return fitting
