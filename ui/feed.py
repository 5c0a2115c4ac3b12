"""The feed: everything the page knows, filled by events, read as snapshots.

Rule of this file: pure and bounded. Time is an argument; the reader that calls it holds the lock.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from paceline import events
from paceline.energy.energy_book import EnergyBook
from paceline.energy.tariff import Tariff
from paceline.events.findings import is_of_nodes
from paceline.sequences import Sequences
from paceline.topics import (
    BALANCE,
    CAPTURE,
    COLLECTIVE,
    COMMAND,
    DEADLETTER,
    NODE,
    PLAN,
    SESSION,
    THRESHOLD,
    TOPICS,
)

from .energy_view import energy_view
from .findings_book import FindingsBook, ordered
from .forecast_book import ForecastBook, ProfileBook
from .job_buffer import JobBuffer
from .machines import Machines
from .rank_view import RankView, rank_view
from .snapshot import JobLine, JobView, SenderLine, TopicLine, line_of, running_first, view_of
from .suggestion_book import AnswerBook, SuggestionBook

#: A longer pause between two messages of a topic is an interruption.
PAUSE_S = 30.0
JOBS, DEAD_LETTERS, PRODUCERS, SENDERS = 200, 50, 40_000, 16_384
#: Numbers that all jobs' steps and phases may take together: 512 MiB.
CELLS = 128_000_000
#: Topics that the page does not read, or shows elsewhere; and those on which mostly nothing comes: from balancers.
UNREAD = {topic.short for topic in (CAPTURE, COLLECTIVE, COMMAND, DEADLETTER, NODE, SESSION, THRESHOLD)}
SELDOM = {topic.short for topic in (BALANCE, PLAN)}


@dataclass
class TopicTraffic:
    """What came on one topic."""

    messages: int = 0
    unusable: int = 0
    skipped: int = 0
    lag: int | None = None
    last_s: float | None = None
    #: Since when messages come without a pause of ``PAUSE_S``.
    began_s: float = 0.0
    reason: str = ""
    sequences: Sequences = field(default_factory=lambda: Sequences(PRODUCERS))


@dataclass
class Feed:
    """Jobs by (cluster, job), nodes, dead letters, and the traffic of each topic."""

    jobs: dict[tuple[str, str], JobBuffer] = field(default_factory=dict)
    machines: Machines = field(default_factory=Machines)
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
    energy: EnergyBook = field(default_factory=EnergyBook)
    tariff: Tariff = field(default_factory=Tariff)

    def update(self, short: str, event: Any, at_s: float) -> None:
        """Take ``event`` of topic ``short``, written at ``at_s`` by the broker's or producer's clock.

        Raises:
            ValueError, OverflowError: the event decodes but cannot be used; nothing else is harmed.
        """
        traffic = self.traffic[short]
        if traffic.last_s is None or at_s - traffic.last_s > PAUSE_S:
            traffic.began_s = at_s
        traffic.last_s = at_s if traffic.last_s is None else max(at_s, traffic.last_s)
        if isinstance(event, events.Produced) and not traffic.sequences.admit(event.producer, event.sequence):
            return
        traffic.messages += 1
        self._account(event, at_s)
        self.energy.update(event)
        match event:
            case events.Finding() if is_of_nodes(event):
                self.node_findings.upsert(event, at_s)
            case (
                events.StepTimings()
                | events.JobDescribed()
                | events.JobWindow()
                | events.Finding()
                | events.BalanceObserved()
                | events.BalancePlan()
            ):
                self._job(event, at_s)
            case events.DeviceSamples():
                self.machines.sample_devices(event, at_s)
            case events.HostSamples():
                self.machines.sample_host(event, at_s)
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

    def lines(self, now_s: float) -> list[JobLine]:
        """Every job: first those that report, then the silent, then the ended ones, the newest first in each."""
        of_nodes: dict[tuple[str, str], list[events.Finding]] = {}
        for *_, newest in self.node_findings.episodes():
            of_nodes.setdefault((newest.cluster, newest.job), []).append(newest)
        lines = [line_of(buffer, of_nodes.get(key, [])) for key, buffer in self.jobs.items()]
        return sorted(lines, key=lambda line: (*running_first(line, now_s), -(line.first_s or 0.0), line.name))

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
        account = self.energy.of(cluster, job)
        energy = None if account is None else energy_view(account, self.tariff)
        return replace(seen, episodes=ordered([*seen.episodes, *of_nodes]), energy=energy)

    def topics(self) -> list[TopicLine]:
        """The traffic of each topic the page reads, in the table's order; of some only where there is any."""
        return [
            TopicLine(
                short, t.messages, t.last_s, t.lag, t.unusable, t.skipped, t.reason, t.sequences.missing, t.began_s
            )
            for short, t in self.traffic.items()
            if short not in UNREAD and (short not in SELDOM or t.last_s is not None or t.unusable)
        ]

    def rank(self, cluster: str, job: str, rank: int) -> RankView | None:
        """One rank of a job beside its cohort; None where the job has no such rank."""
        buffer = self.jobs.get((cluster, job))
        return None if buffer is None else rank_view(buffer, self.machines, rank)

    def _account(self, event: Any, at_s: float) -> None:
        """Keep what a sender says of itself; what its spool held back is older than what is known."""
        match event:
            case events.HostSamples(node=node, account=events.DeliveryAccount() as account):
                line = SenderLine("collector", node, "", at_s, account)
            case events.StepTimings(node=node, job=job, account=events.DeliveryAccount() as account):
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
        buffer = self._buffer(event)
        if buffer is None:
            return
        buffer.heard(at_s)
        cells = buffer.cells
        match event:
            case events.StepTimings():
                buffer.put(event)
            case events.JobDescribed():
                buffer.describe(event)
            case events.JobWindow():
                buffer.window(event)
            case events.Finding():
                buffer.findings.upsert(event, at_s)
            case events.BalanceObserved():
                buffer.balance.observe(event)
            case events.BalancePlan():
                buffer.balance.plan(event)
        if buffer.cells != cells:
            self._make_room(buffer)

    def _make_room(self, newest: JobBuffer) -> None:
        """Let the jobs that were heard longest ago keep fewer steps while all take more room than there is."""
        total = sum(buffer.cells for buffer in self.jobs.values())
        for buffer in sorted(self.jobs.values(), key=lambda held: (held is newest, held.last_s or 0.0)):
            while total > CELLS and (gained := buffer.shrink()):
                total -= gained

    def _buffer(self, event: Any) -> JobBuffer | None:
        """The job's buffer, fresh for a later attempt or another run that began after its end; None for an earlier."""
        cluster, job, attempt = event.cluster, event.job, event.attempt
        held = self.jobs.get((cluster, job))
        if held and attempt < held.attempt:
            return None
        again = isinstance(event, events.JobDescribed) and held is not None and held.life.succeeded_by(event)
        if held and attempt == held.attempt and not again:
            return held
        earlier = held.findings.before(event.started_s) if held and again else ()
        self.jobs[cluster, job] = JobBuffer(cluster, job, attempt, earlier)
        if len(self.jobs) > JOBS:
            others = [key for key in self.jobs if key != (cluster, job)]
            del self.jobs[min(others, key=lambda key: self.jobs[key].last_s or 0.0)]
        return self.jobs[cluster, job]
