"""What waits to be taken by a receiver that does not take it now, or never does.

Rule of this file: pure and bounded; time is a steady clock's, an argument. Items wait in queues, each in order, which
are tried in turn, every other time one that has not failed. Of too much the oldest goes, and is counted. What fails
waits ever longer: all of a receiver, one queue, or what was tried, in a queue of its own. What is refused is halved
until the item that is refused alone is found: it is dropped and counted, and nothing else is.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from itertools import islice
from random import Random
from typing import Generic, TypeVar

from paceline.backoff import Backoff

T = TypeVar("T")
Place = tuple[Hashable, Hashable]

#: Some three hours of points; what goes out in one request; between two attempts; and the longest that a receiver may
#: ask for.
MOST, AT_ONCE = 10_000, 100
FIRST_S, CAP_S, ASKED_S = 1.0, 30.0, 300.0
#: So many requests in a row are refused where one of a hundred is searched for: beyond that, each waits for a while.
IN_A_ROW = 8
#: Queues of what has failed by itself; of more, what fails joins the last.
MOST_APART = 64


class _Queue(Generic[T]):
    """Items with their numbers, and how trying them went; of the first ``suspects`` one is refused."""

    def __init__(self, place: Place, *, apart: bool = False, at_s: float = float("-inf")) -> None:
        self.place, self.apart, self.at_s = place, apart, at_s
        self.items: deque[tuple[int, T]] = deque()
        self.failures = self.refusals = self.suspects = 0


class _Outage:
    """A receiver that fails: how often in a row, and when it is asked next."""

    def __init__(self) -> None:
        self.failures, self.at_s = 0, float("-inf")


class Backlog(Generic[T]):
    """Items by receiver and queue (``place`` of an item), and what to try next.

    One reader takes what is due and says what came of it before it asks again.

    >>> backlog = Backlog(Random(1), most=2)
    >>> backlog.add("a"); backlog.add("b"); backlog.add("c")
    >>> backlog.due(0.0), backlog.lost
    (['b', 'c'], 1)
    >>> backlog.failed(0.0); backlog.due(0.1), bool(backlog.due(2.0))
    ([], True)
    >>> backlog.done(2); backlog.waiting, backlog.logged
    (0, 2)
    """

    def __init__(
        self, random: Random, most: int = MOST, place: Callable[[T], Place] = lambda item: (None, None)
    ) -> None:
        self._most, self._place = most, place
        self._backoff = Backoff(FIRST_S, CAP_S, random)
        #: In the order in which they are tried; none is empty.
        self._queues: OrderedDict[Place, _Queue[T]] = OrderedDict()
        self._outages: dict[Hashable, _Outage] = {}
        self._tried: _Queue[T] = _Queue((None, None))
        #: How many of those that were handed out went since, for want of room.
        self._went = 0
        self._number = 0
        self.waiting = self.logged = self.lost = self.refused = 0

    @property
    def failing(self) -> bool:
        """Whether anything that waits has failed."""
        return bool(self._outages) or any(queue.at_s > float("-inf") for queue in self._queues.values())

    def add(self, item: T) -> None:
        """``item`` is to be logged."""
        place = self._place(item)
        queue = self._queues.setdefault(place, _Queue(place))
        self._number += 1
        queue.items.append((self._number, item))
        self.waiting += 1
        if self.waiting > self._most:
            self._lose()

    def due(self, now_s: float, *, last: bool = False) -> list[T]:
        """What to try at ``now_s``, of one queue; near the end (``last``) without waiting any longer."""
        ready = [one for one in self._queues.values() if last or self._at_s(one) <= now_s]
        if not ready:
            return []
        queue = next((one for one in ready if self._tried.apart and not one.apart), ready[0])
        self._queues.move_to_end(queue.place)
        self._tried, self._went = queue, 0
        size = max(1, queue.suspects // 2) if queue.suspects else AT_ONCE
        return [item for _, item in islice(queue.items, size)]

    def done(self, count: int, refused: int = 0) -> None:
        """The first ``count`` of those handed out have been logged but for ``refused``, also such as went meanwhile."""
        self.logged += count - refused
        self.refused += refused
        queue = self._tried
        queue.at_s, queue.failures, queue.refusals = float("-inf"), 0, 0
        self._outages.pop(queue.place[0], None)
        self._take(count)

    def refuse(self, count: int, now_s: float) -> bool:
        """The first ``count`` of those handed out are not taken as they are; whether it was one, which is dropped."""
        queue = self._tried
        self._outages.pop(queue.place[0], None)
        queue.refusals += 1
        queue.at_s = self._later(now_s, queue.refusals - IN_A_ROW) if queue.refusals > IN_A_ROW else float("-inf")
        if count > 1:
            queue.suspects = max(0, count - self._went)
            return False
        self.drop(count)
        queue.suspects = 0
        return True

    def drop(self, count: int) -> None:
        """The first ``count`` of those handed out will never be taken, whatever they are."""
        self.refused += count
        self._take(count)

    def failed(self, now_s: float, asked_s: float = 0.0) -> None:
        """The receiver takes nothing now, and is asked again ``asked_s`` from now at the earliest."""
        outage = self._outages.setdefault(self._tried.place[0], _Outage())
        outage.failures += 1
        outage.at_s = max(self._later(now_s, outage.failures), now_s + min(asked_s, ASKED_S))

    def hold(self, now_s: float) -> None:
        """The receiver takes nothing of this queue now, and may take others."""
        self._outages.pop(self._tried.place[0], None)
        self._tried.failures += 1
        self._tried.at_s = self._later(now_s, self._tried.failures)

    def set_apart(self, count: int, now_s: float, asked_s: float = 0.0) -> None:
        """The first ``count`` of those handed out failed, and it may be for what they say.

        They go to the back: their halves are tried apart, and one alone after its own wait. Where many in a row fail,
        it is hardly for what they say: only every so-manyth is halved then.
        """
        self.failed(now_s, asked_s)
        receiver, failures = self._tried.place[0], self._tried.failures
        outage = self._outages[receiver]
        items = self._take(count, ended=False)
        self._outages[receiver] = outage  # Which is forgotten with the last of its queues.
        halve = outage.failures < IN_A_ROW or outage.failures % IN_A_ROW == 0
        middle = len(items) // 2 if halve else 0
        for part in filter(None, (items[:middle], items[middle:])):
            queue = self._apart(receiver, now_s)
            queue.items.extend(part)
            self.waiting += len(part)
            if len(items) == 1:
                queue.failures, queue.at_s = failures + 1, self._later(now_s, failures + 1)

    def _apart(self, receiver: Hashable, now_s: float) -> _Queue[T]:
        """A queue at the back, for what failed by itself."""
        apart = [queue for queue in self._queues.values() if queue.apart and queue.place[0] == receiver]
        if len(apart) >= MOST_APART:
            return apart[-1]
        queue: _Queue[T] = _Queue((receiver, object()), apart=True, at_s=now_s)
        self._queues[queue.place] = queue
        return queue

    def _at_s(self, queue: _Queue[T]) -> float:
        outage = self._outages.get(queue.place[0])
        return max(queue.at_s, outage.at_s) if outage is not None else queue.at_s

    def _later(self, now_s: float, failures: int) -> float:
        """When to try again after so many failures in a row."""
        return now_s + self._backoff.delay_s(failures - 1)

    def _lose(self) -> None:
        """The oldest item goes, for want of room."""
        queue = min(self._queues.values(), key=lambda one: one.items[0][0])
        queue.items.popleft()
        queue.suspects = max(0, queue.suspects - 1)
        self.waiting -= 1
        self.lost += 1
        if queue is self._tried:
            self._went += 1
        self._tidy(queue)

    def _take(self, count: int, *, ended: bool = True) -> list[tuple[int, T]]:
        """Take out the first ``count`` of those handed out that are still there; others have ``ended`` well, or not."""
        queue, went = self._tried, min(count, self._went)
        self._went -= went
        if ended:
            self.lost -= went
        taken = [queue.items.popleft() for _ in range(count - went)]
        queue.suspects = max(0, queue.suspects - len(taken))
        self.waiting -= len(taken)
        self._tidy(queue)
        return taken

    def _tidy(self, queue: _Queue[T]) -> None:
        """Forget ``queue`` where it is empty, and with the last of a receiver's that it failed."""
        if not queue.items and self._queues.get(queue.place) is queue:
            del self._queues[queue.place]
            if not any(one.place[0] == queue.place[0] for one in self._queues.values()):
                self._outages.pop(queue.place[0], None)
