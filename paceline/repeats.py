"""Which windows of one subject come for the first time; delivery is at least once.

Rule of this file: pure and small. Windows come with rising starts, so one of a time that was counted is a repetition,
unless the clock was set back: then they go on rising for longer than any restart repeats. A job's steps tell it at
once. Of one start there may be several: two jobs that had a GPU within five minutes have a row each in an archive.
"""

from collections.abc import Hashable

#: Windows of one start that are told apart; jobs on one GPU within five minutes are few.
MOST_OF_A_START = 64
#: Windows that a restart repeats at most, and stretches of time that are known to be counted.
MOST_REPEATED, MOST_RUNS = 64, 4
#: Lengths of a window between two starts that are of one stretch.
_NEAR = 2.0


class Repeats:
    """The newest start of a subject's windows, what was counted of it, and the times that were counted before."""

    __slots__ = ("_again", "_again_s", "_counted", "_runs", "newest_s")

    def __init__(self) -> None:
        self.newest_s = float("-inf")
        self._counted: set[Hashable] = set()
        #: First and last starts.
        self._runs: list[tuple[float, float]] = []
        #: Windows of counted times, one after the other, and the start of the last of these.
        self._again, self._again_s = 0, float("-inf")

    def is_new(self, start_s: float, length_s: float, which: Hashable) -> bool:
        """Whether the window from ``start_s`` on was not counted before; ``which`` tells those of one start apart."""
        if start_s < self.newest_s and self._is_counted(start_s):
            return False
        if start_s != self.newest_s:
            self._go_on(start_s, length_s)
        if which in self._counted or len(self._counted) >= MOST_OF_A_START:
            return False
        self._counted.add(which)
        return True

    def _is_counted(self, start_s: float) -> bool:
        if not any(first_s <= start_s <= last_s for first_s, last_s in self._runs):
            return False
        if start_s != self._again_s:
            self._again = self._again + 1 if start_s > self._again_s else 1
            self._again_s = start_s
        return self._again <= MOST_REPEATED

    def _go_on(self, start_s: float, length_s: float) -> None:
        if 0 <= start_s - self.newest_s <= _NEAR * length_s:
            self._runs[-1] = self._runs[-1][0], start_s
        else:
            self._runs = [*self._runs[1 - MOST_RUNS :], (start_s, start_s)]
        self.newest_s, self._counted = start_s, set()
        self._again, self._again_s = 0, float("-inf")


class StepRepeats:
    """The same of a job's windows or a rank's, which hold steps: these go on whatever the clock says.

    >>> steps = StepRepeats()
    >>> [steps.is_new(*one) for one in [(10.0, 0, 9), (20.0, 10, 19), (20.0, 10, 19), (0.0, 20, 29), (10.0, 0, 9)]]
    [True, True, False, True, False]
    """

    __slots__ = ("_last_step", "_start_s", "newest_s")

    def __init__(self) -> None:
        self.newest_s = self._start_s = float("-inf")
        self._last_step = -1

    def is_new(self, start_s: float, first_step: int, last_step: int) -> bool:
        """Whether the window from ``start_s`` on, or its steps, were not counted before."""
        goes_on = last_step > self._last_step and (start_s != self._start_s or first_step > self._last_step)
        if start_s <= self.newest_s and not goes_on:
            return False
        self._start_s, self.newest_s = start_s, max(start_s, self.newest_s)
        self._last_step = max(last_step, self._last_step)
        return True
