"""Which windows come from a clock that is far ahead: one of those would move series past all that they hold.

Rule of this file: pure; the clock of this machine does not count. What is assumed, and a test breaks each:

- What is behind is never refused: partitions are read one after the other, and a node's windows follow each other.
- A message is written when its window has ended, so its time tells now: after any pause, and of a new node.
- The clock of whoever wrote it may be wrong, and some messages have no time: then the median of the newest times of
  those who are heard tells it. The first of a cluster whose messages have no time has nothing to be compared with.
- A node may be alone, and all nodes may be ahead: one that was ahead ``CONFIRMED`` times in a row has a vote for that.
- Who is silent while others are heard has no vote: nodes that left do not hold back those that stay.
"""

import math
from dataclasses import dataclass

from paceline.held_bytes import BoundedMapping

#: Further ahead than this is implausible.
AHEAD_S = 3600.0
#: So many windows, one after the other, confirm it: of nodes an hour of them.
CONFIRMED = 60
#: One is silent when so many times as many windows came as there are clocks.
SILENT_TURNS = 60
#: Clocks that are kept, their bytes, and those of one beside its names; those heard least recently make room.
CLOCKS, CLOCKS_BYTES, CLOCK_BYTES = 16_384, 32 * 1024 * 1024, 256


@dataclass
class _Clock:
    """The newest time that was believed, and the newest of ``ahead`` windows in a row that were not."""

    newest_s: float = -math.inf
    claimed_s: float = -math.inf
    ahead: int = 0
    turn: int = 0

    @property
    def vote_s(self) -> float:
        return self.newest_s if self.ahead < CONFIRMED else self.claimed_s

    def claim(self, time_s: float) -> None:
        """Several GPUs of a node tell the same minute, which counts once; one that jumps begins again."""
        if abs(time_s - self.claimed_s) > AHEAD_S:
            self.ahead, self.claimed_s = 1, time_s
        elif time_s > self.claimed_s:
            self.ahead, self.claimed_s = self.ahead + 1, time_s


class Clocks:
    """The clocks of a cluster's nodes and jobs.

    >>> clocks = Clocks()
    >>> [clocks.plausible("c", node, time_s) for node, time_s in (("n0", 0.0), ("n1", 60.0), ("n1", 90_000.0))]
    [True, True, False]
    >>> clocks.plausible("c", "n1", 90_000.0, written_s=90_060.0)
    True
    """

    def __init__(self) -> None:
        self._clocks = BoundedMapping[tuple[str, str], _Clock](CLOCKS, CLOCKS_BYTES)
        self._turn = 0

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return self._clocks.bytes

    def plausible(self, cluster: str, sender: str, time_s: float, written_s: float | None = None) -> bool:
        """Whether a window at ``time_s`` is believed; ``written_s`` is when its message was written, if that is known.

        ``sender`` is whose clock it is by.
        """
        self._turn += 1
        clock = self._clocks.get((cluster, sender))
        if clock is None:
            clock = _Clock()
            self._clocks.put((cluster, sender), clock, CLOCK_BYTES)
        else:
            self._clocks.renew((cluster, sender))
        clock.turn = self._turn
        now_s = max(clock.newest_s, -math.inf if written_s is None else written_s)
        if time_s > now_s + AHEAD_S:
            clock.claim(time_s)
            now_s = self._median_s(cluster, clock, now_s if now_s > -math.inf else math.inf)
            if time_s > now_s + AHEAD_S:
                return False
        clock.newest_s, clock.ahead = max(clock.newest_s, time_s), 0
        return True

    def _median_s(self, cluster: str, of: _Clock, default: float) -> float:
        """The lower median of what the others say, and of what ``of`` does where it is confirmed."""
        since = self._turn - SILENT_TURNS * len(self._clocks)
        votes = (
            one.vote_s
            for (name, _), one in self._clocks.items()
            if name == cluster and one.turn >= since and (one is not of or one.ahead >= CONFIRMED)
        )
        cast = sorted(vote_s for vote_s in votes if vote_s > -math.inf)
        return cast[(len(cast) - 1) // 2] if cast else default
