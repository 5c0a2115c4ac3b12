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
            fields = sorted(name for name in {*before, *finding} if before.get(name) != finding.get(name))
            what = f"revision {finding['revision']} was told twice, with another {', '.join(fields)}"
            out.append(Difference(finding.get("job", ""), finding["id"], what))
    return out


def differences(wanted: Iterable[Found], held: Iterable[Found]) -> list[Difference]:
    """What is missing, what is too much, and where the last revision says something else."""
    right, left = last_revisions(wanted), last_revisions(held)
    out = [Difference(right[name].get("job", ""), name, "missing") for name in right.keys() - left.keys()]
    out += [Difference(left[name].get("job", ""), name, "not found undisturbed") for name in left.keys() - right.keys()]
    for name in sorted(right.keys() & left.keys()):
        fields = sorted(
            field for field in {*right[name], *left[name]} if right[name].get(field) != left[name].get(field)
        )
        if fields:
            out.append(Difference(right[name].get("job", ""), name, f"another {', '.join(fields)}"))
    return sorted(out)
