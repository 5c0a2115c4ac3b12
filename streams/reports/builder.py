"""From events to a report: told what happened, in order, it says what that amounts to.

Rule of this file: pure and bounded; it judges nothing, and derives nothing but sums. It takes derived events (windows,
findings, suggestions, forecasts, profiles) and what describes jobs and nodes, wherever they come from; nothing else.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable

from paceline.energy.energy_book import EnergyBook
from paceline.events import (
    LONG_WINDOW_S,
    MEDIUM_WINDOW_S,
    BalancePlan,
    DeviceWindow,
    Event,
    Finding,
    Forecast,
    HostWindow,
    JobDescribed,
    JobProfile,
    JobWindow,
    NodeDescribed,
    RankWindow,
    Suggestion,
)
from paceline.events.findings import is_of_nodes

from .forecast_scores import ForecastScores
from .job_book import JobBook, episodes, left_out_of
from .machine_book import MachineBook
from .report import JobAccount, JobReport, Report

MOST_JOBS = 1000
#: Jobs that are told of at length, those that lost most first.
MOST_TOLD = 24
MOST_NODES = 20_000
MOST_NODE_FINDINGS = 2000
MOST_SUGGESTIONS = 2000
_OF_A_JOB = (JobDescribed, JobProfile, BalancePlan, JobWindow, RankWindow)


class ReportBuilder:
    """What was received so far; with ``job`` of that job and of machines alone."""

    def __init__(self, title: str, job: str | None = None) -> None:
        self.title = title
        self.job = job
        self.jobs: OrderedDict[tuple[str, str, int], JobBook] = OrderedDict()
        self.machines = MachineBook()
        self.scores = ForecastScores()
        self.node_findings: dict[str, Finding] = {}
        self.suggestions: dict[str, Suggestion] = {}
        #: By cluster and node.
        self.nodes: dict[tuple[str, str], NodeDescribed] = {}
        self.left_out: dict[str, int] = {}
        #: Recordings have windows of both lengths, archives those of a minute and, later, of five.
        self.energy = [EnergyBook(MEDIUM_WINDOW_S), EnergyBook(LONG_WINDOW_S, longer=True)]

    def update(self, event: Event) -> None:
        """Take in one event."""
        self._count_energy(event)
        match event:
            case DeviceWindow() | HostWindow():
                self.machines.update(event)
            case Forecast():
                if self.job is None or event.job in (self.job, None):
                    self.scores.update(event)
            case Suggestion():
                self._suggest(event)
            case NodeDescribed():
                key = event.cluster, event.node
                if key in self.nodes or len(self.nodes) < MOST_NODES:
                    self.nodes[key] = event
            case Finding() if is_of_nodes(event):
                self._node_finding(event)
            case Finding():
                self._of_job(event)
            case _ if isinstance(event, _OF_A_JOB):
                self._of_job(event)

    def _of_job(self, event: JobDescribed | JobProfile | BalancePlan | JobWindow | RankWindow | Finding) -> None:
        if self.job is not None and event.job != self.job:
            return
        key = (event.cluster, event.job, event.attempt)
        book = self.jobs.get(key)
        if book is None:
            if len(self.jobs) >= MOST_JOBS:
                self.left_out["jobs"] = self.left_out.get("jobs", 0) + 1
                return
            book = self.jobs[key] = JobBook(*key)
        book.update(event)

    def _suggest(self, event: Suggestion) -> None:
        if self.job is not None and event.job not in (self.job, ""):
            return
        before = self.suggestions.get(event.id)
        if before is None and len(self.suggestions) >= MOST_SUGGESTIONS:
            self.left_out["suggestions"] = self.left_out.get("suggestions", 0) + 1
        elif before is None or before.revision <= event.revision:
            self.suggestions[event.id] = event

    def _node_finding(self, event: Finding) -> None:
        before = self.node_findings.get(event.id)
        if before is None and len(self.node_findings) >= MOST_NODE_FINDINGS:
            self.left_out["findings of nodes"] = self.left_out.get("findings of nodes", 0) + 1
        elif before is None or before.revision <= event.revision:
            self.node_findings[event.id] = event

    def report(self, notes: Iterable[str] = ()) -> Report:
        """What it all amounts to; ``notes`` say what the source itself knows to be missing."""
        jobs = sorted((book.report() for book in self.jobs.values()), key=_order)
        nodes = {(one.cluster, node) for one in jobs for node in one.nodes} if self.job is not None else None
        left_out = Counter(self.left_out) + left_out_of(self.jobs.values()) + Counter(self.machines.left_out)
        if len(jobs) > MOST_TOLD:
            left_out["jobs shown in one line"] = len(jobs) - MOST_TOLD
        findings = [
            one
            for one in self.node_findings.values()
            if nodes is None or not nodes.isdisjoint((one.cluster, node) for node in one.nodes)
        ]
        return Report(
            title=self.title,
            jobs=jobs,
            devices=self.machines.devices(nodes),
            hosts=self.machines.hosts(nodes),
            nodes_described=sorted(
                (one for key, one in self.nodes.items() if nodes is None or key in nodes),
                key=lambda one: (one.node, one.cluster),
            ),
            node_findings=episodes(findings, None),
            suggestions=sorted(self.suggestions.values(), key=lambda one: (one.created_s, one.id)),
            forecasts=self.scores.scores(),
            energies=self._energies(),
            left_out=dict(left_out),
            notes=list(notes),
        )

    def _count_energy(self, event: Event) -> None:
        for book in self.energy:
            book.update(event)

    def _energies(self) -> list[JobAccount]:
        """What jobs took, by the shortest windows that tell it."""
        for book in self.energy:
            book.finish()
            told = [
                JobAccount(job, account)
                for (_, job), account in book.jobs.items()
                if account.total_j is not None and self.job in (job, None)
            ]
            if told:
                return sorted(told, key=lambda one: (-(one.energy.total_j or 0.0), one.job))
        return []


def _order(job: JobReport) -> tuple[float, float, str, int]:
    """Those that lost most first, then those that ran longest."""
    return -job.lost_s, -job.elapsed_s, job.job, job.attempt
