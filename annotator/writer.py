"""A door: what an object lacks is written to it, as a merge patch of our own keys, and nothing else of it is touched.

Rule of this file: a merge patch, not a server-side apply. It never makes an object that is gone (an apply would, where
that is allowed), it needs no force against who had our keys before, and it says only what changes. ``uid`` in it is a
condition: a pod of the same name that was created since is not written to. What is merged with what is there, the
maxima of an owner, is read first and written with its ``resourceVersion``, so that nobody's write in between is lost.
"""

import threading
from typing import Any, Protocol

import msgspec

from paceline.decoders import json_decoder

from . import maxima
from .api_errors import ApiError
from .budget import Outcome
from .discovery import Discovery
from .documents import MAXIMA
from .kube_api import NODES, PODS, KubeApi, Resource
from .kube_objects import PREFIX, Known, KubeObjects, Ref, Told, known, ours
from .owners import Owners
from .plan import Changes, Want
from .steady import news

#: How often a merge is tried at once when somebody else writes in between.
MOST_TRIES = 3


class Writes(Protocol):
    """Whoever does what a ``Want`` says."""

    def write(self, want: Want, now_s: float) -> Outcome:
        """Do it; what came of it.

        Raises:
            ApiError: it was not done, and the error says what that means.
        """


def patch(ref: Ref, changes: Changes, resource_version: str = "") -> dict[str, Any]:
    """The body of a patch that changes only ``changes``, and only on that very object.

    >>> patch(Ref("v1", "Pod", "ml", "p", "u1"), {"job": None})
    {'metadata': {'uid': 'u1', 'annotations': {'paceline.dev/job': None}}}
    """
    version = {"resourceVersion": resource_version} if resource_version else {}
    return {
        "metadata": {"uid": ref.uid, **version, "annotations": {PREFIX + key: text for key, text in changes.items()}}
    }


class Writer:
    """Writes to the API and keeps ``objects`` and ``owners`` as what they then are; ``lock`` is held for that."""

    def __init__(
        self, api: KubeApi, discovery: Discovery, objects: KubeObjects, owners: Owners, lock: threading.Lock
    ) -> None:
        self._api, self._discovery, self._objects, self._owners = api, discovery, objects, owners
        self._lock = lock

    def write(self, want: Want, now_s: float) -> Outcome:
        """Write it.

        Raises:
            ApiError: it was not written.
        """
        resource = self._resource(want.ref, now_s)
        if resource in (PODS, NODES):
            return self._write(resource, want)
        for _ in range(MOST_TRIES):
            outcome = self._merge(resource, want, now_s)
            if outcome != "conflict":
                return outcome
        return "conflict"

    def _resource(self, ref: Ref, now_s: float) -> Resource:
        builtin = {"Pod": PODS, "Node": NODES}.get(ref.kind) if ref.api_version == "v1" else None
        found = builtin or self._discovery.find(ref.api_version, ref.kind, now_s)
        if found is None:
            raise ApiError(404, "NotFound", f"the API offers no {ref.kind} in {ref.api_version} any more")
        return found

    def _write(self, resource: Resource, want: Want) -> Outcome:
        ref = want.ref
        try:
            content = self._api.patch(resource, ref.namespace, ref.name, patch(ref, want.changes))
        except ApiError as error:
            if error.status not in (409, 422):
                raise
            return self._why(resource, want, error)
        self._take(ref, content)
        return "written"

    def _merge(self, resource: Resource, want: Want, now_s: float) -> Outcome:
        """Write to an owner: what it holds by now counts, and its maxima are merged with ours."""
        ref = want.ref
        now = known(_told(self._api.get(resource, ref.namespace, ref.name)), ref.api_version, ref.kind)
        if now.ref.uid != ref.uid:
            return "gone"
        with self._lock:
            self._owners.put(now)
        changes = merged(want, now, now_s)
        if not changes:
            return "written"
        body = patch(ref, changes, now.resource_version)
        try:
            content = self._api.patch(resource, ref.namespace, ref.name, body)
        except ApiError as error:
            if error.status != 409:
                raise
            return "conflict"
        self._take(ref, content)
        return "written"

    def _why(self, resource: Resource, want: Want, error: ApiError) -> Outcome:
        """What a refused patch means: the object is another one by now, or somebody wrote at the same time."""
        now = known(
            _told(self._api.get(resource, want.ref.namespace, want.ref.name)), want.ref.api_version, want.ref.kind
        )
        if now.ref.uid != want.ref.uid:
            return "gone"
        with self._lock:
            if self._objects.holds(now.ref):  # The watch may have told meanwhile that it is gone.
                self._objects.put(now)
        if error.status == 422:
            raise error
        return "conflict"

    def _take(self, ref: Ref, content: bytes) -> None:
        told = _told(content)
        with self._lock:
            for held in (self._objects, self._owners):
                held.wrote(ref, ours(told.metadata.annotations or {}))


def merged(want: Want, now: Known, now_s: float) -> Changes:
    """What is left of ``want`` to change where the object is as ``now``; maxima are of both."""
    changes: Changes = {}
    for key, text in want.changes.items():
        held = now.annotations.get(key)
        if key == MAXIMA and want.highest:
            both = maxima.merged(maxima.written(held), want.highest)
            text = news(held, maxima.document(both), now_s) or held
        if text != held:
            changes[key] = text
    return changes


def _told(content: bytes) -> Told:
    try:
        return json_decoder(Told).decode(content)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ApiError(0, "", f"an answer that is no object: {str(error)[:200]}") from error
