"""The time that a job has lost by its findings, without counting a second twice.

Rule of this file: pure. A synchronous job waits for its slowest rank, so of findings that overlap in steps only the
largest counts at each step. A finding's loss is spread evenly over its steps. Suspicions cost nothing, for they may be
wrong; findings that count no steps are of nodes, and not counted here.
"""

from collections.abc import Iterable
from itertools import pairwise

from paceline.events import Finding

#: States whose costs count: a suspicion may be withdrawn, and a state of a newer version may be anything.
COUNTED = ("confirmed", "recovered")


class Share:
    """What counts of one finding: ``steps`` of its steps, with their part of its cost."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.first, self.end = finding.first_step, max(finding.last_step, finding.first_step) + 1
        self.rate_s = finding.cost.lost_s / (self.end - self.first)
        self.steps = 0

    @property
    def lost_s(self) -> float:
        """Seconds."""
        return self.steps * self.rate_s

    @property
    def device_hours(self) -> float:
        """Hours of the devices that waited."""
        return self.finding.cost.gpu_hours * self.steps / (self.end - self.first)


def shares(findings: Iterable[Finding]) -> list[Share]:
    """What counts of each of ``findings`` of one attempt of a job; those of which nothing does are left out."""
    found = [Share(one) for one in findings if one.state in COUNTED and one.first_step >= 0 and one.cost.lost_s > 0]
    _share_out(found)
    return [share for share in found if share.steps]


def lost_s(findings: Iterable[Finding]) -> float:
    """Seconds that one attempt of a job has lost by ``findings``, of each the newest revision."""
    return sum(share.lost_s for share in shares(findings))


def _share_out(found: list[Share]) -> None:
    """Give each step to the finding that costs most there."""
    edges = sorted({edge for share in found for edge in (share.first, share.end)})
    waiting = sorted(found, key=lambda one: -one.first)
    active: list[Share] = []
    for first, end in pairwise(edges):
        while waiting and waiting[-1].first <= first:
            active.append(waiting.pop())
        active = [share for share in active if share.end > first]
        if active:
            max(active, key=lambda one: (one.rate_s, one.finding.id)).steps += end - first
