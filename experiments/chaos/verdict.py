"""Is what was found under faults what is found without them?

Rule of this file: pure. It compares what a consumer holds who upserts by id and revision.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

Found = dict[str, Any]


class Difference(NamedTuple):
    """One finding that is not as it should be."""

    job: str
    id: str
    what: str


def last_revisions(findings: Iterable[Found]) -> dict[str, Found]:
    """By id, the finding's last revision, whatever the order they came in."""
    kept: dict[str, Found] = {}
    for finding in findings:
        held = kept.get(finding["id"])
        if held is None or finding["revision"] >= held["revision"]:
            kept[finding["id"]] = finding
    return kept


def contradictions(findings: Iterable[Found]) -> list[Difference]:
    """Revisions that were told twice, and not in the same words."""
    told: dict[tuple[str, int], Found] = {}
    out = []
    for finding in findings:
        before = told.setdefault((finding["id"], finding["revision"]), finding)
        if before != finding:
            what = f"revision {finding['revision']} was told twice, with another {_changed(before, finding)}"
            out.append(Difference(finding.get("job", ""), finding["id"], what))
    return out


def differences(wanted: Iterable[Found], held: Iterable[Found]) -> list[Difference]:
    """What is missing, what is too much, and where the last revision says something else."""
    right, left = last_revisions(wanted), last_revisions(held)
    out = [Difference(right[name].get("job", ""), name, "missing") for name in right.keys() - left.keys()]
    out += [Difference(left[name].get("job", ""), name, "not found undisturbed") for name in left.keys() - right.keys()]
    for name in sorted(right.keys() & left.keys()):
        if right[name] != left[name]:
            what = f"another {_changed(right[name], left[name])}"
            out.append(Difference(right[name].get("job", ""), name, what))
    return sorted(out)


def _changed(one: Found, other: Found) -> str:
    """The fields that differ, with what stands in each; of a list, the items that do."""
    return "; ".join(
        f"{name}: {_apart(one.get(name), other.get(name))}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )


def _apart(one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list):
        one, other = [item for item in one if item not in other], [item for item in other if item not in one]
    return f"{one!r} is {other!r}"
