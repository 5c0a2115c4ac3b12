"""The findings of one job, as they come off the bus.

Rule of this file: each finding and revision once, in order of arrival; messages of other jobs and what does not decode
are passed over.
"""

import msgspec

from paceline import wire
from paceline.events import Finding, JobWindow
from paceline.topics import FINDING, WINDOW
from paceline.visible import visible
from paceline.wire import WireError


class Watch:
    """What has been heard of one job: its findings by (id, revision), and the last summary of its steps."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._seen: set[tuple[str, int]] = set()
        self._last_step = -1

    def hear(self, topic: str, value: bytes) -> Finding | JobWindow | None:
        """The event in ``value`` if it is this job's and new."""
        followed = next((row for row in (FINDING, WINDOW) if row.name == topic), None)
        if followed is None:
            return None
        try:
            event = wire.decode(followed, value)
        except WireError:
            return None
        if isinstance(event, Finding) and event.job == self._job:
            return self._new(event)
        if isinstance(event, JobWindow) and event.job == self._job and event.last_step > self._last_step:
            self._last_step = event.last_step
            return event
        return None

    def _new(self, finding: Finding) -> Finding | None:
        revision = (finding.id, finding.revision)
        if revision in self._seen:
            return None
        self._seen.add(revision)
        return finding


def as_line(finding: Finding) -> str:
    """``finding`` as one line of JSON."""
    return visible(msgspec.json.encode(finding).decode())
