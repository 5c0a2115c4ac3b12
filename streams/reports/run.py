"""One run for a comparison: its pace window by window, and what it was set up with.

Rule of this file: pure and bounded. A synchronous job has one pace, so a run is its job's windows, not its ranks. Of
several lengths of windows the finest that is complete counts. Windows that come again are known by their steps.
"""

from collections import OrderedDict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from paceline.events import (
    PHASES,
    WARM_UP_STEPS,
    BalancePlan,
    Event,
    Finding,
    JobDescribed,
    JobWindow,
    NodeDescribed,
    RankWindow,
    StepTimings,
    Thresholds,
)
from paceline.repeats import StepRepeats
from paceline.settings import MOST_RANKS
from paceline.step_samples import data_part, samples_a_step

from .block_bootstrap import Series, Values
from .job_level import NAMES
from .run_facts import RunFacts

MOST_JOBS = 1000
#: Windows of one length of one run; beyond, coarser ones count.
MOST_WINDOWS = 100_000
_MOST_FINDINGS = 2000
#: Lengths of windows of which ranks are kept.
_MOST_LENGTHS = 16
_OF_RUNS = (RankWindow, JobWindow, JobDescribed, StepTimings, Thresholds, BalancePlan, Finding)
_Job = tuple[str, str, int]


class Stretch(NamedTuple):
    """A window of the job: its steps, and seconds a step. Phases are the median rank's, and add up to its step.

    ``slowest_s`` are the phases of the rank that works longest in it, and ``work_s`` all of its work.
    """

    start_s: float
    first_step: int
    last_step: int
    steps: int
    step_s: float
    phase_s: dict[str, float]
    slowest_s: dict[str, float]
    work_s: float

    @property
    def mean_s(self) -> float:
        """Seconds a step, long ones among them."""
        return sum(self.phase_s.get(name, 0.0) for name in PHASES) or self.step_s


class Run:
    """All that is kept of one attempt of one job."""

    def __init__(self, job: _Job) -> None:
        self.cluster, self.job, self.attempt = job
        self.stretches: dict[float, list[Stretch] | None] = {}
        self._repeats: dict[float, StepRepeats] = {}
        self.described: dict[str, JobDescribed] = {}
        self.findings: dict[str, Finding] = {}
        self.facts = RunFacts()
        self.warm_up_steps = 0
        #: By length, the start of the newest window that a rank told, and each rank's phases in it.
        self._ranks: dict[float, tuple[float, dict[int, dict[str, float]]]] = {}

    def add_rank(self, window: RankWindow) -> None:
        """Take in one window of a rank: those of one stretch come before the job's."""
        start_s, ranks = self._ranks.get(window.length_s, (-1.0, {}))
        if window.start_s != start_s:
            if window.length_s not in self._ranks and len(self._ranks) >= _MOST_LENGTHS:
                return
            ranks = {}
            self._ranks[window.length_s] = window.start_s, ranks
        if len(ranks) < MOST_RANKS.default:
            ranks[window.rank] = {name: spent_s for name, spent_s in window.phase_mean_s.items() if name in NAMES}

    def add(self, window: JobWindow) -> None:
        """Take in one window of the job."""
        kept = self.stretches.setdefault(window.length_s, [])
        if kept is None or not window.steps:
            return
        repeats = self._repeats.setdefault(window.length_s, StepRepeats())
        if not repeats.is_new(window.start_s, window.first_step, window.last_step):
            return
        if len(kept) >= MOST_WINDOWS:
            self.stretches[window.length_s] = None
            return
        phases = {name: spent_s for name, spent_s in window.phase_median_s.items() if name in NAMES}
        start_s, ranks = self._ranks.get(window.length_s, (-1.0, {}))
        slowest = ranks.get(window.worst_rank, {}) if start_s == window.start_s else {}
        steps = (window.first_step, window.last_step, window.steps)
        kept.append(Stretch(window.start_s, *steps, window.step_median_s, phases, slowest, window.own_worst_s))

    @property
    def steps(self) -> int:
        """Those told."""
        return max((sum(one.steps for one in kept) for kept in self.stretches.values() if kept), default=0)

    @property
    def global_batch(self) -> int | None:
        """Samples of a step of all ranks; None unless every node told its ranks' batch size."""
        told = list(self.described.values())
        sizes = [one.batch_size * len(one.places) for one in told if one.batch_size]
        ranks = sum(len(one.places) for one in told)
        if not told or len(sizes) < len(told) or ranks < (self.ranks or 0):
            return None
        if any(place.tp or place.pp for one in told for place in one.places):
            return samples_a_step([data_part(one) for one in told])
        return sum(sizes)

    @property
    def ranks(self) -> int | None:
        """How many the job has, as it says."""
        return max((one.world_size for one in self.described.values()), default=None)

    def chosen(self) -> list[Stretch]:
        """The finest windows that tell most of the steps, without the warm-up."""
        most = self.steps
        for _, kept in sorted(self.stretches.items()):
            if kept and 2 * sum(one.steps for one in kept) >= most:
                return self._warm(kept)
        return []

    def _warm(self, kept: list[Stretch]) -> list[Stretch]:
        warm = [one for one in kept if one.first_step >= WARM_UP_STEPS]
        self.warm_up_steps = sum(one.steps for one in kept) - sum(one.steps for one in warm)
        return warm


def steps_series(stretches: list[Stretch], samples: int) -> Series:
    """Mean seconds a step, by ``samples``: what phases add up to; the median where none are reported."""
    return Series(_array([max(one.mean_s, 1e-9) / samples for one in stretches]), _weights(stretches))


def median_series(stretches: list[Stretch], samples: int) -> Series:
    """Seconds of the median step, by ``samples``: rare long steps do not show."""
    return Series(_array([max(one.step_s, 1e-9) / samples for one in stretches]), _weights(stretches))


def phase_series(stretches: list[Stretch], name: str, samples: int, *, slowest: bool = False) -> Series | None:
    """Seconds in one phase of the median or the slowest rank, by ``samples``; None where it was not told throughout."""
    phases = [one.slowest_s if slowest else one.phase_s for one in stretches]
    told = [(one, phase_s[name]) for one, phase_s in zip(stretches, phases, strict=True) if name in phase_s]
    if len(told) < 0.9 * len(stretches) or not told:
        return None
    return Series(_array([max(spent_s, 1e-9) / samples for _, spent_s in told]), _weights([one for one, _ in told]))


def work_series(stretches: list[Stretch], samples: int) -> Series:
    """Seconds that the slowest rank works, by ``samples``: without waiting for others."""
    return Series(_array([max(one.work_s, 1e-9) / samples for one in stretches]), _weights(stretches))


def clock_series(stretches: list[Stretch], samples: int) -> Series | None:
    """Seconds by the clock from one window to the next, by its steps: pauses between steps count, too.

    Where the clock was set back it does not tell.
    """
    pairs = [(one, after) for one, after in pairwise(stretches) if after.start_s > one.start_s]
    if not pairs:
        return None
    values = [max(after.start_s - one.start_s, 1e-9) / one.steps / samples for one, after in pairs]
    return Series(_array(values), _array([float(one.steps) for one, _ in pairs]))


def _array(values: list[float]) -> Values:
    return np.array(values, dtype=np.float64)


def _weights(stretches: list[Stretch]) -> Values:
    return _array([float(one.steps) for one in stretches])


class Runs:
    """Every run of a source."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[_Job, Run] = OrderedDict()
        self._nodes: dict[str, NodeDescribed] = {}

    def update(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, NodeDescribed):
            if len(self._nodes) < 20_000:
                self._nodes[event.node] = event
            return
        if not isinstance(event, _OF_RUNS):
            return
        self._tell(self._run((event.cluster, event.job, event.attempt)), event)

    def _tell(self, run: Run, event: Event) -> None:
        match event:
            case RankWindow():
                run.add_rank(event)
            case JobWindow():
                run.add(event)
            case JobDescribed():
                run.described[event.teller] = event
                run.facts.describe(event)
            case StepTimings():
                if event.facts is not None:
                    run.facts.tell_ranks(event.facts)
            case Thresholds():
                run.facts.set_thresholds(event)
            case BalancePlan():
                run.facts.plan(event)
            case Finding() if len(run.findings) < _MOST_FINDINGS or event.id in run.findings:
                run.findings[event.id] = event

    def _run(self, job: _Job) -> Run:
        if job not in self.jobs:
            self.jobs[job] = Run(job)
            if len(self.jobs) > MOST_JOBS:
                self.jobs.popitem(last=False)
        return self.jobs[job]

    def of(self, job: str | None) -> list[Run]:
        """The runs of ``job``, or of all, that told any steps; the one of most steps first."""
        told = [run for run in self.jobs.values() if run.steps and job in (None, run.job)]
        for run in told:
            for node in self._nodes.values():
                run.facts.describe_node(node)
        return sorted(told, key=lambda run: (-run.steps, -run.attempt))
