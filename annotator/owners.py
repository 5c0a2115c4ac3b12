"""From a pod up to what its users started: Job, MPIJob, RayCluster, whatever is configured.

Rule of this file: pure; it says which objects must be read, and others read them. A chain is followed by controllers
alone, eight steps at most; what cannot be read ends it. The topmost of the kinds that are configured counts, so that a
Job which a JobSet made is told at the JobSet.
"""

import re
from collections import OrderedDict
from typing import NamedTuple

from .kube_objects import Known, OwnerRef, Ref

#: Group and kind of those that are told at, unless others are named.
KINDS = (
    ("batch", "Job"),
    ("batch.volcano.sh", "Job"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "MPIJob"),
    ("kubeflow.org", "PyTorchJob"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("ray.io", "RayCluster"),
    ("ray.io", "RayJob"),
    ("trainer.kubeflow.org", "TrainJob"),
)
#: Kinds by which others make their pods: passed through on the way up, where they may be read.
BETWEEN = (("apps", "ReplicaSet"), ("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("ray.io", "RayCluster"))
MOST_STEPS, MOST_OWNERS = 8, 20_000
#: How long an owner that could not be read is not asked for again.
UNREADABLE_S = 600.0
_GROUP = r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?"


class Wanted(NamedTuple):
    """An owner that must be read to go on: in ``namespace``, unless its kind has none."""

    ref: OwnerRef
    namespace: str


class Top(NamedTuple):
    """What a pod's chain leads to: the owner to tell at, or None; or what must be read first."""

    owner: Known | None
    wanted: Wanted | None = None


def kind_of(raw: str) -> tuple[str, str]:
    """Group and kind of ``GROUP/KIND``; ``core/KIND`` or ``KIND`` alone is the core group's.

    Raises:
        ValueError: it is no such word.

    >>> kind_of("kubeflow.org/MPIJob"), kind_of("ReplicationController")
    (('kubeflow.org', 'MPIJob'), ('', 'ReplicationController'))
    """
    group, _, kind = raw.rpartition("/")
    group = "" if group == "core" else group
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", kind) or not re.fullmatch(_GROUP, group):
        raise ValueError("not GROUP/KIND, as kubeflow.org/MPIJob")
    return group, kind


class Owners:
    """Owners by uid, as they were read."""

    def __init__(self, kinds: frozenset[tuple[str, str]] = frozenset(KINDS)) -> None:
        self.kinds = kinds
        self._walked = kinds | {*BETWEEN}
        self._held: OrderedDict[str, Known] = OrderedDict()
        #: When each turned out to be so.
        self._unreadable: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def top(self, pod: Known, now_s: float) -> Top:
        """The owner that ``pod`` is told at."""
        at, best, seen = pod.controller, None, set[str]()
        while at is not None and at.uid not in seen and len(seen) < MOST_STEPS:
            seen.add(at.uid)
            if (at.group, at.kind) not in self._walked or self._is_unreadable(at.uid, now_s):
                break
            held = self._held.get(at.uid)
            if held is None:
                return Top(None, Wanted(at, pod.ref.namespace))
            self._held.move_to_end(at.uid)
            best = held if (at.group, at.kind) in self.kinds else best
            at = held.controller
        return Top(best)

    def find(self, uid: str) -> Known | None:
        """The owner of that uid, if it was read."""
        return self._held.get(uid)

    def put(self, owner: Known) -> None:
        """Take an owner as it was read."""
        self._unreadable.pop(owner.ref.uid, None)
        self._held[owner.ref.uid] = owner
        self._held.move_to_end(owner.ref.uid)
        if len(self._held) > MOST_OWNERS:
            self._held.popitem(last=False)

    def unreadable(self, uid: str, now_s: float) -> None:
        """It is not there, or not for us."""
        self._held.pop(uid, None)
        self._unreadable[uid] = now_s
        if len(self._unreadable) > MOST_OWNERS:
            self._unreadable.popitem(last=False)

    def _is_unreadable(self, uid: str, now_s: float) -> bool:
        """For a while only: it may have been made since. A clock that was set back ends it."""
        since_s = self._unreadable.get(uid)
        return since_s is not None and 0.0 <= now_s - since_s < UNREADABLE_S

    def wrote(self, ref: Ref, annotations: dict[str, str]) -> None:
        """A write has left ``annotations`` there."""
        held = self._held.get(ref.uid)
        if held is not None:
            self._held[ref.uid] = held._replace(annotations=annotations)
