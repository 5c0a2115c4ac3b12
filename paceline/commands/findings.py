"""What is said about one job, as it comes off the bus: findings, and what is suggested because of them.

Rule of this file: each revision once, in order of arrival; messages of other jobs and what does not decode are passed
over.
"""

from paceline import wire
from paceline.events import BalanceObserved, BalancePlan, Finding, JobWindow, StepTimings, Suggestion
from paceline.topics import BALANCE, FINDING, OP, PLAN, SUGGESTION, WINDOW
from paceline.visible import visible
from paceline.wire import WireError

_FOLLOWED = {topic.name: topic for topic in (FINDING, SUGGESTION, WINDOW, PLAN, BALANCE, OP)}


class Watch:
    """What has been heard of one job: findings and suggestions by (id, revision), that steps came, the last summary of
    them, and what its balancer says."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._seen: set[tuple[str, int]] = set()
        self._last_step = -1
        self._stepped = False

    def hear(
        self, topic: str, value: bytes
    ) -> Finding | Suggestion | JobWindow | StepTimings | BalancePlan | BalanceObserved | None:
        """The event in ``value`` if it is this job's and new; of timings only the first that hold a step.

        A node reports its ranks before their first step has ended, too.
        """
        followed = _FOLLOWED.get(topic)
        if followed is None or (followed is OP and self._stepped):
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
        if isinstance(event, StepTimings) and event.job == self._job and event.step.data:
            self._stepped = True
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
