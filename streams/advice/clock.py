"""The time of a cluster, from what its nodes and jobs say, although clocks differ and some are wrong by hours.

Rule of this file: pure. Time goes on as far as the source that has moved on most, each on its own clock, so that no
clock that is wrong makes hours pass; what is told is the lower median of all clocks.
"""

from collections import OrderedDict

from paceline.events import LATEST_S

from ..stored import Kept, Stored

#: A clock that jumps by more than this was set, or its source was away: no time has passed by it.
MOST_STEP_S = 3600.0
MOST_SOURCES = 16_384


class ClusterClock(Stored):
    """``passed_s`` counts from the first time that was heard; it never goes back.

    >>> clock = ClusterClock()
    >>> for source, time_s in (("a", 1000.0), ("b", 9000.0), ("c", 1000.0), ("a", 1060.0), ("b", 9060.0)):
    ...     clock.hear(source, time_s)
    >>> clock.passed_s, clock.now_s()
    (60.0, 1060.0)
    """

    passed_s: Kept[float]
    heard: Kept[OrderedDict[str, tuple[float, float]]]

    def __init__(self) -> None:
        self.passed_s = 0.0
        #: By source: its newest time, and what had passed then.
        self.heard = OrderedDict()

    def hear(self, source: str, time_s: float) -> None:
        """``source`` says that it is ``time_s``, Unix time."""
        before = self.heard.get(source)
        if before is not None:
            if time_s <= before[0] < time_s + MOST_STEP_S:
                return  # Late or told twice.
            if 0.0 < time_s - before[0] <= MOST_STEP_S:
                self.passed_s = max(self.passed_s, before[1] + time_s - before[0])
            self.heard.move_to_end(source)
        elif len(self.heard) >= MOST_SOURCES:
            self.heard.popitem(last=False)
        self.heard[source] = (time_s, self.passed_s)

    def now_s(self) -> float:
        """Unix time, as most say; 0 where nobody does."""
        began = sorted(time_s - passed_s for time_s, passed_s in self.heard.values())
        return min(max(began[(len(began) - 1) // 2] + self.passed_s, 0.0), LATEST_S) if began else 0.0
