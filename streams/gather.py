"""Messages of one topic of one job, held back until there are enough of them to be judged together.

Rule of this file: pure. Every message costs the same fixed work however few rows it has, and a job of a thousand nodes
sends a thousand small ones a second. Nothing can be said before all nodes have told a step, so an eighth of them may
wait for each other; what is said does not depend on it.
"""

from typing import Any, Generic, TypeVar

import msgspec

from paceline.events import CollectiveTimings, OpTimings

Timings = TypeVar("Timings", OpTimings, CollectiveTimings)

#: A message waits for no more than one part in so many of the job's producers.
PARTS = 8


class Gather(Generic[Timings]):
    """The messages of type ``kind`` that wait."""

    def __init__(self, kind: type[Timings]) -> None:
        self.kind: type[Timings] = kind
        self.waiting: list[Timings] = []

    def push(self, batch: Timings, producers: int) -> list[Timings]:
        """Take in a message of a job of so many ``producers``; those to be judged now, in order of arrival."""
        self.waiting.append(batch)
        return self.drain() if len(self.waiting) * PARTS >= producers else []

    def drain(self) -> list[Timings]:
        """All that waits."""
        ready, self.waiting = self.waiting, []
        return ready

    def snapshot(self) -> list[Any]:
        """The messages as plain data."""
        return [msgspec.to_builtins(batch) for batch in self.waiting]

    def load(self, data: list[Any]) -> None:
        """Take the messages that ``snapshot`` described."""
        self.waiting = [msgspec.convert(one, self.kind) for one in data]
