"""What is said about one job, as it comes off the bus: findings, and what is suggested because of them.

Rule of this file: each revision once, in order of arrival; messages of other jobs and what does not decode are passed
over.
"""

from paceline import wire
from paceline.events import BalanceObserved, BalancePlan, Finding, JobWindow, Suggestion
from paceline.topics import BALANCE, FINDING, PLAN, SUGGESTION, WINDOW
from paceline.visible import visible
from paceline.wire import WireError

_FOLLOWED = {topic.name: topic for topic in (FINDING, SUGGESTION, WINDOW, PLAN, BALANCE)}


class Watch:
    """What has been heard of one job: findings and suggestions by (id, revision), the last summary of its steps, and
    what its balancer says."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._seen: set[tuple[str, int]] = set()
        self._last_step = -1

    def hear(self, topic: str, value: bytes) -> Finding | Suggestion | JobWindow | BalancePlan | BalanceObserved | None:
        """The event in ``value`` if it is this job's and new."""
        followed = _FOLLOWED.get(topic)
        if followed is None:
            return None
        try:
            event = wire.decode(followed, value)
        except WireError:
            return None
        if isinstance(event, Finding | Suggestion) and event.job == self._job:
            return self._new(event)
        if isinstance(event, JobWindow) and event.job == self._job and event.last_step > self._last_step:
            self._last_step = event.last_step
            return event
        return event if isinstance(event, BalancePlan | BalanceObserved) and event.job == self._job else None

    def _new(self, event: Finding | Suggestion) -> Finding | Suggestion | None:
        revision = (event.id, event.revision)
        if revision in self._seen:
            return None
        self._seen.add(revision)
        return event


def as_line(event: Finding | Suggestion) -> str:
    """``event`` as one line of JSON; a suggestion has an ``action``, and a finding has none."""
    return visible(wire.encode(event).decode())
