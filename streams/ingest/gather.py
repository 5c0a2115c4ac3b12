"""Messages of one job, held back until there are enough of them to be judged together.

Rule of this file: pure. Every message costs the same fixed work however few rows it has, and a job of a thousand nodes
sends a thousand small ones a second. Nothing can be said before all nodes have told a step, so an eighth of them may
wait for each other, and all of them where more are at hand already; what is said does not depend on it.
"""

from typing import Any, Generic, TypeVar

import msgspec

from paceline import wire
from paceline.events import CollectiveCalls, StepTimings
from paceline.topics import COLLECTIVE, OP

from ..stored import Stored

Timings = TypeVar("Timings", bound=StepTimings | CollectiveCalls)

#: A message waits for no more than one part in so many of the job's producers: as it comes, and from a backlog.
PARTS = 8
PARTS_OF_BACKLOG = 1
_TOPICS = {topic.event: topic for topic in (OP, COLLECTIVE)}
_BY_NAME = {topic.name: topic for topic in _TOPICS.values()}


def enough(producers: int, *, backlog: bool) -> float:
    """How many messages of a job of so many ``producers`` are judged together. ``backlog``: more are at hand."""
    return producers / (PARTS_OF_BACKLOG if backlog else PARTS)


class Gather(Stored, Generic[Timings]):
    """The messages that wait."""

    def __init__(self) -> None:
        self.waiting: list[Timings] = []

    def push(self, batch: Timings, least: float) -> list[Timings]:
        """Take in a message; those to be judged now, in order of arrival, once at ``least`` so many wait."""
        self.waiting.append(batch)
        return self.drain() if len(self.waiting) >= least else []

    def drain(self) -> list[Timings]:
        """All that waits."""
        ready, self.waiting = self.waiting, []
        return ready

    def state(self) -> dict[str, Any]:
        """The messages as their topics have them."""
        return {"waiting": [[_TOPICS[type(batch)].name, wire.encode(batch)] for batch in self.waiting]}

    def load(self, data: dict[str, Any]) -> None:
        """Take the messages that ``state`` described."""
        try:
            self.waiting = [wire.decode(_BY_NAME[name], value) for name, value in data["waiting"]]
        except (wire.WireError, msgspec.ValidationError) as error:
            raise ValueError(f"not a snapshot: {error}") from error
