"""Which windows of one subject come for the first time; delivery is at least once.

Rule of this file: pure and small. Windows come with rising starts, so one older than the newest is a repetition. Of
one start there may be several: two jobs that had a GPU within five minutes have a row each in an archive.
"""

from collections.abc import Hashable

#: Windows of one start that are told apart; jobs on one GPU within five minutes are few.
MOST_OF_A_START = 64


class Repeats:
    """The newest start of a subject's windows, and what was counted of it."""

    __slots__ = ("_counted", "newest_s")

    def __init__(self) -> None:
        self.newest_s = float("-inf")
        self._counted: set[Hashable] = set()

    def is_new(self, start_s: float, which: Hashable) -> bool:
        """Whether the window from ``start_s`` on was not counted before; ``which`` tells those of one start apart."""
        if start_s < self.newest_s:
            return False
        if start_s > self.newest_s:
            self.newest_s, self._counted = start_s, set()
        if which in self._counted or len(self._counted) >= MOST_OF_A_START:
            return False
        self._counted.add(which)
        return True
