"""What the bus says now: sessions, suggestions, thresholds, plans, who was heard, and what came of commands.

Rule of this file: pure and bounded, in entries and in bytes; time is an argument. It is read from the bus at every
start, so that control holds nothing that another control would not know. A job is known by its cluster and its name:
several clusters may share the brokers.
"""

import threading
from typing import Any, NamedTuple

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
from paceline.held_bytes import BoundedMapping
from paceline.job_life import JobLife
from paceline.topics import SESSION, SUGGESTION, Topic

from .job_clusters import JobClusters

#: Entries of each kind at most: their names come from outside.
MOST_SUGGESTIONS, MOST_JOBS, MOST_NODES, MOST_SESSIONS, MOST_ANSWERS = 10_000, 10_000, 20_000, 10_000, 5_000
#: Answers of one command.
MOST_OF_A_COMMAND = 100
#: A client that was not heard for so long is unhealthy; one that was not for this is forgotten.
UNHEALTHY_S, FORGOTTEN_S = 30.0, 24 * 3600.0
#: Bytes of each kind at most, as they are in memory.
MIB = 1024 * 1024
SESSION_BYTES, SUGGESTION_BYTES, THRESHOLD_BYTES = 32 * MIB, 64 * MIB, 16 * MIB
PLAN_BYTES, JOB_BYTES = 64 * MIB, 64 * MIB
NODE_BYTES, INVENTORY_BYTES, ANSWER_BYTES = 256 * MIB, 96 * MIB, 32 * MIB
#: What an entry takes beside its bytes; and how much larger an event's numbers are as Python's than as JSON.
_ENTRY_BYTES, _UNPACKED = 1024, 8


class Heard(NamedTuple):
    """A node, and what it said last."""

    last_s: float
    device: bytes = b""
    host: bytes = b""


class KnownJob(NamedTuple):
    """The newest run of a job, as its nodes described it; ``world_size`` 0: not known."""

    world_size: int
    life: JobLife


#: A job: its cluster, and its name there.
JobName = tuple[str, str]


class Book:
    """The newest of everything; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._audited = 0
        #: Messages that were no event of their topic.
        self.undecodable = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything: it was of another cluster."""
        with self._lock:
            self._empty()

    def _empty(self) -> None:
        self._sessions = BoundedMapping[str, SessionState](MOST_SESSIONS, SESSION_BYTES)
        self._suggestions = BoundedMapping[str, Suggestion](MOST_SUGGESTIONS, SUGGESTION_BYTES)
        self._thresholds = BoundedMapping[JobName, Thresholds](MOST_JOBS, THRESHOLD_BYTES)
        self._plans = BoundedMapping[JobName, BalancePlan](MOST_JOBS, PLAN_BYTES)
        self._jobs = BoundedMapping[JobName, KnownJob](MOST_JOBS, JOB_BYTES)
        self._nodes = BoundedMapping[str, Heard](MOST_NODES, NODE_BYTES)
        self._inventory = BoundedMapping[str, bytes](MOST_NODES, INVENTORY_BYTES)
        self._answers = BoundedMapping[str, list[AuditEntry]](MOST_ANSWERS, ANSWER_BYTES)
        self._audit = BoundedMapping[str, AuditEntry](MOST_ANSWERS, ANSWER_BYTES)

    def update(self, topic: Topic, key: str, event: Any, raw: bytes, now_s: float) -> None:
        """``event`` came on ``topic``."""
        with self._lock:
            unpacked = _ENTRY_BYTES + _UNPACKED * len(raw)
            if isinstance(event, SessionState):
                self._sessions.put(event.name, event, unpacked)
            elif isinstance(event, Suggestion):
                self._suggestions.put(event.id, event, unpacked)
            elif isinstance(event, Thresholds):
                self._thresholds.put((event.cluster, event.job), event, unpacked)
            elif isinstance(event, BalancePlan):
                known = self._plans.get((event.cluster, event.job))
                if known is None or _replaces(event, known):
                    self._plans.put((event.cluster, event.job), event, unpacked)
            elif isinstance(event, JobDescribed):
                self._described(event)
            elif isinstance(event, NodeDescribed):
                self._inventory.put(event.node, raw, _ENTRY_BYTES + len(raw))
            elif isinstance(event, DeviceSamples | HostSamples):
                self._heard(event, raw, now_s)
            elif isinstance(event, AuditEntry):
                self._answered(event, unpacked)

    def forget(self, topic: Topic, key: str) -> None:
        """The entry of ``key`` is gone."""
        with self._lock:
            if topic == SESSION:
                self._sessions.remove(key)
            elif topic == SUGGESTION:
                self._suggestions.remove(key)

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

    def thresholds(self, cluster: str, job: str) -> Thresholds | None:
        """What was last set for a job."""
        with self._lock:
            return self._thresholds.get((cluster, job))

    def plan(self, cluster: str, job: str) -> BalancePlan | None:
        """How a job's batches are shared out."""
        with self._lock:
            return self._plans.get((cluster, job))

    def job(self, cluster: str, job: str) -> KnownJob | None:
        """The newest run of a job; None of one that was never described."""
        with self._lock:
            return self._jobs.get((cluster, job))

    def clusters(self, job: str) -> JobClusters:
        """The clusters that have a job of this name."""
        with self._lock:
            described = {cluster: known for (cluster, name), known in self._jobs.items() if name == job}
            named = {cluster for held in (self._thresholds, self._plans) for cluster, name in held if name == job}
        running = {cluster for cluster, known in described.items() if known.life.ended_s is None}
        return JobClusters(sorted(running), sorted(described.keys() - running), sorted(named - described.keys()))

    def running(self) -> list[str]:
        """The jobs that have not ended, those that were described last first; with their clusters, if it is several."""
        with self._lock:
            several = len({cluster for cluster, _ in self._jobs}) > 1
            running = [name for name, known in self._jobs.items() if known.life.ended_s is None]
        return [f"{job[:100]} in {cluster[:100]}" if several else job for cluster, job in reversed(running)]

    def knows_node(self, node: str) -> bool:
        """Whether anything was received of the node."""
        with self._lock:
            return node in self._nodes or node in self._inventory

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
            return list(self._answers.get(command_id) or ())

    def audit(self, limit: int) -> list[AuditEntry]:
        """The newest entries, the newest first."""
        with self._lock:
            return list(self._audit.values())[::-1][:limit]

    def _described(self, event: JobDescribed) -> None:
        name = (event.cluster, event.job)
        known = self._jobs.get(name)
        if known is None or known.life.succeeded_by(event):
            known = KnownJob(event.world_size, JobLife(event.attempt))
        known.life.update(event)
        if event.attempt == known.life.attempt:
            known = known._replace(world_size=event.world_size)
        self._jobs.put(name, known, _ENTRY_BYTES + known.life.held_bytes)

    def _heard(self, event: DeviceSamples | HostSamples, raw: bytes, now_s: float) -> None:
        known = self._nodes.get(event.node) or Heard(now_s)
        device = raw if isinstance(event, DeviceSamples) else known.device
        host = raw if isinstance(event, HostSamples) else known.host
        self._nodes.put(event.node, Heard(now_s, device, host), _ENTRY_BYTES + len(device) + len(host))

    def _answered(self, entry: AuditEntry, size: int) -> None:
        self._audited += 1
        self._audit.put(str(self._audited), entry, size)
        answers = [*(self._answers.get(entry.command_id) or ()), entry][-MOST_OF_A_COMMAND:]
        self._answers.put(entry.command_id, answers, size * len(answers))


def _replaces(event: BalancePlan, known: BalancePlan) -> bool:
    """Whether ``event`` is what holds of a job now, after ``known``, or what was proposed last for it.

    What ranks follow is what they say; a proposal that no rank could take does not stand in the way of the next.
    """
    if event.attempt != known.attempt:
        return event.attempt > known.attempt
    if event.first_batch is not None:
        return event.run != known.run or known.first_batch is None or event.version >= known.version
    return event.run == known.run and known.version < event.version <= known.version + MOST_AHEAD
