"""The least of many keys whose order changes.

Rule of this file: pure. A change costs the logarithm of their number: what is out of date in the heap is passed over
when it comes to the top, and the heap is built anew before most of it is.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=int | tuple[str, int])


class Ranking(Generic[Key]):
    """The least of many keys whose order changes.

    >>> ranking = Ranking()
    >>> ranking.put(1, 5.0), ranking.put(2, 3.0), ranking.put(2, 7.0), ranking.first()
    (None, None, None, 1)
    >>> ranking.drop(1), ranking.first()
    (None, 2)
    """

    def __init__(self) -> None:
        self._order: dict[Key, Any] = {}
        self._heap: list[tuple[Any, Key]] = []

    def put(self, key: Key, order: Any) -> None:
        """``key`` comes at ``order`` from now on."""
        if self._order.get(key) == order:
            return
        self._order[key] = order
        heappush(self._heap, (order, key))
        if len(self._heap) > 2 * len(self._order) + 64:
            self._heap = [(order, key) for key, order in self._order.items()]
            heapify(self._heap)

    def drop(self, key: Key) -> None:
        """``key`` is gone."""
        self._order.pop(key, None)

    def first(self) -> Key | None:
        """The key that comes first; None where there is none."""
        while self._heap and self._order.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def second(self) -> Key | None:
        """The key that comes next after the first; None where there is none."""
        first = self.first()
        if first is None:
            return None
        order = self._order.pop(first)
        second = self.first()
        self.put(first, order)
        return second
