"""What a whole recording amounts to, job by job: steps, where each rank's time went, and the last word on each finding.

Rule of this file: pure and bounded. Totals only; the panel and other readers choose what to say of them.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from paceline.events import CollectiveTimings, Event, Finding, JobDescribed, OpTimings

from ..coverage import CoverageTracker
from ..jobs.config import JobConfig
from ..row_arrays import op_rows
from ..windows.open_steps import COLUMNS

MOST_JOBS = 1000
#: Step durations are counted in bins of 1 %, from a microsecond to some months: a median of any length in fixed space.
_BIN = np.log(1.01)
_BINS = 3000
_STEP = len(COLUMNS)
_WARM_UP = JobConfig().warmup_steps


@dataclass
class JobSummary:
    """One attempt of one job. ``phase_s`` is seconds by rank and phase, ``step_s`` in whole steps by rank.

    Both leave out the warm-up, as the verdicts do; ``timed_steps`` counts the steps they hold, ``rank_steps`` all.
    """

    cluster: str
    job: str
    attempt: int
    nodes: dict[int, str] = field(default_factory=dict)
    phase_s: dict[int, dict[str, float]] = field(default_factory=dict)
    step_s: dict[int, float] = field(default_factory=dict)
    timed_steps: dict[int, int] = field(default_factory=dict)
    rank_steps: dict[int, int] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    collectives: int = 0
    wait_s: dict[int, float] = field(default_factory=dict)
    world_size: int | None = None
    exit_status: int | None = None
    findings: dict[str, Finding] = field(default_factory=dict)
    coverage: CoverageTracker = field(default_factory=CoverageTracker)
    _durations: np.ndarray[tuple[int], np.dtype[np.int64]] = field(
        default_factory=lambda: np.zeros(_BINS, dtype=np.int64)
    )

    @property
    def steps(self) -> int:
        """Steps that the rank with the most of them finished."""
        return max(self.rank_steps.values(), default=0)

    @property
    def median_step_s(self) -> float | None:
        """The median step over all ranks, to half a percent; None before the first."""
        total = int(self._durations.sum())
        if not total:
            return None
        at = int(np.searchsorted(np.cumsum(self._durations), (total + 1) // 2))
        return float(1e-6 * np.exp((at + 0.5) * _BIN))

    def add_ops(self, batch: OpTimings) -> None:
        """Count one batch of phases in."""
        if not self.coverage.admit(batch.producer, batch.sequence):
            return
        self.coverage.hear(batch.ranks, batch.world_sizes)
        rank, step, column, _, _, duration = op_rows([batch])
        good = (step >= 0) & (duration >= 0) & (column >= 0)
        members = np.unique(np.array(batch.ranks, dtype=np.int64))
        at = np.searchsorted(members, rank)
        good &= (at < members.size) & (members[np.minimum(at, members.size - 1)] == rank)
        cell = at * (_STEP + 1) + column
        warm = good & (step >= _WARM_UP)
        steps = np.bincount(at[good & (column == _STEP)], minlength=members.size).tolist()
        shape = (members.size, _STEP + 1)
        totals = np.bincount(cell[warm], duration[warm], minlength=shape[0] * shape[1]).reshape(shape).tolist()
        seen = np.bincount(cell[warm], minlength=shape[0] * shape[1]).reshape(shape).tolist()
        for index, one in enumerate(members.tolist()):
            self.nodes[one] = batch.node
            self.rank_steps[one] = self.rank_steps.get(one, 0) + steps[index]
            phases = self.phase_s.setdefault(one, {})
            for name, seconds, count in zip(COLUMNS, totals[index], seen[index], strict=False):
                if count:
                    phases[name] = phases.get(name, 0.0) + seconds
            if seen[index][_STEP]:
                self.step_s[one] = self.step_s.get(one, 0.0) + totals[index][_STEP]
                self.timed_steps[one] = self.timed_steps.get(one, 0) + seen[index][_STEP]
        whole = good & (column == _STEP)
        if whole.any():
            self._see_steps(int(step[whole].min()), int(step[whole].max()))
            bins = np.log(np.maximum(duration[whole], 1e-6) / 1e-6) / _BIN
            self._durations += np.bincount(np.minimum(bins, _BINS - 1).astype(np.int64), minlength=_BINS)

    def add_collectives(self, batch: CollectiveTimings) -> None:
        """Count one batch of collectives in."""
        self.collectives += len(batch.rank)
        for rank in batch.ranks:
            self.nodes.setdefault(rank, batch.node)
        for rank, wait_s in zip(batch.rank, batch.wait_s, strict=True):
            self.wait_s[rank] = self.wait_s.get(rank, 0.0) + wait_s
        steps = [step for step in batch.step if step >= 0]
        if steps:
            self._see_steps(min(steps), max(steps))

    def _see_steps(self, low: int, high: int) -> None:
        self.first_step = low if self.first_step is None else min(low, self.first_step)
        self.last_step = high if self.last_step is None else max(high, self.last_step)

    def add_description(self, event: JobDescribed) -> None:
        """Take in what a node says of the job."""
        self.world_size = event.world_size
        self.exit_status = event.exit_status if event.exit_status is not None else self.exit_status

    def add_finding(self, finding: Finding) -> None:
        """Keep the latest revision of each finding."""
        before = self.findings.get(finding.id)
        if before is None or before.revision <= finding.revision:
            self.findings[finding.id] = finding


class Summary:
    """Every job of a recording, in order of appearance.

    With ``totals`` off it knows which jobs there are and what was found, not where their time went.
    """

    def __init__(self, totals: bool = True) -> None:
        self.totals = totals
        self.jobs: OrderedDict[tuple[str, str, int], JobSummary] = OrderedDict()
        #: The last word on each finding of a node: it knows no attempt, and may be of no job.
        self.node_findings: dict[str, Finding] = {}
        self.events = 0

    @property
    def found(self) -> bool:
        """Whether anything was found."""
        return bool(self.node_findings) or any(job.findings for job in self.jobs.values())

    def update(self, event: Event) -> None:
        """Take in one event, measured or found."""
        if not isinstance(event, OpTimings | CollectiveTimings | JobDescribed | Finding):
            return
        self.events += 1
        if isinstance(event, Finding) and event.first_step < 0 and event.nodes:
            if event.id in self.node_findings or len(self.node_findings) < MOST_JOBS:
                self.node_findings[event.id] = event
            return
        key = (event.cluster, event.job, event.attempt)
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = JobSummary(*key)
            if len(self.jobs) > MOST_JOBS:
                self.jobs.popitem(last=False)
        if isinstance(event, Finding):
            job.add_finding(event)
        elif isinstance(event, JobDescribed):
            job.add_description(event)
        elif self.totals and isinstance(event, OpTimings):
            job.add_ops(event)
        elif self.totals and isinstance(event, CollectiveTimings):
            job.add_collectives(event)
