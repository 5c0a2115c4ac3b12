"""Findings as a tracker keeps them: how many, what they cost, which kinds, and their sentences.

Rule of this file: pure and bounded. Of each finding the newest revision counts, whatever order revisions come in; one
that was only ever suspected is none. Costs of two kinds often are the same seconds seen twice, so kinds are not added
up: what is told is the most expensive one's, a floor of what was lost.
"""

from collections import OrderedDict, defaultdict
from typing import NamedTuple

from paceline.events import Finding
from paceline.lost_time import COUNTED
from paceline.visible import visible

#: Findings that are kept; of more the newest. Sentences that are told, and characters of all of them.
MOST, MOST_SENTENCES, MOST_CHARACTERS = 1000, 20, 4000


class Tally(NamedTuple):
    """What the findings so far amount to."""

    values: dict[str, float]
    tags: list[str]
    text: str


class FindingBook:
    """The newest revision of each finding that was ever confirmed.

    >>> FindingBook().tally()
    Tally(values={'paceline/findings': 0, 'paceline/lost_s': 0.0, 'paceline/lost_gpu_hours': 0.0}, tags=[], text='')
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[str, Finding] = OrderedDict()
        self._forgotten = 0

    def update(self, finding: Finding) -> bool:
        """Take ``finding`` in; whether anything is news."""
        before = self._newest.get(finding.id)
        if finding.state not in COUNTED or (before is not None and before.revision >= finding.revision):
            return False
        self._newest[finding.id] = finding
        if len(self._newest) > MOST:
            self._newest.popitem(last=False)
            self._forgotten += 1
        return True

    def tally(self) -> Tally:
        """What there is to tell now."""
        seconds: defaultdict[str, float] = defaultdict(float)
        hours: defaultdict[str, float] = defaultdict(float)
        for finding in self._newest.values():
            seconds[finding.kind] += finding.cost.lost_s
            hours[finding.kind] += finding.cost.gpu_hours
        values = {
            "paceline/findings": len(self._newest) + self._forgotten,
            "paceline/lost_s": max(seconds.values(), default=0.0),
            "paceline/lost_gpu_hours": max(hours.values(), default=0.0),
        }
        tags = [f"paceline:{visible(kind)}"[:64] for kind in sorted(seconds)][:MOST_SENTENCES]
        return Tally(values, tags, self._text())

    def _text(self) -> str:
        costly = sorted(self._newest.values(), key=lambda finding: -finding.cost.lost_s)[:MOST_SENTENCES]
        return "\n".join(f"{visible(one.summary)} [{one.state}]" for one in costly)[:MOST_CHARACTERS]
