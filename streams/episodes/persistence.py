"""From single looks to signals of the lifecycle: one look is noise, what lasts is a verdict.

Rule of this file: pure counting, of looks (``Streaks``) or of time (``Persistence``). A look that could not see is not
pushed.
"""

from typing import Generic, NamedTuple

from ..stored import Kept, Stored
from .lifecycle import Signal
from .tracker import Key


class Streaks(Stored, Generic[Key]):
    """Looks of each subject, counted: so many bad ones make a signal, so many good ones on end take it back.

    >>> streaks = Streaks(suspect=2, confirm=3, recover=2)
    >>> [streaks.push("stage 1", bad) for bad in (True, True, True, False, False)]
    [None, 'late', 'persistent', None, 'calm']
    """

    bad: Kept[dict[Key, int]]
    good: Kept[dict[Key, int]]

    def __init__(self, suspect: int, confirm: int, recover: int) -> None:
        self.suspect = suspect
        self.confirm = confirm
        self.recover = recover
        self.bad = {}
        self.good = {}

    def push(self, subject: Key, bad: bool | None) -> Signal | None:
        """Take in a look; what all of them amount to. One in between (None) only breaks a run of good ones."""
        if bad is False:
            self.good[subject] = self.good.get(subject, 0) + 1
            return "calm" if self.good[subject] >= self.recover else None
        self.good.pop(subject, None)
        if bad is None:
            return None
        self.bad[subject] = self.bad.get(subject, 0) + 1
        if self.bad[subject] >= self.confirm:
            return "persistent"
        return "late" if self.bad[subject] >= self.suspect else None

    def forget(self, subject: Key) -> None:
        """Count ``subject`` from zero again."""
        self.bad.pop(subject, None)
        self.good.pop(subject, None)


class Lasting(NamedTuple):
    """Seconds for which something must hold before it is suspected, confirmed, and (its absence) over.

    ``share`` of the looks in a span must agree that it is there.
    """

    suspect_s: float
    confirm_s: float
    recover_s: float
    share: float = 0.8


class Persistence(Stored):
    """Looks of yes and no over time, to signals.

    >>> persistence = Persistence(Lasting(10.0, 20.0, 10.0), tick_s=5.0, gap_s=60.0)
    >>> [persistence.push(at_s, True) for at_s in (0.0, 5.0, 10.0, 15.0, 20.0)]
    [None, None, 'late', 'late', 'persistent']

    Args:
        lasting: for how long, and in which share of the looks.
        tick_s: the time that one look stands for.
        gap_s: looks farther apart than this: what was before says nothing of what is now.
    """

    lasting: Kept[Lasting]
    looks: Kept[list[tuple[float, bool]]]

    def __init__(self, lasting: Lasting, tick_s: float, gap_s: float) -> None:
        self.lasting = lasting
        self.tick_s = tick_s
        self.gap_s = gap_s
        self.looks = []

    def push(self, at_s: float, bad: bool) -> Signal | None:
        """Take in a look; what it amounts to."""
        if self.looks and not 0.0 <= at_s - self.looks[-1][0] <= self.gap_s:
            self.looks = []
        self.looks.append((at_s, bad))
        longest = max(self.lasting[:3])
        while len(self.looks) > 1 and self.looks[1][0] <= at_s - longest:
            del self.looks[0]
        if self._holds(self.lasting.confirm_s, bad=True):
            return "persistent"
        if self._holds(self.lasting.suspect_s, bad=True):
            return "late"
        if self._holds(self.lasting.recover_s, bad=False):
            return "calm"
        return None

    def since_s(self) -> float:
        """When the yes began that the last look belongs to."""
        since = self.looks[-1][0]
        for at_s, bad in reversed(self.looks):
            if bad:
                since = at_s
        return since - self.tick_s

    def _holds(self, seconds: float, *, bad: bool) -> bool:
        now_s, last = self.looks[-1]
        if last is not bad:
            return False
        if seconds and self.looks[0][0] > now_s - seconds:
            return False
        recent = [verdict for at_s, verdict in self.looks if at_s > now_s - seconds] or [last]
        share = sum(verdict is bad for verdict in recent) / len(recent)
        return share >= (self.lasting.share if bad else 1.0)
