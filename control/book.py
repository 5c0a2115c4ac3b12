"""What the bus says now: sessions, suggestions, thresholds, plans, who was heard, and what came of commands.

Rule of this file: pure and bounded; time is an argument. It is read from the compacted topics at every start, so that
control holds nothing that another control would not know.
"""

import threading
from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

from paceline.balance.plan import MOST_AHEAD
from paceline.events import (
    AuditEntry,
    BalancePlan,
    DeviceSamples,
    HostSamples,
    JobDescribed,
    NodeDescribed,
    SessionState,
    Suggestion,
    Thresholds,
)
from paceline.topics import SESSION, SUGGESTION, Topic

#: Entries of each kind at most: their names come from outside.
MOST_SUGGESTIONS, MOST_JOBS, MOST_NODES, MOST_SESSIONS, MOST_ANSWERS = 10_000, 10_000, 20_000, 10_000, 5_000
#: A client that was not heard for so long is unhealthy; one that was not for this is forgotten.
UNHEALTHY_S, FORGOTTEN_S = 30.0, 24 * 3600.0
V = TypeVar("V")


class Heard(NamedTuple):
    """A node, and what it said last."""

    last_s: float
    device: bytes = b""
    host: bytes = b""


class Book:
    """The newest of everything; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, SessionState] = OrderedDict()
        self._suggestions: OrderedDict[str, Suggestion] = OrderedDict()
        self._thresholds: OrderedDict[str, Thresholds] = OrderedDict()
        self._plans: OrderedDict[str, BalancePlan] = OrderedDict()
        self._jobs: OrderedDict[str, str] = OrderedDict()
        self._nodes: OrderedDict[str, Heard] = OrderedDict()
        self._inventory: OrderedDict[str, bytes] = OrderedDict()
        self._answers: OrderedDict[str, list[AuditEntry]] = OrderedDict()
        self._audit: list[AuditEntry] = []
        #: Messages that were no event of their topic.
        self.undecodable = 0

    def update(self, topic: Topic, key: str, event: Any, raw: bytes, now_s: float) -> None:
        """``event`` came on ``topic``."""
        with self._lock:
            if isinstance(event, SessionState):
                _put(self._sessions, event.name, event, MOST_SESSIONS)
            elif isinstance(event, Suggestion):
                _put(self._suggestions, event.id, event, MOST_SUGGESTIONS)
            elif isinstance(event, Thresholds):
                _put(self._thresholds, event.job, event, MOST_JOBS)
            elif isinstance(event, BalancePlan):
                known = self._plans.get(event.job)
                if known is None or _replaces(event, known):
                    _put(self._plans, event.job, event, MOST_JOBS)
            elif isinstance(event, JobDescribed):
                _put(self._jobs, event.job, event.cluster, MOST_JOBS)
            elif isinstance(event, NodeDescribed):
                _put(self._inventory, event.node, raw, MOST_NODES)
            elif isinstance(event, DeviceSamples | HostSamples):
                self._heard(event, raw, now_s)
            elif isinstance(event, AuditEntry):
                self._answered(event)

    def forget(self, topic: Topic, key: str) -> None:
        """The entry of ``key`` is gone."""
        with self._lock:
            if topic == SESSION:
                self._sessions.pop(key, None)
            elif topic == SUGGESTION:
                self._suggestions.pop(key, None)

    def session(self, name: str) -> SessionState | None:
        """What was last told of a session, wherever it is recorded."""
        with self._lock:
            return self._sessions.get(name)

    def sessions(self) -> list[SessionState]:
        """All that were told of."""
        with self._lock:
            return list(self._sessions.values())

    def suggestion(self, id_: str) -> Suggestion | None:
        """A suggestion as it stands."""
        with self._lock:
            return self._suggestions.get(id_)

    def suggestions(self) -> list[Suggestion]:
        """All suggestions."""
        with self._lock:
            return list(self._suggestions.values())

    def thresholds(self, job: str) -> Thresholds | None:
        """What was last set for a job."""
        with self._lock:
            return self._thresholds.get(job)

    def plan(self, job: str) -> BalancePlan | None:
        """How a job's batches are shared out."""
        with self._lock:
            return self._plans.get(job)

    def knows(self, job: str) -> bool:
        """Whether the job was ever described."""
        with self._lock:
            return job in self._jobs

    def cluster(self, job: str) -> str | None:
        """The cluster in which the job was described last."""
        with self._lock:
            return self._jobs.get(job)

    def nodes(self, now_s: float) -> dict[str, Heard]:
        """Who was heard within a day of ``now_s``."""
        with self._lock:
            return {node: heard for node, heard in self._nodes.items() if now_s - heard.last_s < FORGOTTEN_S}

    def inventory(self) -> list[bytes]:
        """What nodes said of themselves, as it was on the bus."""
        with self._lock:
            return list(self._inventory.values())

    def answers(self, command_id: str) -> list[AuditEntry]:
        """What came of a command."""
        with self._lock:
            return list(self._answers.get(command_id, ()))

    def audit(self, limit: int) -> list[AuditEntry]:
        """The newest entries, the newest first."""
        with self._lock:
            return self._audit[::-1][:limit]

    def _heard(self, event: DeviceSamples | HostSamples, raw: bytes, now_s: float) -> None:
        known = self._nodes.get(event.node, Heard(now_s))
        device = raw if isinstance(event, DeviceSamples) else known.device
        host = raw if isinstance(event, HostSamples) else known.host
        _put(self._nodes, event.node, Heard(now_s, device, host), MOST_NODES)

    def _answered(self, entry: AuditEntry) -> None:
        self._audit.append(entry)
        del self._audit[:-MOST_ANSWERS]
        answers = self._answers.get(entry.command_id, [])
        _put(self._answers, entry.command_id, [*answers, entry][-100:], MOST_ANSWERS)


def _replaces(event: BalancePlan, known: BalancePlan) -> bool:
    """Whether ``event`` is what holds of a job now, after ``known``, or what was proposed last for it.

    What ranks follow is what they say; a proposal that no rank could take does not stand in the way of the next.
    """
    if event.attempt != known.attempt:
        return event.attempt > known.attempt
    if event.first_batch is not None:
        return event.run != known.run or known.first_batch is None or event.version >= known.version
    return event.run == known.run and known.version < event.version <= known.version + MOST_AHEAD


def _put(entries: OrderedDict[str, V], key: str, value: V, most: int) -> None:
    """Note the newest; beyond ``most`` the one that was told longest ago goes."""
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > most:
        entries.popitem(last=False)
