"""Objects of Kubernetes as far as they are needed here: who they are, where they run, who owns them, what we wrote.

Rule of this file: pure and bounded. The live annotations of an object are the only memory of what was written to it:
so nothing is written twice after a restart, and what somebody else removed is put back. Names are unique at one moment
only; a uid never comes again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

PREFIX = "paceline.dev/"
#: Pods and nodes that are known of at most.
MOST_PODS, MOST_NODES = 200_000, 50_000
#: Letters of an annotation of ours that are kept: a longer one is not ours, and is written over.
LONGEST_HELD = 8192
_TOO_LONG = "?"


class OwnerRef(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of ``ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group; "" is the core one."""
        return group_of(self.api_version)


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What ``metadata`` of any object holds."""

    name: str = ""
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerRef] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """An object as the API tells it; of a pod with its node."""

    metadata: Metadata
    spec: _Spec = _Spec()


class Ref(NamedTuple):
    """One object, for good: the uid says which of those that had the name."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Known(NamedTuple):
    """What is known of an object; ``annotations`` are ours alone, without the prefix."""

    ref: Ref
    annotations: dict[str, str]
    controller: OwnerRef | None = None
    node: str = ""
    created_s: float = 0.0
    resource_version: str = ""


def group_of(api_version: str) -> str:
    """The group of ``group/version``.

    >>> group_of("kubeflow.org/v1"), group_of("v1")
    ('kubeflow.org', '')
    """
    return api_version.rpartition("/")[0]


def known(told: Told, api_version: str, kind: str) -> Known:
    """What is kept of ``told``."""
    meta = told.metadata
    controllers = [ref for ref in meta.owner_references or () if ref.controller]
    return Known(
        Ref(api_version, kind, meta.namespace, meta.name, meta.uid),
        ours(meta.annotations or {}),
        controllers[0] if controllers else None,
        told.spec.node_name,
        meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
        meta.resource_version,
    )


def ours(annotations: dict[str, str]) -> dict[str, str]:
    """Our annotations among all, without the prefix."""
    return {
        key.removeprefix(PREFIX): value if len(value) <= LONGEST_HELD else _TOO_LONG
        for key, value in annotations.items()
        if key.startswith(PREFIX)
    }


class KubeObjects:
    """Pods and nodes that are there now.

    ``pretend``: what we wrote is kept here whatever the API says, for a run that writes nothing.
    """

    def __init__(self, pretend: bool = False) -> None:
        self.pods: dict[str, Known] = {}
        self.nodes: dict[str, Known] = {}
        self._pretend = pretend
        #: Uids by namespace and name.
        self._names: dict[tuple[str, str], str] = {}
        #: Objects that were passed over because there were too many.
        self.shed = 0

    def pod(self, namespace: str | None, name: str | None, uid: str | None = None) -> Known | None:
        """The pod of that uid, else the one that has that name now."""
        if uid:
            return self.pods.get(uid.replace("_", "-"))  # As systemd's cgroups write it.
        return self.pods.get(self._names.get((namespace or "", name or ""), ""))

    def holds(self, ref: Ref) -> bool:
        """Whether that very object is there."""
        held = self.nodes.get(ref.name) if ref.kind == "Node" else self.pods.get(ref.uid)
        return held is not None and held.ref.uid == ref.uid

    def put(self, told: Known) -> None:
        """Take what is told of an object, or what a write has made of it."""
        if told.ref.kind == "Node":
            self._put_node(told)
            return
        held = self.pods.get(told.ref.uid)
        if held is None and len(self.pods) >= MOST_PODS:
            self.shed += 1
            return
        self.pods[told.ref.uid] = self._kept(held, told)
        self._names[told.ref.namespace, told.ref.name] = told.ref.uid

    def wrote(self, ref: Ref, annotations: dict[str, str]) -> None:
        """A write has left ``annotations`` there."""
        held = self.nodes.get(ref.name) if ref.kind == "Node" else self.pods.get(ref.uid)
        if held is None or held.ref.uid != ref.uid:
            return
        target = self.nodes if ref.kind == "Node" else self.pods
        target[ref.name if ref.kind == "Node" else ref.uid] = held._replace(annotations=annotations)

    def drop(self, ref: Ref) -> None:
        """An object is gone; another of its name may be there already."""
        if ref.kind == "Node":
            held = self.nodes.get(ref.name)
            if held is not None and held.ref.uid == ref.uid:
                del self.nodes[ref.name]
            return
        self.pods.pop(ref.uid, None)
        if self._names.get((ref.namespace, ref.name)) == ref.uid:
            del self._names[ref.namespace, ref.name]

    def keep_only(self, kind: str, namespace: str | None, uids: Iterable[str]) -> None:
        """A whole list was read: of ``kind`` in ``namespace`` (None: in all) no others are there."""
        there = {*uids}
        held = self.nodes.values() if kind == "Node" else self.pods.values()
        gone = [one.ref for one in held if namespace in (None, one.ref.namespace) and one.ref.uid not in there]
        for ref in gone:
            self.drop(ref)

    def _put_node(self, told: Known) -> None:
        held = self.nodes.get(told.ref.name)
        if held is None and len(self.nodes) >= MOST_NODES:
            self.shed += 1
            return
        same = held if held is not None and held.ref.uid == told.ref.uid else None
        self.nodes[told.ref.name] = self._kept(same, told)

    def _kept(self, held: Known | None, told: Known) -> Known:
        return told._replace(annotations=held.annotations) if self._pretend and held is not None else told
