"""The advice of one cluster: from findings, windows, profiles and forecasts to suggestions, and what came of them.

Rule of this file: pure and bounded; it hands each event to those who know what follows from it. Findings, windows and
descriptions of one subject come in their order, and between subjects in any order. A finding knows no time: it has that
of the cluster, as windows and descriptions tell it (``clock``), and one that comes before them waits for the first.
"""

from collections.abc import Callable
from typing import Any, Self

from paceline.events import (
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

from ..snapshots import described, pack, unpack
from .clock import ClusterClock
from .config import AdviceConfig
from .finding_book import FindingBook
from .finding_rules import propose, repeated
from .follow_up import FollowUp
from .job_facts import PACE_S, Jobs
from .ledger import Ledger
from .lifecycle import Signal

#: The target of commands about suggestions begins so.
TARGET = "suggestion:"
_SIGNALS: dict[str, Signal] = {"accept": "accept", "dismiss": "dismiss"}
MOST_WAITING = 1000
_LAYOUT = 1


class Advice:
    """The suggestions of one cluster.

    Args:
        config: its thresholds; a restored one takes those of who restores it.
    """

    def __init__(self, config: AdviceConfig | None = None) -> None:
        self.config = config or AdviceConfig()
        self.clock = ClusterClock()
        self.jobs = Jobs()
        self.book = FindingBook()
        self.ledger = Ledger(self.config, self.clock)
        self.follow_up = FollowUp(self.ledger, self.jobs, self.config)
        #: Findings that came before anybody told a time.
        self.waiting: list[Finding] = []
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
        return [one for finding in waiting for one in self._judge(finding)]

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
        if event.state == "recovered":
            return self.ledger.retract(event.id)
        if event.state != "confirmed":
            return []
        said: list[Suggestion] = []
        proposal = propose(event, self.jobs, self.config)
        if proposal is not None:
            said += self.ledger.propose(proposal)
        slow = self.book.slow_on(event)
        if slow is not None and len(slow[1]) >= self.config.repeated_jobs:
            said += self.ledger.propose(repeated(*slow, self.jobs, self.config))
        return said

    def _job_window(self, event: JobWindow) -> list[Suggestion]:
        self.clock.hear(f"job {event.job}", event.start_s + event.length_s)
        if event.length_s != PACE_S:
            return []
        facts = self.jobs.window(event)
        return [] if facts is None else self.follow_up.pace(event.job, facts, event.step_median_s)

    def _device_window(self, event: DeviceWindow) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.start_s + event.length_s)
        return []

    def _host_window(self, event: HostWindow) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.start_s + event.length_s)
        return []

    def _described(self, event: JobDescribed) -> list[Suggestion]:
        self.clock.hear(f"job {event.job}", event.started_s if event.ended_s is None else event.ended_s)
        self.jobs.describe(event)
        return self.follow_up.described(event.job)

    def _profile(self, event: JobProfile) -> list[Suggestion]:
        self.clock.hear("profiles", event.time_s)
        self.jobs.profile(event)
        return []

    def _node(self, event: NodeDescribed) -> list[Suggestion]:
        self.clock.hear(f"node {event.node}", event.time_s)
        return []

    def _forecast(self, event: Forecast) -> list[Suggestion]:
        self.clock.hear("forecasts", event.time_s)
        return []

    def _command(self, event: Command) -> list[Suggestion]:
        signal = _SIGNALS.get(event.action)
        if signal is None or not event.target.startswith(TARGET):
            return []
        because = event.arguments.get("because")
        return self.ledger.decide(
            event.target.removeprefix(TARGET), signal, event.issuer, because[:256] if isinstance(because, str) else ""
        )

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        state = {
            "clock": self.clock.snapshot(),
            "jobs": self.jobs.snapshot(),
            "book": self.book.snapshot(),
            "ledger": self.ledger.snapshot(),
        }
        return pack(_LAYOUT, state)

    @classmethod
    def restore(cls, data: bytes, config: AdviceConfig | None = None) -> Self:
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(_LAYOUT, data)
        made = cls(config)
        with described():
            made.clock.load(state["clock"])
            made.jobs.load(state["jobs"])
            made.book.load(state["book"])
            made.ledger.load(state["ledger"])
        return made
