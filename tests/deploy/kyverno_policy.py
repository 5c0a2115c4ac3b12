"""A Kyverno policy applied to a pod, as far as the one in deploy/kubernetes goes.

Rule of this file: what it does not know of Kyverno it refuses, so that a policy which needs more cannot pass. It stands
in for Kyverno, which is a cluster's; how far the two agree is said in docs/kubernetes-jobs.md.
"""

import copy
import re
from typing import Any

import yaml

_STEP = re.compile(r'"([^"]+)"|([A-Za-z_]\w*)|\[(\d+)\]|\[(:\d+)\]|\.')
_VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
#: By what Kubernetes tells the items of a list apart in a strategic merge.
_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}


def value(expression: str, scope: dict[str, Any]) -> Any:
    """JMESPath: names, indices and ``||``; the first that is neither missing nor empty."""
    for part in expression.split("||"):
        found = _one(part.strip(), scope)
        if found not in (None, "", [], {}):
            return found
    return ""


def _one(path: str, scope: Any) -> Any:
    if path == "''":
        return ""
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        assert step is not None, f"not known here: {path}"
        at, (quoted, name, index, most) = step.end(), step.groups()
        if quoted or name:
            scope = scope.get(quoted or name) if isinstance(scope, dict) else None
        elif index:
            scope = scope[int(index)] if isinstance(scope, list) and len(scope) > int(index) else None
        elif most:
            scope = (scope or [])[: int(most[1:])]
    return scope


def _filled(tree: Any, scope: dict[str, Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _filled(one, scope) for key, one in tree.items()}
    if isinstance(tree, list):
        return [_filled(one, scope) for one in tree]
    return _VARIABLE.sub(lambda found: value(found[1], scope), tree) if isinstance(tree, str) else tree


def _merged(old: Any, new: Any, under: str = "") -> Any:
    """A strategic merge: items of a list by their key, those that are new behind."""
    if isinstance(new, dict) and isinstance(old, dict):
        return old | {key: _merged(old.get(key), one, key) for key, one in new.items()}
    if not (isinstance(new, list) and isinstance(old, list)):
        return new
    key = _KEYS[under]
    changed = {one[key]: one for one in new}
    kept = [_merged(one, changed.pop(one[key], {})) for one in old]
    return [*kept, *changed.values()]


def _patched(pod: Any, operations: list[dict[str, Any]]) -> Any:
    for operation in operations:
        assert operation["op"] == "add"
        *path, last = operation["path"].strip("/").split("/")
        place = pod
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place.insert(int(last), operation["value"])
    return pod


def applied(policy: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as it is let in."""
    pod = copy.deepcopy(pod)
    for rule in policy["spec"]["rules"]:
        if _matches(rule["match"], pod):
            pod = _mutated(rule, pod)
    return pod


def _matches(match: dict[str, Any], pod: dict[str, Any]) -> bool:
    (one,) = match["any"]
    assert set(one["resources"]) == {"kinds", "operations", "selector"}
    wanted = one["resources"]["selector"]["matchLabels"].items()
    return pod["kind"] in one["resources"]["kinds"] and wanted <= pod["metadata"].get("labels", {}).items()


def _mutated(rule: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"request": {"object": pod}}
    for variable in rule.get("context", []):
        scope[variable["name"]] = value(variable["variable"]["jmesPath"], scope)
    for each in rule["mutate"]["foreach"]:
        for element in _one(each["list"], scope):
            inner = scope | {"element": element}
            if not all(_holds(one, inner) for one in each["preconditions"]["all"]):
                continue
            if "patchStrategicMerge" in each:
                pod = _merged(pod, _filled(each["patchStrategicMerge"], inner))
            else:
                pod = _patched(pod, yaml.safe_load(each["patchesJson6902"]))
    return pod


def _holds(condition: dict[str, Any], scope: dict[str, Any]) -> bool:
    assert condition["operator"] == "AnyNotIn"
    return bool(_filled(condition["key"], scope) not in condition["value"])
