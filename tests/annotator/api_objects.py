"""What the API server of the tests knows of objects: patches, selectors, who has which field, what it refuses.

Rule of this file: no sockets and no state; RFC 7396 and Kubernetes' documentation, nothing of the annotator.
"""

import json
import re
import time
from typing import Any, NamedTuple

Object = dict[str, Any]


class Kind(NamedTuple):
    """A kind that is served."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class RefusedError(Exception):
    """An answer that is a Status."""

    def __init__(self, code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.code, self.headers = code, headers or {}
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.status |= {"message": message, "reason": reason, "code": code}


def stamped_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def merge(held: Any, body: Any) -> Any:
    """RFC 7396."""
    if not isinstance(body, dict):
        return body
    made = dict(held) if isinstance(held, dict) else {}
    for key, value in body.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merge(made.get(key), value)
    return made


def merge_conditions(made: Object, body: Object) -> None:
    """A strategic merge, of lists that are keyed by ``type`` and of maps."""
    conditions = body.get("status", {}).get("conditions", [])
    held = {one["type"]: one for one in made.get("status", {}).get("conditions", [])}
    for one in conditions:
        held[one["type"]] = {**held.get(one["type"], {}), **one}
    if conditions:
        made.setdefault("status", {})["conditions"] = list(held.values())
    if "metadata" in body:
        made["metadata"] = merge(made["metadata"], body["metadata"])


def owners(held: Object, key: str) -> list[str]:
    """Managers that an annotation belongs to."""
    return [
        one["manager"]
        for one in held["metadata"].get("managedFields", [])
        if f"f:{key}" in one["fieldsV1"]["f:metadata"]["f:annotations"]
    ]


def managed(held: Object, manager: str, operation: str, annotations: dict[str, Any]) -> list[Object]:
    """``managedFields`` of annotations after a write: who wrote a key last has it."""
    entries = []
    own = {f"f:{key}": {} for key, value in annotations.items() if value is not None}
    for one in held["metadata"].get("managedFields", []):
        keys = one["fieldsV1"]["f:metadata"]["f:annotations"]
        if (one["manager"], one["operation"]) == (manager, operation):
            own = {**({} if operation == "Apply" else keys), **own}
            own = {key: value for key, value in own.items() if annotations.get(key[2:], "") is not None}
        else:
            kept = {key: value for key, value in keys.items() if key[2:] not in annotations}
            entries.append({**one, "fieldsV1": {"f:metadata": {"f:annotations": kept}}})
    entries.append(
        {
            "manager": manager,
            "operation": operation,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": own}},
        }
    )
    return entries


def selected(held: Object, query: dict[str, str]) -> bool:
    """Whether field and label selectors pick it."""
    fields = {
        "metadata.name": held["metadata"]["name"],
        "metadata.namespace": held["metadata"].get("namespace", ""),
        "spec.nodeName": held.get("spec", {}).get("nodeName", ""),
        "status.phase": held.get("status", {}).get("phase", ""),
    }
    labels = held["metadata"].get("labels", {})
    for selector, values in ((query.get("fieldSelector", ""), fields), (query.get("labelSelector", ""), labels)):
        for term in filter(None, selector.split(",")):
            match = re.fullmatch(r"([^=!]+)(==?|!=)(.*)", term)
            if match is None:
                if term not in values:
                    return False
                continue
            name, operator, value = match.groups()
            if values is fields and name not in fields:
                raise RefusedError(400, "BadRequest", f"field label not supported: {name}")
            if (values.get(name, "") == value) != (operator != "!="):
                return False
    return True


def change(what: str, held: Object, before: Object | None, query: dict[str, str]) -> str | None:
    """How a change looks through selectors."""
    was = before is not None and selected(before, query)
    if what == "DELETED":
        return "DELETED" if was else None
    if selected(held, query):
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None


def as_metadata(query: dict[str, str], kind: str) -> bool:
    """Whether ``kind`` is asked for; an Accept that names no kind of the server is as if it were not there.

    The one for lists is not had for one object, nor the other way round (406).
    """
    asked = re.search(r";as=([^;,]*)[^,]*", query.get("accept", ""))
    known = ("PartialObjectMetadata", "PartialObjectMetadataList")
    if asked is None or asked[1] not in known or not {"g=meta.k8s.io", "v=v1"} <= {*asked[0].split(";")}:
        return False
    if asked[1] != kind:
        raise RefusedError(406, "NotAcceptable", f"you requested {asked[1]}, but the requested object is no such")
    return True


def shown(held: Object, query: dict[str, str]) -> Object:
    """The object, or its metadata alone."""
    if not as_metadata(query, "PartialObjectMetadata"):
        return held
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": held["metadata"]}


def check_event(event: Object) -> None:
    """As the API server validates events.k8s.io/v1."""
    controller = re.fullmatch(r"[a-z0-9.-]+/[A-Za-z0-9._-]+", event.get("reportingController", ""))
    moment = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event.get("eventTime", ""))
    sound = (
        controller
        and moment
        and 0 < len(event.get("reportingInstance", "")) <= 128
        and 0 < len(event.get("action", "")) <= 128
        and 0 < len(event.get("reason", "")) <= 128
        and len(event.get("note", "").encode()) <= 1024
        and event.get("type") in ("Normal", "Warning")
        and event["metadata"]["namespace"] == event["regarding"]["namespace"]
    )
    series = event.get("series")
    if not sound or (series is not None and (series["count"] < 2 or not series["lastObservedTime"])):
        raise RefusedError(422, "Invalid", f"Event is invalid: {json.dumps(event)[:500]}")


def groups(kinds: list[Kind], *only: str) -> Object:
    """Discovery of all groups, or of one."""
    versions = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    told = [
        {
            "name": group,
            "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
            "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
        }
        for group, version in versions
    ]
    if not only:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": told}
    own = [one for one in told if one["name"] == only[0]]
    if not own:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    return {"kind": "APIGroup", "apiVersion": "v1", **own[0]}


def resources(kinds: list[Kind], version: str) -> Object:
    """Discovery of a version."""
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    told = [
        {"name": one.plural, "singularName": one.kind.lower(), "namespaced": one.namespaced, "kind": one.kind}
        for one in kinds
        if one.api_version == version
    ]
    if not told:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    rows = [{**one, "verbs": verbs} for one in told]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": rows}
