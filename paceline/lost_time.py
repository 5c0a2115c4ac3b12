"""The time that a job has lost by its findings, without counting a second twice.

Rule of this file: pure. A synchronous job waits for its slowest rank, so of findings that overlap in steps only the
largest counts at each step. A finding's loss is spread evenly over its steps. Suspicions cost nothing, for they may be
wrong; findings that count no steps are of nodes, and not counted here.

Of a part of a job's steps only these count. A finding that lasts is reported again when it has doubled: one that is
still confirmed goes on at its rate for as long as the job does, to twice its length at most.
"""

from collections.abc import Iterable
from itertools import pairwise

from paceline.events import Finding

#: States whose costs count: a suspicion may be withdrawn, and a state of a newer version may be anything.
COUNTED = ("confirmed", "recovered")


class Share:
    """What counts of one finding: ``steps`` of its steps, with their part of its cost."""

    def __init__(self, finding: Finding, within: range | None = None) -> None:
        self.finding = finding
        self.length = max(finding.last_step - finding.first_step, 0) + 1
        counted = steps_of(finding, within)
        self.first, self.end = counted.start, counted.stop
        self.rate_s = finding.cost.lost_s / self.length
        self.steps = 0

    @property
    def lost_s(self) -> float:
        """Seconds."""
        return self.steps * self.rate_s

    @property
    def device_hours(self) -> float:
        """Hours of the devices that waited."""
        return self.finding.cost.gpu_hours * self.steps / self.length


def steps_of(finding: Finding, within: range | None = None) -> range:
    """The steps of ``finding``; of the steps ``within`` of its job, those from their first on, and on to their last
    where it lasts.

    A step that was not finished, as of a hang, comes after the last.
    """
    first, end = finding.first_step, max(finding.last_step, finding.first_step) + 1
    if within is None:
        return range(first, end)
    if finding.state == "confirmed" and end - first > 1:
        end = max(end, min(2 * end - first, within.stop))
    return range(max(first, within.start), end)


def shares(findings: Iterable[Finding], within: range | None = None) -> list[Share]:
    """What counts of each of ``findings`` of one attempt of a job; those of which nothing does are left out."""
    costly = (one for one in findings if one.state in COUNTED and one.first_step >= 0 and one.cost.lost_s > 0)
    found = [share for share in (Share(one, within) for one in costly) if share.first < share.end]
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
