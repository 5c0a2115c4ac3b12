"""From findings to the time that a job lost, by cause.

Rule of this file: pure. A synchronous job waits for its slowest rank, so of findings that overlap in steps only the
largest counts at each step: causes add up, and no second is counted twice. A finding's loss is spread evenly over its
steps. Suspicions cost nothing, for they may be wrong.
"""

from collections.abc import Iterable
from itertools import pairwise

from paceline.events import Finding

from .report import LostTime

#: States whose costs count: a suspicion may be withdrawn, and a state of a newer version may be anything.
COUNTED = ("confirmed", "recovered")


class _Share:
    """What is counted of one finding."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.first, self.end = finding.first_step, max(finding.last_step, finding.first_step) + 1
        self.rate_s = finding.cost.lost_s / (self.end - self.first)
        self.steps = 0

    @property
    def lost_s(self) -> float:
        return self.steps * self.rate_s

    @property
    def device_hours(self) -> float:
        """Those of its cost that belong to the steps counted."""
        return self.finding.cost.gpu_hours * self.steps / (self.end - self.first)


def lost_time(findings: Iterable[Finding]) -> list[LostTime]:
    """What each cause has cost, the most first; findings that know no steps are of nodes, and not counted here."""
    shares = _shares(findings)
    causes: dict[str, list[_Share]] = {}
    for share in shares:
        if share.steps:
            causes.setdefault(share.finding.cause, []).append(share)
    lost = [_of_cause(cause, of_it) for cause, of_it in causes.items()]
    return sorted(lost, key=lambda one: (-one.lost_s, one.cause))


def counted_hours(findings: Iterable[Finding]) -> dict[str, float]:
    """Device-hours that count of each finding, by its id."""
    return {share.finding.id: share.device_hours for share in _shares(findings) if share.steps}


def _shares(findings: Iterable[Finding]) -> list[_Share]:
    shares = [_Share(one) for one in findings if one.state in COUNTED and one.first_step >= 0 and one.cost.lost_s > 0]
    _share_out(shares)
    return shares


def _share_out(shares: list[_Share]) -> None:
    """Give each step to the finding that costs most there."""
    edges = sorted({edge for share in shares for edge in (share.first, share.end)})
    waiting = sorted(shares, key=lambda one: -one.first)
    active: list[_Share] = []
    for first, end in pairwise(edges):
        while waiting and waiting[-1].first <= first:
            active.append(waiting.pop())
        active = [share for share in active if share.end > first]
        if active:
            max(active, key=lambda one: (one.rate_s, one.finding.id)).steps += end - first


def _of_cause(cause: str, shares: list[_Share]) -> LostTime:
    return LostTime(
        cause,
        tuple(sorted({share.finding.kind for share in shares})),
        len(shares),
        sum(share.lost_s for share in shares),
        sum(share.device_hours for share in shares),
    )
