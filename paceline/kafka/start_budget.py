"""How much of what topics hold is read at a start: messages, bytes and seconds, and whose newest are kept.

Rule of this file: pure. A flood in one partition costs that partition its oldest messages, and no other any.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

P = TypeVar("P", bound=Hashable)


class StartBudget(NamedTuple):
    """What a start may read. ``seconds`` are those in which messages came: slow brokers cost nothing of it."""

    messages: int = 200_000
    bytes: int = 512 * 1024 * 1024
    seconds: float = 30.0


class StartReading:
    """What one start has read of its budget.

    >>> reading = StartReading(StartBudget(messages=100, bytes=1000, seconds=10.0))
    >>> reading.allows(250)
    100
    >>> reading.read(20, 400, 1.0); reading.allows(80)
    30
    """

    def __init__(self, budget: StartBudget) -> None:
        self._budget = budget
        self._messages, self._bytes, self._seconds = 0, 0, 0.0

    def read(self, messages: int, size: int, took_s: float) -> None:
        """So many messages of ``size`` bytes in all were read in ``took_s`` seconds."""
        self._messages += messages
        self._bytes += size
        self._seconds += max(0.0, took_s)

    def allows(self, remaining: int) -> int:
        """How many of the ``remaining`` messages may be read, if they are like those before.

        Sizes and pace are not judged before a quarter of the budget is used: the first messages are few.
        """
        budget, most = self._budget, min(remaining, max(0, self._budget.messages - self._messages))
        for used, whole in ((self._bytes, budget.bytes), (self._seconds, budget.seconds)):
            if self._messages and used > whole / 4:
                most = min(most, max(0, int((whole - used) / used * self._messages)))
        return most


def shares(remaining: Mapping[P, int], most: int) -> dict[P, int]:
    """``most`` messages shared out: each partition has what it holds, or as many as every larger one.

    >>> shares({"flooded": 1000, "small": 3, "empty": 0}, 10)
    {'empty': 0, 'small': 3, 'flooded': 7}
    """
    shared: dict[P, int] = {}
    for place, partition in enumerate(sorted(remaining, key=lambda one: remaining[one])):
        shared[partition] = min(remaining[partition], most // (len(remaining) - place))
        most -= shared[partition]
    return shared
