"""Many subjects with the same kind of finding: beyond a few of them, one finding reports all of them together.

Rule of this file: pure and bounded: whatever one message or tick brings to light, it has few answers. Up to
``MOST_SINGLE`` open findings of a sort are reported one by one. When there are more, those end, and one finding for all
names their number, ranks, nodes and devices, up to ``MOST_NAMED`` of each, with the numbers of the one that costs most.
It also speaks for all that join while it is open, and ends when the last of them has.

Its cost is that of all its members so far, those that have ended included, and never falls. Those that were reported
one by one before end without their cost: it is in that of the finding for all.

It is reported again when it changes its state, when the number of its members has changed by an eighth, and when its
cost has doubled: what of its members alone is new is not.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from paceline.accused_units import ALIKE
from paceline.decoders import convert
from paceline.events import SEVERITIES, Cost, Finding, FindingState, Severity
from paceline.ranges import ranges

from ..stored import Kept, Stored
from .finding import finding_id, number
from .lifecycle import FINAL

#: Open findings of one sort that are reported one by one.
MOST_SINGLE = 8
#: Ranks, nodes and devices that a finding for many names.
MOST_NAMED = 256
#: The number of members is reported again when it has changed by one in so many.
_PART = 8


class _Crowd(msgspec.Struct):
    """The finding for many: its identity, what was reported last, and the member that costs most with its numbers."""

    id: str
    example: Finding
    first_step: int
    revision: int = 0
    state: FindingState = "suspected"
    count: int = 0
    lost_s: float = 0.0
    gpu_hours: float = 0.0
    #: Seconds and device-hours of the members that have ended, and the nodes of all members so far.
    ended: tuple[float, float] = (0.0, 0.0)
    nodes: list[str] = []


class _Sort(msgspec.Struct):
    """The open findings of one sort, by id, and the finding for all of them while there is one.

    While there is, the members are kept without their words and numbers: there may be as many as ranks.
    """

    members: dict[str, Finding] = {}
    crowd: _Crowd | None = None


class Crowds(Stored):
    """The open findings of one job or node, by sort: what is the matter, and what it is the matter with.

    A sort is written with the plural of the latter last: "straggler: ranks".
    """

    sorts: Kept[dict[str, _Sort]]

    def __init__(self) -> None:
        self.sorts = {}

    def gather(self, told: Iterable[tuple[str, Finding]], *, last: bool = False) -> list[Finding]:
        """What is to be reported of what the detectors told, each with its sort, such as "straggler: ranks".

        ``last``: no more follows, so that whatever is new of a finding for many is reported.
        """
        touched: dict[str, list[Finding]] = {}
        order: list[tuple[str, Finding]] = []
        for sort, finding in told:
            touched.setdefault(sort, []).append(finding)
            order.append((sort, finding))
        together: list[Finding] = []
        for sort, findings in touched.items():
            said = self._update(sort, findings, last=last)
            if said is not None:
                together += said
                order = [one for one in order if one[0] != sort]
            if not self.sorts[sort].members:
                del self.sorts[sort]
        return [self._known(finding) for finding in (*(one for _, one in order), *together)]

    def _known(self, finding: Finding) -> Finding:
        """``finding``; where one that is reported with many takes its place, that of them all is named."""
        by = finding.replaced_by
        if not by:
            return finding
        crowd = next((one.crowd for one in self.sorts.values() if one.crowd is not None and by in one.members), None)
        return finding if crowd is None else msgspec.structs.replace(finding, replaced_by=crowd.id)

    def _update(self, name: str, findings: list[Finding], *, last: bool) -> list[Finding] | None:
        """Take in what is new of one sort; what is reported in its place, None where it is reported as it is."""
        sort = self.sorts.setdefault(name, _Sort())
        before = dict(sort.members) if sort.crowd is None else {}
        for finding in findings:
            if finding.state in FINAL:
                if sort.members.pop(finding.id, None) is not None and sort.crowd is not None:
                    sort.crowd.ended = _summed([sort.crowd.ended, _spent(finding)])
            else:
                sort.members[finding.id] = _plain(finding) if sort.crowd is None else _bare(finding)
        if sort.crowd is not None:
            return self._go_on(name, sort, findings, last=last)
        if len(sort.members) <= MOST_SINGLE:
            return None
        ended = [finding for finding in findings if finding.id in before and finding.id not in sort.members]
        folded = [member for key, member in before.items() if key in sort.members]
        crowd = self._begin(name, sort, findings)
        return [*ended, *(_ended(member, crowd.id) for member in folded), crowd]

    def _begin(self, name: str, sort: _Sort, findings: list[Finding]) -> Finding:
        example = _gravest(sort, findings)
        eldest = next(iter(sort.members.values()))
        first_step = min(member.first_step for member in sort.members.values())
        # No two crowds have the same eldest member: it has ended before the second begins.
        key = finding_id(eldest.cluster, eldest.job, eldest.attempt, eldest.kind, f"many {eldest.id}", first_step)
        sort.crowd = _Crowd(key, example, first_step, nodes=_nodes(sort.members.values()))
        sort.members = {one: _bare(member) for one, member in sort.members.items()}
        return _reported(name, sort, sort.crowd)

    def _go_on(self, name: str, sort: _Sort, findings: list[Finding], *, last: bool) -> list[Finding]:
        crowd = sort.crowd
        assert crowd is not None, "only while there is one"
        crowd.nodes = _nodes(findings, crowd.nodes)
        if not sort.members:
            sort.crowd = None
            return [_over(crowd, findings, name)]
        crowd.example = _gravest(sort, findings, crowd.example)
        lost_s, gpu_hours = _cost(sort, crowd)
        moved = crowd.state != _state(sort, crowd)
        changed = _PART * abs(len(sort.members) - crowd.count) >= crowd.count
        grown = lost_s >= 2 * max(crowd.lost_s, 1.0) or gpu_hours >= 2 * max(crowd.gpu_hours, 0.1)
        new = last and (lost_s, gpu_hours, len(sort.members)) != (crowd.lost_s, crowd.gpu_hours, crowd.count)
        return [_reported(name, sort, crowd)] if moved or changed or grown or new else []


def _gravest(sort: _Sort, findings: list[Finding], held: Finding | None = None) -> Finding:
    """The open finding that costs most, of those that are told now with their numbers, and of the one that was."""
    now = [finding for finding in findings if finding.id in sort.members and finding.state not in FINAL]
    now += [held] if held is not None and (held.id in sort.members or not now) else []
    now += [member for member in sort.members.values() if member.summary]
    return _plain(max(now, key=lambda one: (one.cost.lost_s, one.cost.gpu_hours)))


def _state(sort: _Sort, crowd: _Crowd) -> FindingState:
    """Confirmed once half of its members are, and from then on."""
    sure = sum(member.state == "confirmed" for member in sort.members.values())
    return "confirmed" if crowd.state == "confirmed" or 2 * sure >= len(sort.members) else "suspected"


def _spent(finding: Finding) -> tuple[float, float]:
    return finding.cost.lost_s, finding.cost.gpu_hours


def _summed(costs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Seconds and device-hours lost: steps wait once for all that are late, devices stand still one by one."""
    seconds, hours = zip(*costs, strict=True)
    lost_s = max(seconds)
    return lost_s, max(hours) if lost_s else sum(hours)


def _cost(sort: _Sort, crowd: _Crowd) -> tuple[float, float]:
    """What all members so far have cost; no less than was reported."""
    lost_s, gpu_hours = _summed([crowd.ended, *map(_spent, sort.members.values())])
    return max(lost_s, crowd.lost_s), max(gpu_hours, crowd.gpu_hours)


def _nodes(findings: Iterable[Finding], before: Iterable[str] = ()) -> list[str]:
    return sorted({*before, *(node for one in findings for node in one.nodes)})[:MOST_NAMED]


def _accused(nodes: list[str], name: str) -> list[str]:
    """One node of many ranks that were found one by one is not accused itself."""
    return nodes if len(nodes) > 1 or _plural(name) != "ranks" else []


def _reported(name: str, sort: _Sort, crowd: _Crowd) -> Finding:
    """The next revision of the finding for all members."""
    members = list(sort.members.values())
    crowd.state, crowd.count, crowd.revision = _state(sort, crowd), len(members), crowd.revision + 1
    crowd.lost_s, crowd.gpu_hours = _cost(sort, crowd)
    causes = Counter(one.cause for one in members)
    (cause, most), *_ = causes.most_common(1)
    ranks = sorted({rank for one in members for rank in one.ranks})
    jobs = {(one.job, one.attempt) for one in members}
    job, attempt = jobs.pop() if len(jobs) == 1 else ("", 0)
    who = f"{len(members)} {_plural(name)}" + (f" (ranks {ranges(ranks)})" if ranks else "")
    example = crowd.example
    count = number(ALIKE, len(members), _plural(name), None, f"open at the same time; up to {MOST_SINGLE} one by one")
    worst = max(members, key=lambda one: one.cost.throughput_lost_ratio)
    return msgspec.structs.replace(
        example,
        id=crowd.id,
        revision=crowd.revision,
        state=crowd.state,
        job=job,
        attempt=attempt,
        cause=cause if 2 * most > len(members) else "unknown",
        ranks=ranks[:MOST_NAMED],
        stage=None,
        group=None,
        nodes=_accused(_nodes(members), name),
        devices=sorted({device for one in members for device in one.devices})[:MOST_NAMED],
        first_step=crowd.first_step,
        last_step=max(one.last_step for one in members),
        severity=max((one.severity for one in members), key=_grave),
        confidence=sorted(one.confidence for one in members)[len(members) // 2],
        cost=Cost(
            lost_s=crowd.lost_s,
            gpu_hours=round(crowd.gpu_hours, 6),
            throughput_lost_ratio=worst.cost.throughput_lost_ratio,
        ),
        evidence=[count, *example.evidence],
        exonerated=[],
        summary=f"{who} have findings of the same kind. The one with the highest cost: {example.summary}",
    )


def _grave(severity: Severity | str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _plural(name: str) -> str:
    return name.rsplit(": ", 1)[1]


def _plain(finding: Finding) -> Finding:
    """As it is read back from a snapshot: numbers that are fractions by their type are so."""
    return convert(msgspec.to_builtins(finding), Finding)


def _bare(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, evidence=[], exonerated=[], summary="")


def _over(crowd: _Crowd, last: list[Finding], name: str) -> Finding:
    """The last revision of a finding for many: the ``last`` of its members have ended. All nodes share what it cost."""
    ended, by = last[-1], {one.replaced_by or "" for one in last}
    lost_s, gpu_hours = max(crowd.lost_s, crowd.ended[0]), max(crowd.gpu_hours, crowd.ended[1])
    return msgspec.structs.replace(
        ended,
        id=crowd.id,
        revision=crowd.revision + 1,
        stage=None,
        group=None,
        nodes=_accused(crowd.nodes, name),
        first_step=crowd.first_step,
        cost=msgspec.structs.replace(ended.cost, lost_s=lost_s, gpu_hours=round(gpu_hours, 6)),
        evidence=[],
        exonerated=[],
        summary=f"None of the {_plural(name)} has a finding of this kind any more. The last: {ended.summary}",
        replaced_by=ended.replaced_by if len(by) == 1 else msgspec.UNSET,
    )


def _ended(finding: Finding, crowd: str) -> Finding:
    """The last revision of a finding of its own: one for many, ``crowd``, has its place and its cost from now on."""
    return msgspec.structs.replace(
        finding,
        revision=finding.revision + 1,
        state="recovered",
        severity="info",
        cost=msgspec.structs.replace(finding.cost, lost_s=0.0, gpu_hours=0.0),
        summary="It is one of many of the same kind now: one finding reports them all.",
        replaced_by=crowd,
    )
