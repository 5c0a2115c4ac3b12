"""What a whole recording amounts to, job by job: steps, where each rank's time went, and the last word on each finding.

Rule of this file: pure and bounded. Totals only; the panel and other readers choose what to say of them.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from paceline.events import (
    WARM_UP_STEPS,
    CollectiveCalls,
    Event,
    Finding,
    JobDescribed,
    ProbeCost,
    StepTimings,
)
from paceline.events.findings import is_of_nodes
from paceline.settings import MOST_RANKS

from ..ingest.collective_batch import CollectiveMessage, collective_batch
from ..ingest.coverage import CoverageTracker, sampled
from ..ingest.roster import Roster
from ..ingest.speakers import SpeakersHeard
from ..ingest.step_rows import step_rows
from ..raw_columns import Floats, Ints
from ..robust import known_or_zero
from ..windows.aggregate import COLUMNS

MOST_JOBS = 1000
#: Step durations are counted in bins of 1 %, from a microsecond to some months: a median of any length in fixed space.
_BIN = np.log(1.01)
_BINS = 3000
_STEP = len(COLUMNS)
_COUNTED = (StepTimings, CollectiveCalls, JobDescribed, Finding)
_EVERY = MOST_RANKS.default

#: Runs of one name that overlap for less may be one after the other, by clocks that differ.
_LEAST_BOTH_S = 10.0


@dataclass
class JobSummary:
    """One attempt of one job. ``phase_s`` is seconds by rank and phase, ``step_s`` in whole steps by rank.

    Both leave out the warm-up, as the verdicts do; ``timed_steps`` counts the steps they hold, ``rank_steps`` all
    that were reported, and ``left_out`` those that were not, on purpose.
    ``probe_costs`` are by node.
    """

    cluster: str
    job: str
    attempt: int
    nodes: dict[int, str] = field(default_factory=dict)
    phase_s: dict[int, dict[str, float]] = field(default_factory=dict)
    step_s: dict[int, float] = field(default_factory=dict)
    timed_steps: dict[int, int] = field(default_factory=dict)
    rank_steps: dict[int, int] = field(default_factory=dict)
    left_out: dict[int, int] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    #: When its first and its last message of steps began.
    told_s: tuple[float, float] | None = None
    collectives: int = 0
    wait_s: dict[int, float] = field(default_factory=dict)
    world_size: int | None = None
    exit_status: int | None = None
    #: Whether a sidecar described it: a probe in its ranks sees every collective of torch.distributed, a trace may not.
    probed: bool = False
    probe_costs: dict[str, ProbeCost] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    roster: Roster = field(default_factory=Roster)
    _speakers: SpeakersHeard = field(default_factory=SpeakersHeard)
    _durations: np.ndarray[tuple[int], np.dtype[np.int64]] = field(
        default_factory=lambda: np.zeros(_BINS, dtype=np.int64)
    )

    @property
    def steps(self) -> int:
        """Steps that the rank with the most of them finished."""
        return max((told + self._left_out(rank) for rank, told in self.rank_steps.items()), default=0)

    @property
    def sampled(self) -> str | None:
        """How many of its steps the rank with the fewest told, where any were left out on purpose."""
        rank = max(self.left_out, key=self._left_out, default=None)
        left_out = 0 if rank is None else self._left_out(rank)
        return None if rank is None or not left_out else sampled(self.rank_steps[rank], left_out)

    def _left_out(self, rank: int) -> int:
        """Steps that ``rank`` left out; of those after the last that anybody told, none is known to have been."""
        span = 1 + (self.last_step or 0) - (self.first_step or 0)
        return max(min(self.left_out.get(rank, 0), span - self.rank_steps.get(rank, 0)), 0)

    @property
    def median_step_s(self) -> float | None:
        """The median step over all ranks, to half a percent; None before the first."""
        total = int(self._durations.sum())
        if not total:
            return None
        at = int(np.searchsorted(np.cumsum(self._durations), (total + 1) // 2))
        return float(1e-6 * np.exp((at + 0.5) * _BIN))

    def runs_beside(self, other: "JobSummary") -> bool:
        """Whether both are runs of one name at the same time: the same ranks, for half of the shorter at least."""
        if other.attempt == self.attempt or (other.cluster, other.job) != (self.cluster, self.job):
            return False
        if self.told_s is None or other.told_s is None or self.nodes.keys().isdisjoint(other.nodes):
            return False
        both_s = min(self.told_s[1], other.told_s[1]) - max(self.told_s[0], other.told_s[0])
        shorter_s = min(last - first for first, last in (self.told_s, other.told_s))
        return both_s >= max(_LEAST_BOTH_S, shorter_s / 2)

    def add_timings(self, message: CollectiveMessage) -> None:
        """Count one message of phases, of collectives or of both in."""
        if isinstance(message, StepTimings):
            self.add_steps(message)
        self.add_collectives(message)

    def add_steps(self, message: StepTimings) -> None:
        """Count one message of phases in."""
        if not self.roster.admit(message.producer, message.sequence):
            return
        first_s, last_s = self.told_s or (message.t0_s, message.t0_s)
        self.told_s = min(first_s, message.t0_s), max(last_s, message.t0_s)
        who = self._speakers.hear(message, _EVERY)[1]
        self.roster.hear(who.ranks, who.world_sizes)
        rows = step_rows([message])
        members = np.unique(np.array(who.ranks, dtype=np.int64))
        at = np.searchsorted(members, rows.rank)
        good = (at < members.size) & (rows.step >= 0)
        good &= members[np.minimum(at, members.size - 1)] == rows.rank if members.size else False
        at, step, seconds, left = at[good], rows.step[good], rows.seconds[:, good], rows.left_out[good]
        seconds = np.where(seconds >= 0, seconds, np.nan)
        whole = ~np.isnan(seconds[_STEP])
        steps = np.bincount(at[whole], minlength=members.size).tolist()
        left_out = np.bincount(at[whole], weights=left[whole], minlength=members.size).tolist()
        warm = step >= WARM_UP_STEPS
        totals, seen = _by_member(at[warm], seconds[:, warm], members.size)
        for index, one in enumerate(members.tolist()):
            self.nodes[one] = message.node
            self.rank_steps[one] = self.rank_steps.get(one, 0) + steps[index]
            if left_out[index]:
                self.left_out[one] = self.left_out.get(one, 0) + int(left_out[index])
            phases = self.phase_s.setdefault(one, {})
            for name, spent_s, count in zip(COLUMNS, totals[index], seen[index], strict=False):
                if count:
                    phases[name] = phases.get(name, 0.0) + spent_s
            if seen[index][_STEP]:
                self.step_s[one] = self.step_s.get(one, 0.0) + totals[index][_STEP]
                self.timed_steps[one] = self.timed_steps.get(one, 0) + seen[index][_STEP]
        if whole.any():
            self._see_steps(int(step[whole].min()), int(step[whole].max()))
            bins = np.log(np.maximum(seconds[_STEP][whole], 1e-6) / 1e-6) / _BIN
            self._durations += np.bincount(np.minimum(bins, _BINS - 1).astype(np.int64), minlength=_BINS)

    def add_collectives(self, message: CollectiveMessage) -> None:
        """Count one message of collectives in; those that are reported twice once."""
        if isinstance(message, CollectiveCalls) and message.summed:
            return
        for rank in self._speakers.hear(message, _EVERY)[1].ranks:
            self.nodes.setdefault(rank, message.node)
        batch = collective_batch([message], CoverageTracker())
        self.collectives += int(batch.calls.rank.size + batch.sums.calls.sum())
        for rank, waited_s in zip(batch.spans.ranks.tolist(), batch.spans.waited_s.tolist(), strict=True):
            self.wait_s[rank] = self.wait_s.get(rank, 0.0) + waited_s
        steps = np.concatenate([batch.calls.step, batch.sums.step])
        if (steps >= 0).any():
            self._see_steps(int(steps[steps >= 0].min()), int(steps.max()))

    def _see_steps(self, low: int, high: int) -> None:
        self.first_step = low if self.first_step is None else min(low, self.first_step)
        self.last_step = high if self.last_step is None else max(high, self.last_step)

    def add_description(self, event: JobDescribed) -> None:
        """Take in what a node says of the job."""
        self.probed = True
        self.world_size = event.world_size
        self.exit_status = event.exit_status if event.exit_status is not None else self.exit_status
        if event.probe_cost is not None:
            self.probe_costs[event.node] = event.probe_cost

    def add_finding(self, finding: Finding) -> None:
        """Keep the latest revision of each finding."""
        before = self.findings.get(finding.id)
        if before is None or before.revision <= finding.revision:
            self.findings[finding.id] = finding


def _by_member(at: Ints, seconds: Floats, members: int) -> tuple[list[list[float]], list[list[int]]]:
    """For each member the sum over its rows of each op, and how many rows tell of it."""
    totals, seen = np.zeros((members, len(seconds))), np.zeros((members, len(seconds)), dtype=np.int64)
    np.add.at(totals, at, known_or_zero(seconds).T)
    np.add.at(seen, at, ~np.isnan(seconds).T)
    return totals.tolist(), seen.tolist()


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
        if not isinstance(event, _COUNTED):
            return
        self.events += 1
        if isinstance(event, Finding) and is_of_nodes(event):
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
        elif self.totals:
            job.add_timings(event)
