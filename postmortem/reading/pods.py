"""What Kubernetes says of pods: ``kubectl describe pod``, ``get pod -o json`` and ``get events``.

Rule of this file: pure, bounded. A pod's rank is its RANK, and only where the pod has one device or fewer: with several
a launcher inside gives out ranks. The newest end of a container counts; an earlier one where it runs or waits again.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..evidence import Outside, PodKilled, Source, Statement

_MOST_LINES = 1_000_000
_MOST_PODS = 100_000
#: Reasons of pods, jobs, conditions and events, in the words of other schedulers.
_OUTSIDE = {
    "Evicted": "eviction",
    "EvictionByEvictionAPI": "eviction",
    "DeadlineExceeded": "time limit",
    "Preempted": "preemption",
    "Preempting": "preemption",
    "PreemptionByScheduler": "preemption",
    "PreemptionByKubeScheduler": "preemption",
    "NodeShutdown": "node shutdown",
    "Shutdown": "node shutdown",
    "TerminationByKubelet": "node shutdown",
    "NodeLost": "node failure",
    "DeletionByTaintManager": "node failure",
    "TaintManagerEviction": "node failure",
}
_EVENT = re.compile(
    r"(?:\S{1,63} +)?\S{1,40} +(?:Warning|Normal) +(\w{1,63}) +(pod|job|jobset|pytorchjob|node)/([a-z0-9.-]{1,253})\b"
)
_OF_DESCRIBED = re.compile(r"  (?:Warning|Normal)  +(\w{1,63})  ")
_CONTAINER = re.compile(r"  ([a-z0-9-]{1,63}):$")
_FIELD = re.compile(r"( {0,12})([A-Z][\w ]{1,40}|nvidia\.com/gpu|amd\.com/gpu):\s+(\S.{0,400})")


class _Pod(msgspec.Struct):
    """One that is being read: its containers' ends, by whether they are of now or of before."""

    name: str
    line: int
    node: str = ""
    rank: int | None = None
    devices: int = 0
    reason: str = ""
    quote: str = ""
    ends: dict[tuple[str, str], str] = {}


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are those of ``kubectl describe pod`` or ``get events``."""
    return bool(
        re.match(rb"\s*Name: +\S+\r?\nNamespace: ", head)
        or re.match(rb"\s*(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +OBJECT", head)
    )


def of_text(text: str, name: str) -> list[Statement]:
    """What a description of pods, or a table of events, says."""
    made: list[Statement] = []
    pod, container, state = _Pod("", 0), "", ""
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        if found := _EVENT.match(line):
            made += _event(found, Source("kubernetes", name, number, line[:400]))
        elif found := _OF_DESCRIBED.match(line):
            pod.reason, pod.quote = pod.reason or _known(found[1]), pod.quote or line.strip()[:400]
        elif found := _CONTAINER.match(line):
            container, state = found[1], ""
        elif found := _FIELD.match(line):
            if found[2] == "Name" and not found[1]:
                made += _said(pod, name)
                pod, container, state = _Pod(found[3].strip(), number), "", ""
            elif found[2] in ("State", "Last State"):
                state = found[2]
            else:
                _field(pod, len(found[1]), found[2], found[3].strip(), (container, state))
    return [*made, *_said(pod, name)]


def _field(pod: _Pod, indent: int, field: str, value: str, where: tuple[str, str]) -> None:
    if indent == 0 and field == "Node":
        pod.node = value.partition("/")[0]
    elif indent == 0 and field == "Reason":
        pod.reason = _known(value) or pod.reason
    elif indent == 0 and field == "Message":
        pod.quote = value
        pod.reason = pod.reason or ("node shutdown" if "node shutdown" in value else "")
    elif field == "Reason" and where[1] and where not in pod.ends:
        pod.ends[where] = value
    elif field == "RANK" and value.isdigit() and len(value) < 8:
        pod.rank = int(value)
    elif field.endswith("/gpu") and value.isdigit():
        pod.devices = max(pod.devices, int(value[:4]))


def _known(reason: str) -> str:
    return _OUTSIDE.get(reason, "")


def _event(found: re.Match[str], source: Source) -> Iterator[Statement]:
    reason, kind, name = found[1], found[2], found[3]
    if kind != "node" and _known(reason):
        yield _ended(source, _known(reason), kind, name)


def _ended(source: Source, reason: str, kind: str, name: str) -> Outside:
    """What an event says of a pod, or of a Job, JobSet or PyTorchJob."""
    pod, job = (name, "") if kind == "pod" else ("", name)
    return Outside(source=source, reason=reason, strong=True, pod=pod, job=job)


def _said(pod: _Pod, name: str) -> Iterator[Statement]:
    if not pod.name:
        return
    source = Source("kubernetes", name, pod.line, pod.quote or f"pod {pod.name}")
    if pod.reason:
        yield Outside(node=pod.node, source=source, reason=pod.reason, strong=True, pod=pod.name)
    rank = pod.rank if pod.devices <= 1 else None
    for container in sorted({container for container, _ in pod.ends}):
        now, before = (pod.ends.get((container, state), "") for state in ("State", "Last State"))
        if now == "OOMKilled" or (before == "OOMKilled" and now not in ("Completed", "Error", "ContainerCannotRun")):
            quote = f"pod {pod.name}: container {container}: OOMKilled"
            source = Source("kubernetes", name, pod.line, quote)
            yield PodKilled(rank=rank, node=pod.node, source=source, pod=pod.name, container=container)


def of_json(data: dict[str, Any], name: str) -> list[Statement] | None:
    """What a pod, or a list of pods and events, says; None where the data is neither."""
    items = data.get("items") if data.get("kind") in ("List", "PodList", "EventList") else [data]
    if not isinstance(items, list) or not all(isinstance(one, dict) and "apiVersion" in one for one in items):
        return None
    made: list[Statement] = []
    for one in items[:_MOST_PODS]:
        if one.get("kind") == "Event":
            made += _event_of(one, name)
        elif one.get("kind") == "Pod":
            made += _said(_pod(one), name)
    return made


def _event_of(one: dict[str, Any], name: str) -> Iterator[Statement]:
    of = _dict(one, "involvedObject")
    kind, reason = _text(of.get("kind")), _known(_text(one.get("reason")))
    if reason and kind != "Node":
        source = Source("kubernetes", name, quote=_text(one.get("message")))
        yield _ended(source, reason, kind.lower(), _text(of.get("name")))


def _pod(one: dict[str, Any]) -> _Pod:
    spec, status = _dict(one, "spec"), _dict(one, "status")
    made = _Pod(_text(_dict(one, "metadata").get("name")), 0, node=_text(spec.get("nodeName")), ends={})
    made.quote = _text(status.get("message"))
    made.reason = _known(_text(status.get("reason"))) or ("node shutdown" if "node shutdown" in made.quote else "")
    for condition in _dicts(status, "conditions"):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            made.reason = made.reason or _known(_text(condition.get("reason")))
    for container in _dicts(spec, "containers"):
        for variable in _dicts(container, "env"):
            _field(made, 6, _text(variable.get("name")), _text(variable.get("value")), ("", ""))
        for device, count in _dict(_dict(container, "resources"), "limits").items():
            _field(made, 6, str(device), _text(count) or str(count), ("", ""))
    for container in _dicts(status, "containerStatuses"):
        for field, state in (("state", "State"), ("lastState", "Last State")):
            end = _dict(_dict(container, field), "terminated")
            if end:
                made.ends[_text(container.get("name")), state] = _text(end.get("reason"))
    return made


def _dict(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _dicts(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = data.get(name)
    return [one for one in value[:1000] if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:400] if isinstance(value, str) else ""
