"""An API server of Kubernetes, as far as the annotator and kubectl look: real HTTP, real conditions on writes.

Rule of this file: it answers as the real one does where that is documented or seen in its source, and knows nothing of
the annotator. No controller is behind it; ``tests/trials/kube_cluster.py`` is one with. Whoever may ask what is decided
by the rules of a ClusterRole, by token. Requests are counted; faults are injected by a test.
"""

import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.annotator.api_http import Asked, handler
from tests.annotator.api_objects import (
    Kind,
    Object,
    RefusedError,
    as_metadata,
    change,
    check_event,
    groups,
    managed,
    merge,
    merge_conditions,
    owners,
    resources,
    selected,
    shown,
    stamped_now,
)

BUILT_IN = (
    Kind("", "v1", "Pod", "pods"),
    Kind("", "v1", "Node", "nodes", False),
    Kind("", "v1", "Namespace", "namespaces", False),
    Kind("events.k8s.io", "v1", "Event", "events"),
    Kind("batch", "v1", "Job", "jobs"),
    Kind("apps", "v1", "ReplicaSet", "replicasets"),
    Kind("apps", "v1", "StatefulSet", "statefulsets"),
    Kind("apps", "v1", "Deployment", "deployments"),
    Kind("", "v1", "Secret", "secrets"),
    Kind("", "v1", "Service", "services"),
)


@dataclass
class Fault:
    """What befalls the next ``times`` requests that ``hits`` picks: a refusal, or a connection that breaks (None)."""

    hits: Callable[[Asked], bool]
    refusal: RefusedError | None
    times: int = 1


@dataclass
class Served:
    """What is stored: objects by kind, namespace and name; every change in order."""

    kinds: list[Kind] = field(default_factory=lambda: list(BUILT_IN))
    objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = field(default_factory=dict)
    log: list[tuple[int, Kind, str, Object, Object | None]] = field(default_factory=list)
    version: int = 100
    #: Versions before this one are forgotten.
    oldest: int = 0


class ApiServer:
    """Serves on ``port`` of 127.0.0.1; ``rules`` by token say who may do what, None: all may do all."""

    def __init__(
        self, port: int, rules: dict[str, list[Object]] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.served, self.rules = Served(), rules
        self.asked: list[Asked] = []
        self.faults: list[Fault] = []
        #: What a patch of an object with another uid gets: 422 by the API server of today.
        self.uid_code = 422
        self.bookmark_s = 0.5
        self.changed = threading.Condition()
        #: How often watches were broken off, and how many were opened: only a watch that is open can be broken off.
        self.epoch = self.opened = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler(self))
        self._http.daemon_threads, self._http.block_on_close = True, False
        self._scheme = "https" if tls else "http"
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> "ApiServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.break_watches()
        self._http.shutdown()
        self._http.server_close()

    # What a test does to the cluster.

    def install(self, group: str, version: str, kind: str, plural: str) -> None:
        """A CRD."""
        self.served.kinds.append(Kind(group, version, kind, plural))

    def put(self, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
        """Create or replace an object, as a controller would."""
        served = self._kind(kind)
        with self.changed:
            held = self._table(served).get((namespace, name))
            made = {"apiVersion": served.api_version, "kind": kind, **deepcopy(fields)}
            own = {"name": name, **({"namespace": namespace} if namespace else {})}
            uid = held["metadata"]["uid"] if held else str(uuid.uuid4())
            stamp = held["metadata"]["creationTimestamp"] if held else stamped_now()
            made["metadata"] = {"uid": uid, "creationTimestamp": stamp, **made.get("metadata", {}), **own}
            self._store(served, "MODIFIED" if held else "ADDED", made, held)
            return deepcopy(made)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        served = self._kind(kind)
        with self.changed:
            held = self._table(served).pop((namespace, name))
            gone = deepcopy(held)
            self.served.version += 1
            gone["metadata"]["resourceVersion"] = str(self.served.version)
            self.served.log.append((self.served.version, served, "DELETED", gone, held))
            self.changed.notify_all()

    def annotate(self, kind: str, name: str, namespace: str = "", **annotations: str) -> None:
        """Somebody else's write."""
        with self.changed:
            served = self._kind(kind)
            held = self._table(served)[namespace, name]
            made = deepcopy(held)
            made["metadata"].setdefault("annotations", {}).update(annotations)
            self._store(served, "MODIFIED", made, held)

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        with self.changed:
            return deepcopy(self._table(self._kind(kind))[namespace, name])

    def all(self, kind: str) -> list[Object]:
        with self.changed:
            return deepcopy(list(self._table(self._kind(kind)).values()))

    def annotations(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """Ours, read as JSON, without the prefix."""
        held = self.get(kind, name, namespace)["metadata"].get("annotations", {})
        ours = {key: value for key, value in held.items() if key.startswith("paceline.dev/")}
        return {key.removeprefix("paceline.dev/"): json.loads(value) for key, value in ours.items()}

    def fail(
        self, hits: Callable[[Asked], bool], code: int | None, times: int = 1, retry_after: str = "", message: str = "x"
    ) -> None:
        """The next ``times`` requests that ``hits`` picks get ``code``; None: the connection breaks."""
        headers = {"Retry-After": retry_after} if retry_after else {}
        self.faults.append(Fault(hits, RefusedError(code, "Injected", message, headers) if code else None, times))

    def forget(self) -> None:
        """Versions before now are gone, and all continue tokens with them."""
        with self.changed:
            self.served.oldest = self.served.version

    def break_watches(self) -> None:
        """Every watch breaks off in the middle."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def writes(self) -> list[Asked]:
        return [one for one in self.asked if one.method in ("PATCH", "POST", "PUT", "DELETE")]

    def count(self, method: str, part: str = "") -> int:
        return sum(one.method == method and part in one.path for one in self.asked)

    # What it answers.

    def answer(self, asked: Asked, token: str) -> tuple[int, Any]:
        """Status and body; a list of lines where it is a watch.

        Raises:
            RefusedError: it is refused.
        """
        self.asked.append(asked)
        self._befall(asked)
        parts = [unquote(part) for part in asked.path.strip("/").split("/")]
        found = self._discovery(parts)
        if found is not None:
            return 200, found
        kind, namespace, name, sub = self._route(parts)
        watching = asked.query.get("watch") in ("true", "1")
        verb = {"GET": "get" if name else "watch" if watching else "list", "POST": "create", "PATCH": "patch"}
        self._allow(verb.get(asked.method, asked.method.lower()), kind, namespace, name, sub, token)
        if asked.method == "GET" and sub == "log":
            return 200, self._log(namespace, name, asked.query)
        if asked.method == "GET" and name:
            return 200, self._one(kind, namespace, name)
        if asked.method == "GET" and watching:
            return 200, self._watch(kind, namespace, asked.query)
        if asked.method == "GET":
            return 200, self._list(kind, namespace, asked.query)
        if asked.method == "POST":
            return 201, self._create(kind, namespace, asked.body)
        if asked.method == "PATCH":
            return 200, self._patch(kind, namespace, name, sub, asked)
        if asked.method == "DELETE" and name:
            return 200, self._delete(kind, namespace, name, asked.body or {})
        raise RefusedError(405, "MethodNotAllowed", "not here")

    def _befall(self, asked: Asked) -> None:
        for fault in self.faults:
            if fault.times > 0 and fault.hits(asked):
                fault.times -= 1
                if fault.refusal is None:
                    raise ConnectionError
                raise fault.refusal

    def _discovery(self, parts: list[str]) -> Any:
        if parts == ["version"]:
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts[0] == "apis" and len(parts) <= 2:
            return groups(self.served.kinds, *parts[1:])
        if (parts[0] == "api" and len(parts) == 2) or (parts[0] == "apis" and len(parts) == 3):
            return resources(self.served.kinds, "/".join(parts[1:]))
        return None

    def _route(self, parts: list[str]) -> tuple[Kind, str, str, str]:
        core = parts[0] == "api"
        version, rest = ("v1", parts[2:]) if core else ("/".join(parts[1:3]), parts[3:])
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        rest += [""] * (3 - len(rest))
        kind = next((k for k in self.served.kinds if k.api_version == version and k.plural == rest[0]), None)
        if kind is None or len(rest) > 3:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return kind, namespace, rest[1], rest[2]

    def _allow(self, verb: str, kind: Kind, namespace: str, name: str, sub: str, token: str) -> None:
        if self.rules is None:
            return
        if token not in self.rules:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        resource = f"{kind.plural}/{sub}" if sub else kind.plural
        for rule in self.rules[token]:
            if kind.group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]:
                return
        where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
        named = f' "{name}"' if name else ""
        said = f'{kind.plural}{named} is forbidden: User "system:serviceaccount:paceline:annotator" cannot {verb} '
        raise RefusedError(403, "Forbidden", f'{said}resource "{resource}" in API group "{kind.group}"{where}')

    def _one(self, kind: Kind, namespace: str, name: str) -> Object:
        with self.changed:
            held = self._table(kind).get((namespace, name))
            if held is None:
                raise RefusedError(404, "NotFound", f'{kind.plural} "{name}" not found')
            return deepcopy(held)

    def _list(self, kind: Kind, namespace: str, query: dict[str, str]) -> Object:
        with self.changed:
            version, after = str(self.served.version), ("", "")
            if token := query.get("continue"):
                version, *rest = json.loads(token)
                after = tuple(rest)
                if int(version) < self.served.oldest:
                    raise RefusedError(410, "Expired", "The provided continue parameter is too old")
            rows = [
                (key, held)
                for key, held in sorted(self._table(kind).items())
                if key > after and namespace in ("", key[0]) and selected(held, query)
            ]
            most = int(query.get("limit", 0)) or len(rows)
            meta = {"resourceVersion": version}
            if len(rows) > most:
                meta["continue"] = json.dumps([version, *rows[most - 1][0]])
                meta["remainingItemCount"] = len(rows) - most
            items = [deepcopy(held) for _, held in rows[:most]]
        if as_metadata(query, "PartialObjectMetadataList"):
            told = [shown(held, {"accept": query["accept"].replace("MetadataList", "Metadata")}) for held in items]
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": told,
            }
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": items}

    def _watch(self, kind: Kind, namespace: str, query: dict[str, str]) -> Iterator[Object | None]:
        """Changes after the version; None where the connection is to break."""
        at, end = int(query.get("resourceVersion") or 0), time.monotonic() + float(query.get("timeoutSeconds", 300))
        bookmark_s = time.monotonic() + self.bookmark_s
        with self.changed:
            epoch, self.opened = self.epoch, self.opened + 1
        while time.monotonic() < end:
            with self.changed:
                too_old, broken = at < self.served.oldest, self.epoch != epoch
                news = [one for one in self.served.log if one[0] > at]
                if not (news or too_old or broken):
                    self.changed.wait(0.05)
            if too_old:
                yield {
                    "type": "ERROR",
                    "object": RefusedError(410, "Expired", f"too old resource version: {at}").status,
                }
                return
            if broken:
                yield None
                return
            for version, changed, what, held, before in news:
                at = version
                told = change(what, held, before, query)
                if changed == kind and namespace in ("", held["metadata"].get("namespace", "")) and told:
                    yield {"type": told, "object": shown(deepcopy(held), query)}
            if query.get("allowWatchBookmarks") == "true" and time.monotonic() >= bookmark_s:
                bookmark_s = time.monotonic() + self.bookmark_s
                meta = {"resourceVersion": str(at), "creationTimestamp": None}
                yield {
                    "type": "BOOKMARK",
                    "object": {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta},
                }

    def _create(self, kind: Kind, namespace: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        if kind.kind == "Event":
            check_event(body)
        with self.changed:
            if (namespace, name) in self._table(kind):
                raise RefusedError(409, "AlreadyExists", f'{kind.plural} "{name}" already exists')
        return self.put(
            kind.kind, name, namespace, **{key: body[key] for key in body if key not in ("apiVersion", "kind")}
        )

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> bytes:
        raise RefusedError(405, "MethodNotAllowed", "no kubelet is here")

    def _delete(self, kind: Kind, namespace: str, name: str, options: Object) -> Object:
        raise RefusedError(405, "MethodNotAllowed", "no garbage collector is here")

    def _patch(self, kind: Kind, namespace: str, name: str, sub: str, asked: Asked) -> Object:
        with self.changed:
            held = self._table(kind).get((namespace, name))
            if held is None:
                raise RefusedError(404, "NotFound", f'{kind.plural} "{name}" not found')
            meta, now_held = asked.body.get("metadata", {}), held["metadata"]
            if meta.get("uid", now_held["uid"]) != now_held["uid"]:
                reason = "Invalid" if self.uid_code == 422 else "Conflict"
                raise RefusedError(
                    self.uid_code, reason, f'{kind.kind} "{name}" is invalid: metadata.uid: field is immutable'
                )
            if str(meta.get("resourceVersion") or now_held["resourceVersion"]) != now_held["resourceVersion"]:
                raise RefusedError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on {kind.plural} "{name}": the object has been modified',
                )
            body = {"status": asked.body.get("status", {})} if sub == "status" else asked.body
            manager = asked.query.get("fieldManager", "unknown")
            made = self._patched(held, body, asked, manager)
            if kind.kind == "Event":
                check_event(made)
            size = sum(len(key) + len(value.encode()) for key, value in made["metadata"].get("annotations", {}).items())
            if size > 256 * 1024:
                raise RefusedError(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")
            if {**made, "metadata": {**made["metadata"], "managedFields": 0}} == {
                **held,
                "metadata": {**now_held, "managedFields": 0},
            }:
                return deepcopy(held)  # Nothing changes: no new version.
            self._store(kind, "MODIFIED", made, held)
            return deepcopy(made)

    def _patched(self, held: Object, body: Object, asked: Asked, manager: str) -> Object:
        applied = asked.content_type == "application/apply-patch+yaml"
        annotations = body.get("metadata", {}).get("annotations", {})
        if applied and asked.query.get("force") != "true":
            for key, value in annotations.items():
                others = [one for one in owners(held, key) if one != manager]
                if others and held["metadata"].get("annotations", {}).get(key) != value:
                    raise RefusedError(
                        409, "Conflict", f'Apply failed with 1 conflict: conflict with "{others[0]}": .{key}'
                    )
        made = deepcopy(held)
        if asked.content_type == "application/strategic-merge-patch+json":
            merge_conditions(made, body)
        else:
            made = merge(made, {key: value for key, value in body.items() if key not in ("apiVersion", "kind")})
        made["metadata"]["managedFields"] = managed(held, manager, "Apply" if applied else "Update", annotations)
        if applied:  # What this manager had applied before and leaves out now, goes.
            for key in [key for key in made["metadata"].get("annotations", {}) if owners(held, key) == [manager]]:
                if key not in annotations:
                    del made["metadata"]["annotations"][key]
        return made

    def _store(self, kind: Kind, what: str, made: Object, held: Object | None) -> None:
        self.served.version += 1
        made["metadata"]["resourceVersion"] = str(self.served.version)
        meta = made["metadata"]
        self._table(kind)[meta.get("namespace", ""), meta["name"]] = made
        self.served.log.append((self.served.version, kind, what, deepcopy(made), deepcopy(held)))
        self.changed.notify_all()

    def _table(self, kind: Kind) -> dict[tuple[str, str], Object]:
        return self.served.objects.setdefault((kind.group, kind.plural), {})

    def _kind(self, name: str) -> Kind:
        return next(kind for kind in self.served.kinds if kind.kind == name)
