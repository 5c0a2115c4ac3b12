"""The advice of one cluster: from findings, windows, profiles and forecasts to suggestions, and what came of them.

Rule of this file: pure and bounded; it hands each event to those who know what follows from it. Findings, windows and
descriptions of one subject come in their order, and between subjects in any order. A finding knows no time: it has that
of the cluster, as windows and descriptions tell it (``clock``), and one that comes before them waits for the first.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from paceline.events import (
    MEDIUM_WINDOW_S,
    SUGGESTION_TARGET,
    Command,
    DeviceWindow,
    Event,
    Finding,
    Forecast,
    HostWindow,
    JobDescribed,
    JobProfile,
    JobWindow,
    NodeDescribed,
)
from paceline.events.suggestions import Suggestion

from ..stored import Kept, StoredDecision
from . import forecast_rules, use_rules
from .clock import ClusterClock
from .config import AdviceConfig
from .finding_book import FindingBook
from .finding_rules import propose, repeated, replaces
from .follow_up import WHILE_IT_RUNS, FollowUp
from .gpu_use import GpuUse
from .job_facts import Jobs
from .ledger import Ledger
from .lifecycle import Signal
from .proposal import Case
from .use_rules import USE_RULES

_SIGNALS: dict[str, Signal] = {"accept": "accept", "dismiss": "dismiss"}
MOST_WAITING = 1000


class Advice(StoredDecision):
    """The suggestions of one cluster.

    Args:
        config: its thresholds; a restored one takes those of who restores it.
    """

    clock: Kept[ClusterClock]
    jobs: Kept[Jobs]
    book: Kept[FindingBook]
    ledger: Kept[Ledger]
    use: Kept[GpuUse]
    follow_up: Kept[FollowUp]
    waiting: Kept[list[Finding]]

    def __init__(self, config: AdviceConfig | None = None) -> None:
        self.config = config or AdviceConfig()
        self.clock = ClusterClock()
        self.jobs = Jobs()
        self.book = FindingBook()
        self.ledger = Ledger(self.config, self.clock)
        self.use = GpuUse()
        self.follow_up = FollowUp(self.ledger, self.jobs, self.use, self.config)
        #: Findings that came before anybody told a time.
        self.waiting = []
        self._on: dict[type, Callable[[Any], list[Suggestion]]] = {
            Finding: self._finding,
            JobWindow: self._job_window,
            DeviceWindow: self._device_window,
            HostWindow: self._host_window,
            JobDescribed: self._described,
            JobProfile: self._profile,
            NodeDescribed: self._node,
            Forecast: self._forecast,
            Command: self._command,
        }

    def update(self, event: Event) -> list[Suggestion]:
        """Take in one event; the suggestions that are new, or have something new to tell."""
        on = self._on.get(type(event))
        if on is None:
            return []
        cluster = getattr(event, "cluster", "")
        if self.ledger.cluster and cluster != self.ledger.cluster:
            return []
        self.ledger.cluster = cluster
        said = on(event)
        if self.waiting and self.clock.heard:
            waiting, self.waiting = self.waiting, []
            said += [one for finding in waiting for one in self._judge(finding)]
        return said + self.follow_up.tick() + self.ledger.expire()

    def conclude(self) -> list[Suggestion]:
        """What is said at the end of all events."""
        waiting, self.waiting = self.waiting, []
        said = [one for finding in waiting for one in self._judge(finding)]
        return said + [one for job in list(self.use.accounts) for one in self._look(job)]

    def _finding(self, event: Finding) -> list[Suggestion]:
        if not self.book.admit(event):
            return []
        if not self.clock.heard:
            self.waiting = [*self.waiting[1 - MOST_WAITING :], event]
            return []
        return self._judge(event)

    def _judge(self, event: Finding) -> list[Suggestion]:
        if event.first_step >= 0 and event.job:
            self.jobs.steps(event.job, event.attempt)
        if event.kind == "balanced_straggler":
            self.book.note_balanced(event)
        if event.state == "recovered" and event.replaced_by:
            self.ledger.replace(event.id, event.replaced_by)
            return []
        if event.state == "recovered":
            return self.ledger.retract(event.id)
        if event.state != "confirmed":
            return []
        said = self.follow_up.balanced(event.job) if event.kind == "balanced_straggler" else []
        proposal = propose(event, self.jobs, self.config)
        too_late = proposal is not None and proposal.ended and proposal.action in WHILE_IT_RUNS
        balanced = self.book.is_balanced(event.job, event.attempt)
        if proposal is not None and not too_late and not (proposal.action == "rebalance" and balanced):
            said += self.ledger.propose(proposal)
        replacing = replaces(event, self.book.faults_of(event), self.jobs, self.config)
        if replacing is not None:
            said += self.ledger.propose(replacing)
        slow = self.book.slow_on(event)
        case = None if slow is None else repeated(*slow, self.jobs, self.config)
        if case is not None:
            said += self.ledger.propose(case)
        return said

    def _job_window(self, event: JobWindow) -> list[Suggestion]:
        self.clock.hear(f"job {event.job}", event.start_s + event.length_s)
        if event.length_s != MEDIUM_WINDOW_S:
            return []
        facts = self.jobs.window(event)
        return [] if facts is None else self.follow_up.pace(event.job, facts, event.step_median_s)

    def _device_window(self, event: DeviceWindow) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.start_s + event.length_s)
        passed_s = self.clock.passed_s
        if isinstance(event.job, msgspec.UnsetType) or not event.job:
            return []
        full = self.use.update(event, event.job, passed_s, self.config.idle_ratio)
        return self._look(event.job) if full and self.use.is_due(event.job, passed_s) else []

    def _look(self, job: str) -> list[Suggestion]:
        """An hour of ``job`` may be over: what it asks for."""
        hour = self.use.hour(job, self.config.hour_windows, self.clock.passed_s)
        if hour is None:
            return []
        said: list[Suggestion] = []
        for rule in USE_RULES:
            known = Case(rule.action, f"job:{job}") in self.ledger.entries
            proposal = use_rules.propose(rule, job, self.jobs.of(job), hour, self.config, known=known)
            if proposal is not None:
                said += self.ledger.propose(proposal)
            elif known:
                said += self.ledger.retract(use_rules.source_of(rule.action, job))
        return said

    def _host_window(self, event: HostWindow) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.start_s + event.length_s)
        return []

    def _described(self, event: JobDescribed) -> list[Suggestion]:
        self.clock.hear(f"job {event.job}", event.started_s if event.ended_s is None else event.ended_s)
        self.jobs.describe(event)
        said = self.follow_up.described(event.job)
        facts = self.jobs.of(event.job)
        return said + (self.follow_up.end(event.job) if facts.over else [])

    def _profile(self, event: JobProfile) -> list[Suggestion]:
        if event.time_s is not None:
            self.clock.hear("profiles", event.time_s)
        self.jobs.profile(event)
        return []

    def _node(self, event: NodeDescribed) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.time_s)
        return []

    def _forecast(self, event: Forecast) -> list[Suggestion]:
        source = forecast_rules.source(event)
        if source is None:
            return []
        self.clock.hear("forecasts", event.time_s)
        proposal = forecast_rules.propose(event, self.config)
        if proposal is not None:
            return self.ledger.propose(proposal)
        return self.ledger.retract(source) if forecast_rules.outdated(event, self.config) else []

    def _command(self, event: Command) -> list[Suggestion]:
        signal = _SIGNALS.get(event.action)
        if signal is None or not event.target.startswith(SUGGESTION_TARGET):
            return []
        because = event.arguments.get("because")
        asked = event.target.removeprefix(SUGGESTION_TARGET)
        said = self.ledger.decide(asked, signal, event.issuer, because[:256] if isinstance(because, str) else "")
        if said and signal == "accept":
            self.follow_up.accept(asked)
        return said
