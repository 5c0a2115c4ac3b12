"""The feed: everything the page knows, filled by events, read as snapshots.

Rule of this file: pure and bounded. Time is an argument; the reader that calls it holds the lock.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from paceline import events
from paceline.sequences import Sequences
from paceline.topics import COLLECTIVE, COLLECTIVE_V1, COMMAND, DEADLETTER, NODE, THRESHOLD, TOPICS

from .findings_book import FindingsBook, ordered
from .forecast_book import ForecastBook, ProfileBook
from .job_buffer import JobBuffer
from .snapshot import JobLine, JobView, NodeView, SenderLine, TopicLine, view_of
from .suggestion_book import AnswerBook, SuggestionBook

JOBS, NODES, DEAD_LETTERS, PRODUCERS, SENDERS = 64, 2_000, 50, 10_000, 4_000
#: Topics that the page does not read, or shows elsewhere; and those it reads for producers of a release before.
UNREAD = {topic.short for topic in (COLLECTIVE, COLLECTIVE_V1, COMMAND, DEADLETTER, NODE, THRESHOLD)}
SUPERSEDED = {topic.short for topic in TOPICS if topic.superseded}


@dataclass
class TopicTraffic:
    """What came on one topic."""

    messages: int = 0
    unusable: int = 0
    skipped: int = 0
    lag: int | None = None
    last_s: float | None = None
    reason: str = ""
    sequences: Sequences = field(default_factory=lambda: Sequences(PRODUCERS))


@dataclass
class Machine:
    """A node's newest samples."""

    device: events.DeviceSamples | None = None
    host: events.HostSamples | None = None
    last_s: float = 0.0


@dataclass
class Feed:
    """Jobs by (cluster, job), nodes, dead letters, and the traffic of each topic."""

    jobs: dict[tuple[str, str], JobBuffer] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    dead_letters: deque[events.DeadLetter] = field(default_factory=lambda: deque(maxlen=DEAD_LETTERS))
    traffic: dict[str, TopicTraffic] = field(default_factory=lambda: {topic.short: TopicTraffic() for topic in TOPICS})
    #: Findings of nodes know no step and no attempt: they outlive a job's restart, and some are of no job at all.
    node_findings: FindingsBook = field(default_factory=FindingsBook)
    #: What collectors and sidecars say of themselves, by service, node and job.
    senders: dict[tuple[str, str, str], SenderLine] = field(default_factory=dict)
    forecasts: ForecastBook = field(default_factory=ForecastBook)
    profiles: ProfileBook = field(default_factory=ProfileBook)
    suggestions: SuggestionBook = field(default_factory=SuggestionBook)
    answers: AnswerBook = field(default_factory=AnswerBook)

    def update(self, short: str, event: Any, at_s: float) -> None:
        """Take ``event`` of topic ``short``, written at ``at_s`` by the broker's or producer's clock.

        Raises:
            ValueError, OverflowError: the event decodes but cannot be used; nothing else is harmed.
        """
        traffic = self.traffic[short]
        traffic.last_s = at_s if traffic.last_s is None else max(at_s, traffic.last_s)
        if isinstance(event, events.Produced) and not traffic.sequences.admit(event.producer, event.sequence):
            return
        traffic.messages += 1
        self._account(event, at_s)
        match event:
            case events.Finding(first_step=step, nodes=[_, *_]) if step < 0:
                self.node_findings.upsert(event)
            case (
                events.StepTimings()
                | events.OpTimings()
                | events.JobDescribed()
                | events.JobWindow()
                | events.Finding()
            ):
                self._job(event, at_s)
            case events.DeviceSamples():
                self._machine(event.node, at_s).device = event
            case events.HostSamples():
                self._machine(event.node, at_s).host = event
            case events.DeadLetter():
                self.dead_letters.append(event)
            case _:
                self._advice(event, at_s)

    def unusable(self, short: str, reason: str) -> None:
        """A message of topic ``short`` could not be used."""
        self.traffic[short].unusable += 1
        self.traffic[short].reason = reason

    def skip(self, short: str, messages: int) -> None:
        """The reader fell behind on topic ``short`` and passed over ``messages``."""
        self.traffic[short].skipped += messages
        self.traffic[short].sequences.forget_gaps()

    @property
    def missing(self) -> int:
        """Messages that producers numbered and that never came."""
        return sum(traffic.sequences.missing for traffic in self.traffic.values())

    def lines(self) -> list[JobLine]:
        """Every job: the running ones first, the newest first in each."""
        lines = [JobLine(b.cluster, b.job, b.attempt, b.first_s, b.last_s, b.ended_s) for b in self.jobs.values()]
        return sorted(lines, key=lambda line: (line.ended_s is not None, -(line.first_s or 0.0), line.name))

    def view(self, cluster: str, job: str) -> JobView | None:
        """A copy of what is held of a job, safe to draw outside the lock."""
        buffer = self.jobs.get((cluster, job))
        if buffer is None:
            return None
        seen = view_of(buffer)
        of_nodes = [
            episode
            for episode in self.node_findings.episodes()
            if (episode[-1].cluster, episode[-1].job) == (cluster, job)
        ]
        return replace(seen, episodes=ordered([*seen.episodes, *of_nodes]))

    def topics(self) -> list[TopicLine]:
        """The traffic of each topic the page reads, in the table's order; a superseded one only where it has any."""
        return [
            TopicLine(short, t.messages, t.last_s, t.lag, t.unusable, t.skipped, t.reason, t.sequences.missing)
            for short, t in self.traffic.items()
            if short not in UNREAD and (short not in SUPERSEDED or t.last_s is not None or t.unusable)
        ]

    def nodes(self) -> list[NodeView]:
        """Every node's newest samples, by name."""
        return [NodeView(name, m.last_s, m.device, m.host) for name, m in sorted(self.machines.items())]

    def _account(self, event: Any, at_s: float) -> None:
        """Keep what a sender says of itself; what its spool held back is older than what is known."""
        match event:
            case events.HostSamples(node=node, account=events.DeliveryAccount() as account):
                line = SenderLine("collector", node, "", at_s, account)
            case (
                events.StepTimings(node=node, job=job, account=events.DeliveryAccount() as account)
                | events.OpTimings(node=node, job=job, account=events.DeliveryAccount() as account)
            ):
                line = SenderLine("sidecar", node, job, at_s, account)
            case _:
                return
        who = (line.service, line.node, line.job)
        held = self.senders.pop(who, None)
        self.senders[who] = held if held is not None and held.as_of_s > at_s else line
        if len(self.senders) > SENDERS:
            del self.senders[next(iter(self.senders))]

    def _advice(self, event: Any, at_s: float) -> None:
        """What comes next, what to do, and what came of commands about it."""
        match event:
            case events.Forecast():
                self.forecasts.upsert(event, at_s)
            case events.JobProfile():
                self.profiles.upsert(event, at_s)
            case events.Suggestion():
                self.suggestions.upsert(event)
            case events.AuditEntry():
                self.answers.take(event)

    def _job(self, event: Any, at_s: float) -> None:
        buffer = self._buffer(event.cluster, event.job, event.attempt)
        if buffer is None:
            return
        buffer.heard(at_s)
        match event:
            case events.StepTimings():
                buffer.put(event)
            case events.OpTimings():
                buffer.time(event)
            case events.JobDescribed():
                buffer.describe(event)
            case events.JobWindow():
                buffer.window(event)
            case events.Finding():
                buffer.findings.upsert(event)

    def _buffer(self, cluster: str, job: str, attempt: int) -> JobBuffer | None:
        """The job's buffer, fresh for a later attempt, None for an earlier one."""
        held = self.jobs.get((cluster, job))
        if held and attempt < held.attempt:
            return None
        if held and attempt == held.attempt:
            return held
        self.jobs[cluster, job] = JobBuffer(cluster, job, attempt)
        if len(self.jobs) > JOBS:
            others = [key for key in self.jobs if key != (cluster, job)]
            del self.jobs[min(others, key=lambda key: self.jobs[key].last_s or 0.0)]
        return self.jobs[cluster, job]

    def _machine(self, node: str, at_s: float) -> Machine:
        machine = self.machines.setdefault(node, Machine())
        machine.last_s = max(machine.last_s, at_s)
        if len(self.machines) > NODES:
            del self.machines[min(self.machines, key=lambda name: self.machines[name].last_s)]
        return machine
