"""What ``/metrics`` tells of jobs and clusters: steps, lateness, the worst ranks, findings, cost and suggestions.

Rule of this file: pure and bounded; time is an argument. It receives what the worker says and nothing else, and what it
holds belongs to the key that said it: when that key has ended or has been silent, all of it is gone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from paceline.bus_turns import TURNS, bus_bytes_per_s
from paceline.events import (
    MEDIUM_WINDOW_S,
    OPEN_SUGGESTIONS,
    SHORT_WINDOW_S,
    DeviceWindow,
    Event,
    Finding,
    HostWindow,
    JobDescribed,
    JobWindow,
    RankWindow,
    Suggestion,
)
from paceline.events.silence import SERIES_SILENT_S
from paceline.job_life import JobLife
from paceline.repeats import StepRepeats

from .energy_meters import EnergyMeters
from .episodes.lifecycle import FINAL
from .keyed_state import Key

#: Windows that are counted step by step, and those that gauges show.
COUNTED_S, SHOWN_S = SHORT_WINDOW_S, MEDIUM_WINDOW_S
#: A key that has ended stays for as long as a scrape or two take.
ENDED_S = 60.0
#: How long what a finding has cost is told after it is over.
COST_S = 300.0
#: Jobs at a time (the newest heard), the worst ranks of each, its phases, and findings and suggestions of one key.
MOST_JOBS, MOST_RANKS_TOLD, MOST_PHASES, MOST_FINDINGS, MOST_SUGGESTIONS = 1000, 8, 16, 200, 1000
#: Upper bounds of buckets, in seconds.
STEP_BOUNDS_S = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0, 10.0, 30.0, 100.0, 300.0)
LATE_BOUNDS_S = (0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 300.0)
Labels = tuple[str, ...]


@dataclass
class Buckets:
    """A histogram of ``bounds``: how many values in each bucket, and their sum.

    >>> counted = Buckets((0.1, 1.0))
    >>> counted.add(0.1, 2), counted.add(5.0, 1), counted.counts, counted.total
    (None, None, [2, 0, 1], 5.2)
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        """Nothing is in any bucket yet."""
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float, times: int) -> None:
        """``times`` values of ``value``."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


@dataclass
class Told:
    """A finding as last told: its labels, its cost, and since when it is over."""

    labels: Labels
    kind: str
    lost_s: float
    gpu_s: float
    over_s: float | None = None


@dataclass
class Owner:
    """What one key said: of a job its windows, of any its findings and suggestions."""

    heard_s: float
    ended_s: float | None = None
    life: JobLife | None = None
    #: What was counted, and shown.
    counted: StepRepeats = field(default_factory=StepRepeats)
    shown: StepRepeats = field(default_factory=StepRepeats)
    #: Start of the window of the ranks that are gathered.
    gathered_s: float = float("-inf")
    window: JobWindow | None = None
    steps: Buckets = field(default_factory=lambda: Buckets(STEP_BOUNDS_S))
    late: Buckets = field(default_factory=lambda: Buckets(LATE_BOUNDS_S))
    #: Own time by rank: of the window that is being told, and of the last one that was told whole.
    gathered: dict[int, float] = field(default_factory=dict)
    ranks: dict[int, float] = field(default_factory=dict)
    findings: dict[str, Told] = field(default_factory=dict)
    suggestions: dict[str, tuple[Labels, float]] = field(default_factory=dict)

    def gone(self, now_s: float) -> bool:
        """Whether nothing of it is told any more.

        Another worker may have heard of the end of some nodes, or of the start: who still speaks has not ended.
        """
        return bool(now_s >= self.heard_s + (SERIES_SILENT_S if self.ended_s is None else ENDED_S))


class JobMeters:
    """Hears answers and what is known of jobs; ``values`` has what is told now, by metric."""

    def __init__(self) -> None:
        self._owners: dict[Key, Owner] = {}
        self.energy = EnergyMeters()
        #: Findings told, by kind, cause and state.
        self.told: dict[Labels, int] = defaultdict(int)

    def touch(self, key: Key, now_s: float) -> None:
        """A message of ``key`` has come; where nothing is told of it nothing is kept."""
        owner = self._owners.get(key)
        if owner is not None:
            owner.heard_s = now_s

    def describe(self, event: JobDescribed, now_s: float) -> None:
        """A node has told of its part in a job; the job has ended when all nodes' ranks have left."""
        key = Key("job", event.cluster, event.job, event.attempt)
        owner = self._owner(key, now_s) if event.ended_s is None else self._owners.get(key)
        if owner is None:
            return
        owner.life = owner.life or JobLife(event.attempt)
        owner.life.update(event)
        owner.heard_s = now_s
        owner.ended_s = owner.life.ended_s

    def hear(self, key: Key, answer: Event, now_s: float, wall_s: float) -> None:
        """The state of ``key`` has said ``answer``; ``wall_s`` is Unix time."""
        if isinstance(answer, JobWindow):
            self._window(self._owner(key, now_s), answer)
        elif isinstance(answer, RankWindow) and answer.length_s == SHOWN_S:
            _rank(self._owner(key, now_s), answer)
        elif isinstance(answer, Finding):
            self.told[str(answer.kind), str(answer.cause), str(answer.state)] += 1
            self._finding(self._owner(key, now_s), answer, now_s)
        elif isinstance(answer, Suggestion):
            _suggestion(self._owner(key, now_s), answer, wall_s)
        elif isinstance(answer, DeviceWindow | HostWindow):
            self.energy.hear(answer, now_s)

    def restore(self, key: Key, answers: Iterable[Event], now_s: float, wall_s: float) -> None:
        """The state of ``key`` is back; these ``answers`` were reported before and are open."""
        for answer in answers:
            if isinstance(answer, Finding):
                self._finding(self._owner(key, now_s), answer, now_s)
            elif isinstance(answer, Suggestion):
                _suggestion(self._owner(key, now_s), answer, wall_s)

    def clear(self) -> None:
        """The partitions are somebody else's now; what was counted of all keys together stays."""
        self._owners.clear()
        self.energy.clear()

    def _owner(self, key: Key, now_s: float) -> Owner:
        """What is held of ``key``, now the newest; beyond the bound the one heard first goes."""
        owner = self._owners.pop(key, None) or Owner(now_s)
        owner.heard_s = now_s
        self._owners[key] = owner
        if len(self._owners) > MOST_JOBS:
            del self._owners[next(iter(self._owners))]
        return owner

    @staticmethod
    def _window(owner: Owner, window: JobWindow) -> None:
        order = (window.start_s, window.first_step, window.last_step)
        # After a restart windows come again: those that were counted are not counted twice.
        if window.length_s == COUNTED_S and owner.counted.is_new(*order):
            steps = max(0, window.steps)
            owner.steps.add(max(0.0, window.step_median_s), steps)
            owner.late.add(max(0.0, window.own_worst_s - window.own_median_s), steps)
        if window.length_s == SHOWN_S and owner.shown.is_new(*order):
            owner.window = window
            owner.ranks = owner.gathered if owner.gathered_s == window.start_s else {}

    @staticmethod
    def _finding(owner: Owner, finding: Finding, now_s: float) -> None:
        over = finding.state in FINAL
        node = finding.nodes[0] if len(finding.nodes) == 1 else ""
        words = (finding.job, node, finding.kind, finding.cause, finding.state, finding.severity)
        owner.findings.pop(finding.id, None)
        owner.findings[finding.id] = Told(
            tuple(str(word) for word in words),
            str(finding.kind),
            max(0.0, finding.cost.lost_s),
            max(0.0, finding.cost.gpu_hours * 3600.0),
            now_s if over else None,
        )
        if len(owner.findings) > MOST_FINDINGS:
            del owner.findings[next(iter(owner.findings))]

    def values(self, now_s: float, wall_s: float) -> "JobValues":
        """What is told now; who is gone is forgotten."""
        self._owners = {key: owner for key, owner in self._owners.items() if not owner.gone(now_s)}
        told = JobValues()
        for key, owner in self._owners.items():
            if key.kind == "job":
                told.add_job(key.name, owner)
            owner.findings = {
                id_: one for id_, one in owner.findings.items() if one.over_s is None or now_s < one.over_s + COST_S
            }
            told.add_findings(key.name if key.kind == "job" else "", owner)
            owner.suggestions = {id_: one for id_, one in owner.suggestions.items() if wall_s < one[1]}
            for labels, _ in owner.suggestions.values():
                told.suggestions[labels] = told.suggestions.get(labels, 0) + 1
        told.energy_j = self.energy.values(now_s)
        return told


def _rank(owner: Owner, window: RankWindow) -> None:
    """Keep the own time of the worst ranks of one window: all of a window come before the job's."""
    if window.start_s != owner.gathered_s:
        owner.gathered_s, owner.gathered = window.start_s, {}
    own_s = sum(spent for phase, spent in window.phase_mean_s.items() if phase != "communication")
    owner.gathered[window.rank] = max(0.0, own_s)
    if len(owner.gathered) > MOST_RANKS_TOLD:
        del owner.gathered[min(owner.gathered, key=lambda rank: (owner.gathered[rank], -rank))]


def _suggestion(owner: Owner, suggestion: Suggestion, wall_s: float) -> None:
    owner.suggestions.pop(suggestion.id, None)
    if suggestion.state in OPEN_SUGGESTIONS and wall_s < suggestion.expires_s:
        owner.suggestions[suggestion.id] = ((str(suggestion.action), str(suggestion.state)), suggestion.expires_s)
    if len(owner.suggestions) > MOST_SUGGESTIONS:
        del owner.suggestions[next(iter(owner.suggestions))]


class JobValues:
    """What is told of all jobs, each metric's values by labels. Attempts of a job that run at a time are one job."""

    def __init__(self) -> None:
        self.step_times: dict[Labels, tuple[list[int], float]] = {}
        self.lateness: dict[Labels, tuple[list[int], float]] = {}
        self.step_s: dict[Labels, float] = {}
        self.steps_per_s: dict[Labels, float] = {}
        self.ranks: dict[Labels, float] = {}
        self.wait_ratio: dict[Labels, float] = {}
        self.phases: dict[Labels, float] = {}
        self.own_s: dict[Labels, float] = {}
        self.bus: dict[Labels, float] = {}
        self.findings: dict[Labels, float] = {}
        self.lost_s: dict[Labels, float] = {}
        self.lost_gpu_s: dict[Labels, float] = {}
        self.suggestions: dict[Labels, float] = {}
        self.energy_j: dict[Labels, float] = {}

    def add_job(self, job: str, owner: Owner) -> None:
        """The steps and the newest window of a job."""
        if owner.counted.newest_s > float("-inf"):
            for told, counted in ((self.step_times, owner.steps), (self.lateness, owner.late)):
                counts, total = told.get((job,), ([0] * len(counted.counts), 0.0))
                added = [one + other for one, other in zip(counts, counted.counts, strict=True)]
                told[job,] = (added, total + counted.total)
        if owner.window is not None:
            self._add_window(job, owner.window, owner.ranks)

    def _add_window(self, job: str, window: JobWindow, ranks: dict[int, float]) -> None:
        self.step_s[job,] = window.step_median_s
        self.steps_per_s[job,] = window.steps / window.length_s
        self.ranks[job,] = window.ranks
        if window.wait_ratio is not None:
            self.wait_ratio[job,] = window.wait_ratio
        for phase, spent_s in list(window.phase_median_s.items())[:MOST_PHASES]:
            self.phases[job, phase] = spent_s
        for rank, own_s in ranks.items():
            self.own_s[job, str(rank)] = own_s
        sums: dict[str, list[Any]] = defaultdict(lambda: [0, 0.0])
        for line in window.collectives:
            # all_reduce_coalesced and the like are all_reduce: so there are no more series than operations known.
            name = next((name for name in TURNS if line.operation.startswith(name)), None)
            if name is not None:
                sums[name][0] += line.bytes
                sums[name][1] += line.duration_s
        for name, (moved, took_s) in sums.items():
            speed = bus_bytes_per_s(name, moved, took_s, window.ranks)
            if speed is not None:
                self.bus[job, name] = speed

    def add_findings(self, job: str, owner: Owner) -> None:
        """The findings of one key that are open, and the cost of these and of those that were over a short time ago."""
        for one in owner.findings.values():
            labels = (job or one.labels[0], *one.labels[1:])
            if one.over_s is None:
                self.findings[labels] = self.findings.get(labels, 0) + 1
            of_kind = (labels[0], one.kind)
            self.lost_s[of_kind] = self.lost_s.get(of_kind, 0.0) + one.lost_s
            self.lost_gpu_s[of_kind] = self.lost_gpu_s.get(of_kind, 0.0) + one.gpu_s
