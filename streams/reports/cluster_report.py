"""A cluster over days: device-hours used, idle and lost by cause, its worst nodes, the trend, and what is to come.

Rule of this file: pure and bounded; the same derived events as a job's report, without its ranks. Windows from before
``from_s`` are left out, and so is what findings of jobs cost in steps before it, whenever they were published; a
finding counts on the day on which it began, or on the first.
"""

from collections import Counter, OrderedDict

import msgspec

from paceline.events import DeviceWindow, Event, Finding, Forecast, JobDescribed, JobWindow
from paceline.events.findings import is_of_nodes
from paceline.lost_time import COUNTED

from .cluster_use import DAY_S, ClusterUse, Sums, Use
from .forecast_scores import ForecastScores
from .job_book import MOST_FINDINGS, JobBook, left_out_of
from .lost_time import counted_hours
from .report import ForecastScore, JobReport, LostTime, NextForecast

MOST_JOBS, MOST_NODE_FINDINGS = 20_000, 20_000


class Day(msgspec.Struct, frozen=True):
    """One day (UTC) that begins at ``start_s``."""

    start_s: float
    use: Use
    lost_hours: float


class NodeLine(msgspec.Struct, frozen=True):
    """A node: device-hours, those that jobs lost to it, and how many findings name it. Of a node none of whose devices
    was sampled it is not known for how long they were throttled."""

    node: str
    use: Use
    lost_hours: float
    throttled_hours: float | None
    findings: int
    kinds: list[str]
    cluster: str = ""


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything told of a cluster."""

    cluster: str
    from_s: float | None
    to_s: float | None
    devices: int
    use: Use
    lost: list[LostTime]
    days: list[Day]
    nodes: list[NodeLine]
    jobs: list[JobReport]
    scores: list[ForecastScore]
    next: list[NextForecast]
    #: Hours of windows of minutes that an archive joined without a word of how many were used.
    joined_hours: float = 0.0
    left_out: dict[str, int] = {}
    notes: list[str] = []

    @property
    def lost_hours(self) -> float:
        """Device-hours lost to all causes."""
        return sum(one.device_hours for one in self.lost)


class ClusterBuilder:
    """What was heard of ``cluster`` so far; None: of all."""

    def __init__(self, cluster: str | None = None, from_s: float | None = None) -> None:
        self.cluster = cluster
        self.from_s = from_s
        self.use = ClusterUse()
        self.jobs: OrderedDict[tuple[str, str, int], JobBook] = OrderedDict()
        #: Findings from before ``from_s`` of jobs of which no window has come since, the newest heard.
        self.earlier: OrderedDict[tuple[str, str, int], dict[str, Finding]] = OrderedDict()
        #: What nodes said of jobs that began before ``from_s``, and of which nothing has come since, the newest last.
        self.described: OrderedDict[tuple[str, str, int], dict[str, JobDescribed]] = OrderedDict()
        self.node_findings: dict[str, tuple[Finding, float]] = {}
        self.scores = ForecastScores()
        self.span = (float("inf"), float("-inf"))
        self.left_out: Counter[str] = Counter()

    def update(self, event: Event, time_s: float) -> None:
        """Take in one event that came at ``time_s``; windows have a time of their own."""
        if self.cluster is not None and getattr(event, "cluster", None) != self.cluster:
            return
        match event:
            case DeviceWindow() | JobWindow():
                if self._is_in(event.start_s):
                    self.span = min(self.span[0], event.start_s), max(self.span[1], event.start_s + event.length_s)
                    self._count(event)
            case Forecast():
                self.scores.update(event)
            case JobDescribed() if event.ended_s is None and not self._is_in(event.started_s):
                self._describe_earlier(event)
            case JobDescribed() if event.ended_s is None or self._is_in(event.ended_s):
                self._of_job(event)
            case Finding() if self._is_in(time_s):
                self._find(event, time_s)
            case Finding() if event.first_step >= 0 and not is_of_nodes(event):
                self._find_earlier(event)

    def _is_in(self, time_s: float) -> bool:
        return self.from_s is None or time_s >= self.from_s

    def _count(self, window: DeviceWindow | JobWindow) -> None:
        if isinstance(window, DeviceWindow):
            self.use.update(window)
        else:
            self._of_job(window)

    def _find(self, finding: Finding, time_s: float) -> None:
        if not is_of_nodes(finding):
            self._of_job(finding)
            return
        first_s = self.node_findings[finding.id][1] if finding.id in self.node_findings else time_s
        if finding.id in self.node_findings or len(self.node_findings) < MOST_NODE_FINDINGS:
            self.node_findings[finding.id] = (finding, first_s)
        else:
            self.left_out["findings of nodes"] += 1

    def _find_earlier(self, finding: Finding) -> None:
        key = (finding.cluster, finding.job, finding.attempt)
        if key in self.jobs and self.jobs[key].levels:
            self.jobs[key].update(finding)
            return
        held = self.earlier.pop(key, {})
        before = held.get(finding.id)
        if len(held) < MOST_FINDINGS if before is None else before.revision <= finding.revision:
            held[finding.id] = finding
        self.earlier[key] = held
        if len(self.earlier) > MOST_JOBS:
            self.earlier.popitem(last=False)

    def _describe_earlier(self, event: JobDescribed) -> None:
        """What is said of a job that began before the period: it may have ended long ago without a word."""
        key = (event.cluster, event.job, event.attempt)
        if key in self.jobs:
            self.jobs[key].update(event)
            return
        held = self.described.pop(key, {})
        held[event.teller] = event
        self.described[key] = held
        if len(self.described) > MOST_JOBS:
            self.described.popitem(last=False)

    def _of_job(self, event: JobDescribed | JobWindow | Finding) -> None:
        key = (event.cluster, event.job, event.attempt)
        book = self.jobs.get(key)
        if book is None:
            if len(self.jobs) >= MOST_JOBS:
                self.left_out["events of further jobs"] += 1
                return
            book = self.jobs[key] = JobBook(*key)
            for described in self.described.pop(key, {}).values():
                book.update(described)
        book.update(event)
        if isinstance(event, JobWindow):
            for finding in self.earlier.pop(key, {}).values():
                book.update(finding)

    def report(self, notes: list[str] | None = None) -> ClusterReport:
        """What it all amounts to."""
        periods = [(book, self._period(book)) for book in self.jobs.values()]
        jobs = sorted((book.report(within) for book, within in periods), key=_order)
        jobs = [report for report in jobs if report.steps or report.episodes]
        hours = {
            key: value
            for book, within in periods
            for key, value in counted_hours(book.findings.values(), within).items()
        }
        use = self.use.sums()
        known = self.span[0] <= self.span[1]
        return ClusterReport(
            cluster=self.cluster or "",
            from_s=self.span[0] if known else None,
            to_s=self.span[1] if known else None,
            devices=self.use.devices,
            use=use.total,
            lost=self._lost(jobs),
            days=self._days(jobs, hours, use),
            nodes=self._nodes(jobs, hours, use),
            jobs=jobs,
            scores=self.scores.scores(),
            next=self.scores.next(),
            joined_hours=use.joined,
            left_out=dict(self.left_out + Counter(use.left_out) + left_out_of(self.jobs.values())),
            notes=list(notes or ()),
        )

    def _period(self, book: JobBook) -> range | None:
        """The steps of a job in the period; None: all of them, or none was reported."""
        told = book.told_steps
        if self.from_s is None or told is None:
            return None
        started_s = min((one.started_s for one in book.described.values()), default=0.0)
        return range(0 if started_s >= self.from_s else told.start, told.stop)

    def _lost(self, jobs: list[JobReport]) -> list[LostTime]:
        causes: dict[str, LostTime] = {}
        for one in (lost for job in jobs for lost in job.lost):
            before = causes.get(one.cause, LostTime(one.cause, (), 0, 0.0, 0.0))
            causes[one.cause] = LostTime(
                one.cause,
                tuple(sorted({*before.kinds, *one.kinds})),
                before.episodes + one.episodes,
                before.lost_s + one.lost_s,
                before.device_hours + one.device_hours,
            )
        return sorted(causes.values(), key=lambda one: (-one.device_hours, one.cause))

    def _days(self, jobs: list[JobReport], hours: dict[str, float], use: Sums) -> list[Day]:
        lost: dict[int, float] = {}
        for episode in (one for job in jobs for one in job.episodes):
            if episode.from_s is not None and episode.finding.id in hours:
                day = int(episode.from_s // DAY_S)
                lost[day] = lost.get(day, 0.0) + hours[episode.finding.id]
        used = use.days
        days = sorted(used.keys() | lost.keys())
        return [Day(day * DAY_S, used.get(day, Use()), lost.get(day, 0.0)) for day in days]

    def _nodes(self, jobs: list[JobReport], hours: dict[str, float], use: Sums) -> list[NodeLine]:
        """Nodes that were named or throttled, the most expensive first."""
        lost: dict[tuple[str, str], float] = {}
        kinds: dict[tuple[str, str], list[str]] = {}
        accusing = [one.finding for job in jobs for one in job.episodes if one.finding.ranks]
        for finding in accusing + [one for one, _ in self.node_findings.values()]:
            if finding.state not in COUNTED:
                continue
            for node in ((finding.cluster, name) for name in finding.nodes):
                cost = hours.get(finding.id, finding.cost.gpu_hours if finding.first_step < 0 else 0.0)
                lost[node] = lost.get(node, 0.0) + cost / len(finding.nodes)
                kinds.setdefault(node, []).append(finding.kind)
        used, throttled = use.nodes, use.throttled
        names = kinds.keys() | {node for node, spent in throttled.items() if spent > 0}
        lines = [
            NodeLine(
                node[1],
                used.get(node, Use()),
                lost.get(node, 0.0),
                throttled.get(node, 0.0) if node in used else None,
                len(kinds.get(node, ())),
                sorted(set(kinds.get(node, ()))),
                node[0],
            )
            for node in names
        ]
        return sorted(
            lines,
            key=lambda one: (-one.lost_hours, -one.findings, -(one.throttled_hours or 0.0), one.node, one.cluster),
        )


def _order(job: JobReport) -> tuple[float, float, str]:
    return -sum(one.device_hours for one in job.lost), -job.elapsed_s, job.job
