"""A door: the pods and nodes that there are, by list and watch, kept up to date in ``KubeObjects``.

Rule of this file: a list is read page by page and taken whole; a watch goes on from the last version that was seen,
also after it broke off; a version that the server has forgotten (410) is a new list; what ends at once is waited for.
One thread a watcher; what it raises ends the round, and its supervisor starts the next.
"""

import threading
import time
from collections.abc import Callable
from random import Random

import msgspec

from paceline.backoff import Backoff
from paceline.decoders import json_decoder
from paceline.supervised import SupervisedThread

from .api_errors import ApiError, NoRightError
from .budget import LONGEST_ASKED_S
from .kube_api import NODES, PODS, KubeApi, Resource
from .kube_objects import Known, KubeObjects, Metadata, Told, known

#: Objects of one page; how long one watch lasts, at least and at most.
PAGE, WATCH_S = 250, (240, 360)
#: Pods that run somewhere and have not ended.
RUNNING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
#: A node is large, and only its metadata are read.
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
LIST, ONE = "List", ""
#: Lists that are begun anew because they took too long; how long what is not allowed is not asked for again.
MOST_LISTS, NO_RIGHT_S = 3, 600.0
#: The first and the longest wait after a watch that broke off.
BROKEN_FIRST_S, BROKEN_CAP_S = 0.2, 20.0
#: A watch that ends before, and without a line, is as one that broke off.
AT_ONCE_S = 1.0
GONE = 410


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] = []


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


class _OnlyMetadata(msgspec.Struct):
    metadata: Metadata


class Watcher:
    """Keeps ``objects`` as ``resource`` is in ``namespace`` ("": in all); ``lock`` is held while they change."""

    def __init__(
        self,
        api: KubeApi,
        resource: Resource,
        namespace: str,
        objects: KubeObjects,
        lock: threading.Lock,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._api, self._resource, self._namespace = api, resource, namespace
        self._objects, self._lock, self._stop, self._say = objects, lock, stop, say
        self._version, self._random = "", Random()
        #: Whether a line was heard since the last watch was begun, and since a version was last forgotten.
        self._heard = self._heard_since_gone = True
        self._backoff = Backoff(BROKEN_FIRST_S, BROKEN_CAP_S, self._random)
        #: Why nothing is heard now; empty while all is well.
        self.trouble = ""
        #: Whether all was listed once; why nothing can be listed for want of a right, else empty.
        self.listed, self.refused = False, ""
        #: Lists that were read, watches that were begun, objects that could not be read.
        self.lists = self.watches = self.unusable = 0
        self.what = resource.plural
        name = f"the watch of {resource.plural}" + (f" in {namespace}" if namespace else "")
        self.thread = SupervisedThread(name, self._run, stop)

    def waits(self) -> str | None:
        """What is missing; None where all is known that may be."""
        if self.thread.failure or self.trouble:
            return self.thread.failure or self.trouble
        return None if self.listed or self.refused else f"listing {self._resource.plural}"

    def list_all(self) -> None:
        """Read all there are.

        Raises:
            ApiError: they cannot be read.
        """
        for left in reversed(range(MOST_LISTS)):
            try:
                self._list_pages()
                return
            except ApiError as error:
                # It took longer than the server remembers where it was.
                if error.status != GONE or not left:
                    raise

    def _list_pages(self) -> None:
        query: dict[str, object] = {"limit": PAGE, **self._selected()}
        uids = set[str]()
        while True:
            content = self._api.list(self._resource, self._namespace, query, self._accept(LIST))
            page = json_decoder(_Page).decode(content)
            for told in filter(None, map(self._known, page.items)):
                uids.add(told.ref.uid)
                with self._lock:
                    self._objects.put(told)
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        with self._lock:
            self._objects.keep_only(self._resource.kind, self._namespace or None, uids)
        self._version, self.listed, self.refused = page.metadata.resource_version, True, ""
        self.lists += 1

    def watch_once(self) -> None:
        """Follow changes from the last version that was seen, until the server ends the watch.

        Raises:
            ApiError: it broke off, or that version is forgotten.
        """
        self.watches += 1
        self._heard = False
        seconds = self._random.randint(*WATCH_S)
        query = {"resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        query |= self._selected()
        lines = self._api.watch(self._resource, self._namespace, query, self._accept(ONE))
        self._well()
        for line in lines:
            self._take(line)
            if self._stop.is_set():
                return

    def _run(self) -> None:
        try:
            self.list_all()
        except NoRightError as error:
            self._refuse(error)
            return
        while not self._stop.is_set():
            self._well()
            try:
                began_s = time.monotonic()
                self.watch_once()
                if not self._heard and time.monotonic() - began_s < AT_ONCE_S:
                    self._trouble("ended immediately")
            except ApiError as error:
                if error.status == GONE:
                    self._list_again(error)
                elif error.outcome == "busy":
                    self._trouble(error)
                else:
                    raise

    def _list_again(self, error: ApiError) -> None:
        """The version is forgotten; where that is so again and nothing was heard in between, it is waited for."""
        if not self._heard_since_gone:
            self._trouble(error)
        self._heard_since_gone = False
        if not self._stop.is_set():
            self.list_all()

    def _well(self) -> None:
        """The API answers. A watch that breaks off at once, again and again, is waited for longer and longer."""
        self.thread.well()
        self.trouble = ""

    def _trouble(self, why: ApiError | str) -> None:
        self.trouble = f"{self.thread.name} broke off: {why}"
        asked_s = why.retry_after_s or 0.0 if isinstance(why, ApiError) else 0.0
        self._stop.wait(max(self._backoff.next_s(), min(asked_s, LONGEST_ASKED_S)))

    def _refuse(self, error: NoRightError) -> None:
        if str(error) != self.refused:
            self._say(str(error))
        self.refused = str(error)
        while not self._stop.wait(NO_RIGHT_S):
            try:
                self.list_all()
                return
            except NoRightError as again:
                self.refused = str(again)

    def _take(self, line: bytes) -> None:
        change = json_decoder(_Change).decode(line)
        if change.type == "ERROR":
            failure = json_decoder(_Failure).decode(change.object)
            raise ApiError(failure.code, "", failure.message[:300])
        self._backoff.reset()
        self._heard = self._heard_since_gone = True
        if change.type == "BOOKMARK":
            self._version = json_decoder(_OnlyMetadata).decode(change.object).metadata.resource_version
            return
        told = self._known(change.object)
        if told is None:
            return
        self._version = told.resource_version
        with self._lock:
            if change.type == "DELETED":
                self._objects.drop(told.ref)
            else:
                self._objects.put(told)

    def _known(self, raw: msgspec.Raw) -> Known | None:
        """An object as far as it is needed; None where it cannot be read, which is counted."""
        try:
            return known(json_decoder(Told).decode(raw), self._resource.api_version, self._resource.kind)
        except (msgspec.DecodeError, UnicodeError):
            self.unusable += 1
            return None

    def _selected(self) -> dict[str, object]:
        return {"fieldSelector": RUNNING} if self._resource == PODS else {}

    def _accept(self, form: str) -> str:
        return METADATA.format(form) if self._resource == NODES else ""
