"""What waits to be logged, for a tracker that does not take it now.

Rule of this file: pure and bounded. Of too much the oldest goes, and is counted. After a failure the next attempt
waits, ever longer; what is refused for good is counted and never tried again.
"""

from collections import deque
from random import Random
from typing import Generic, TypeVar

from paceline.backoff import Backoff

T = TypeVar("T")

#: Some three hours of points; what goes out in one request; between two attempts.
MOST, AT_ONCE = 10_000, 100
FIRST_S, CAP_S = 1.0, 30.0


class Backlog(Generic[T]):
    """Items in order, and when to try next. One reader takes what is due and says what came of it before it asks again.

    >>> backlog = Backlog(Random(1), most=2)
    >>> backlog.add("a"); backlog.add("b"); backlog.add("c")
    >>> backlog.due(0.0), backlog.lost
    (['b', 'c'], 1)
    >>> backlog.failed(0.0); backlog.due(0.1), bool(backlog.due(2.0))
    ([], True)
    >>> backlog.done(2); backlog.waiting, backlog.logged
    (0, 2)
    """

    def __init__(self, random: Random, most: int = MOST) -> None:
        self._items: deque[T] = deque()
        self._most = most
        self._backoff = Backoff(FIRST_S, CAP_S, random)
        self._next_s = float("-inf")
        #: How many of those that were handed out went since, for want of room.
        self._went = 0
        self.logged = self.lost = self.refused = 0

    @property
    def waiting(self) -> int:
        """How many items there are."""
        return len(self._items)

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._next_s > float("-inf")

    def add(self, item: T) -> None:
        """``item`` is to be logged."""
        self._items.append(item)
        if len(self._items) > self._most:
            self._items.popleft()
            self.lost += 1
            self._went += 1

    def due(self, now_s: float, *, last: bool = False) -> list[T]:
        """What to try at ``now_s``; near the end (``last``) without waiting any longer."""
        if now_s < self._next_s and not last:
            return []
        self._went = 0
        return [self._items[index] for index in range(min(AT_ONCE, len(self._items)))]

    def done(self, count: int) -> None:
        """The first ``count`` of those handed out have been logged, also such as went meanwhile."""
        self.logged += self._drop(count)
        self._backoff.reset()
        self._next_s = float("-inf")

    def refuse(self, count: int) -> None:
        """The first ``count`` of those handed out will never be taken."""
        self.refused += self._drop(count)

    def failed(self, now_s: float) -> None:
        """The tracker did not answer."""
        self._next_s = now_s + self._backoff.next_s()

    def _drop(self, count: int) -> int:
        went = min(count, self._went)
        self._went -= went
        self.lost -= went
        for _ in range(count - went):
            self._items.popleft()
        return count
