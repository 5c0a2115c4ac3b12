"""A job's windows of one length, added up.

Rule of this file: pure and bounded. Delivery is at least once, and a window that comes again counts nothing. A clock
that is set back does not turn a job's time back: what follows is counted on from there. Several lengths tell the same
steps, so they are kept apart and a report reads one of them.
"""

import copy
import math
from collections.abc import Iterable, Mapping

import numpy as np

from paceline.events import OVERLAYS, PHASES, JobWindow, RankWindow
from paceline.repeats import StepRepeats
from paceline.settings import MOST_RANKS

from .histogram import Histogram
from .report import Course, PhaseTime
from .time_grid import Matrix, TimeGrid

NAMES = (*PHASES, *OVERLAYS)
_PLACE = {name: place for place, name in enumerate(NAMES)}
_WAIT = _PLACE["communication"]
_STEP, _P95, _FIRST, _LAST = range(4)
#: Rank windows a second of a window's length: of a larger job the slowest alone are told.
RANKS_TOLD = 100
_MOST_RANKS = MOST_RANKS.default
#: The slowest tenth of a window's steps: its 95 % quantile is their middle, and stands for them in the job's.
_SLOW_PART = 0.1
#: Lengths of a window without one: a pause, or a clock that was set.
_GAP = 2
#: Columns that one window fills at most: five minutes of seconds.
_MOST_COLUMNS = 300


class _Clock:
    """The time of windows one after the other, had no clock been set back."""

    __slots__ = ("back_s", "end_s", "gap_s", "last_s")

    def __init__(self) -> None:
        #: Start and end of the newest window, how far the clock was set back, and where the newest gap begins.
        self.last_s = self.end_s = -math.inf
        self.back_s, self.gap_s = 0.0, math.inf

    def follow(self, start_s: float, lasts_s: float, gap_s: float) -> tuple[float, float]:
        """When the next window began, and how much of ``lasts_s`` no other has told; ``gap_s`` without one is a gap.

        One before the newest is after the gap before that, where the clock was ahead for a while: it is as it was.
        Else the clock was set back: it goes on where the newest ended.
        """
        at_s = start_s + self.back_s
        if at_s < self.last_s:
            at_s = at_s if at_s >= self.gap_s else self.end_s
            self.back_s, self.end_s, self.gap_s = at_s - start_s, at_s, math.inf
        elif math.isfinite(self.end_s) and at_s > self.end_s + gap_s:
            self.gap_s = self.end_s
        told_s = max(at_s + lasts_s - max(self.end_s, at_s), 0.0)
        self.last_s, self.end_s = at_s, max(self.end_s, at_s + lasts_s)
        return at_s, told_s


class _RankTotal:
    """One rank's seconds by phase, and its steps."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.repeats = StepRepeats()
        self.clock = _Clock()
        self.steps = 0
        self.step_s = 0.0
        self.phase_s: dict[str, float] = {}

    @property
    def own_s(self) -> float:
        """At work in a step, without waiting for others."""
        return (self.step_s - self.phase_s.get("communication", 0.0)) / max(self.steps, 1)


class JobLevel:
    """All that windows of one length say of a job."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.repeats = StepRepeats()
        self.first_s: float | None = None
        self.clock = _Clock()
        self.end_s = 0.0
        self.told_s = 0.0
        self.steps = self.most_ranks = 0
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.medians, self.spread, self.owns = Histogram(), Histogram(), Histogram()
        self.waited = [0.0, 0.0]
        self.phase_s: dict[str, float] = {}
        self.phase_steps: dict[str, int] = {}
        self.course = TimeGrid(length_s)
        self.first_steps: dict[float, int] = {}
        self.own = TimeGrid(length_s)
        self.ranks: dict[int, _RankTotal] = {}

    def add_job(self, window: JobWindow) -> bool:
        """Count one window of the job in; False where it is a repetition."""
        if not self.repeats.is_new(window.start_s, window.first_step, window.last_step):
            return False
        # Steps longer than the window end after it.
        lasts_s = max(window.length_s, window.steps * window.step_median_s)
        at_s, told_s = self.clock.follow(window.start_s, lasts_s, _GAP * self.length_s)
        self.first_s = at_s if self.first_s is None else self.first_s
        self.told_s += told_s
        self.end_s = self.clock.end_s
        self.steps += window.steps
        self.most_ranks = max(self.most_ranks, window.ranks)
        self.first_step = window.first_step if self.first_step is None else min(self.first_step, window.first_step)
        self.last_step = max(window.last_step, self.last_step or 0)
        self._add_times(window, at_s, max(window.steps, 1))
        return True

    def _add_times(self, window: JobWindow, at_s: float, steps: int) -> None:
        self.medians.add(window.step_median_s, steps)
        self.spread.add(window.step_median_s, steps * (1.0 - _SLOW_PART))
        self.spread.add(window.step_p95_s, steps * _SLOW_PART)
        self.owns.add(window.own_median_s, steps)
        if window.wait_ratio is not None:
            spent_s = _mean_step_s(window) * steps
            self.waited = [self.waited[0] + window.wait_ratio * spent_s, self.waited[1] + spent_s]
        for name, spent_s in window.phase_median_s.items():
            if name in _PLACE:
                self.phase_s[name] = self.phase_s.get(name, 0.0) + spent_s * steps
                self.phase_steps[name] = self.phase_steps.get(name, 0) + steps
        values = (window.step_median_s, window.step_p95_s, window.first_step, window.last_step)
        for row, value in enumerate(values):
            self.course.add(row, at_s, float(value), 1.0 if row >= _FIRST else float(steps))

    def add_rank(self, window: RankWindow) -> None:
        """Count one window of a rank in."""
        rank = self.ranks.get(window.rank)
        if rank is None:
            if len(self.ranks) >= _MOST_RANKS:
                return
            rank = self.ranks[window.rank] = _RankTotal(len(self.ranks))
        if not window.steps or not rank.repeats.is_new(window.start_s, window.first_step, window.last_step):
            return
        phases = {name: spent_s for name, spent_s in window.phase_mean_s.items() if name in _PLACE}
        # Phases add up to the step; a rank that tells none has its step alone.
        step_s = sum(phases.get(name, 0.0) for name in PHASES) or window.step_median_s
        rank.steps += window.steps
        rank.step_s += step_s * window.steps
        for name, spent_s in phases.items():
            rank.phase_s[name] = rank.phase_s.get(name, 0.0) + spent_s * window.steps
        own_s = max(step_s - phases.get("communication", 0.0), 0.0)
        # A longer window is one of all the columns that it spans.
        columns = max(round(window.length_s / self.length_s), 1)
        start_s, _ = rank.clock.follow(window.start_s, window.length_s, _GAP * self.length_s)
        for at in range(min(columns, _MOST_COLUMNS)):
            self.own.add(rank.row, start_s + at * self.length_s, own_s, window.steps / columns)

    @property
    def wait_ratio(self) -> float | None:
        """The median rank's share of time in which it waited for others."""
        return self.waited[0] / self.waited[1] if self.waited[1] else None

    def worst(self) -> int | None:
        """The rank that worked longest; of equals the lowest."""
        told = {number: rank.own_s for number, rank in self.ranks.items() if rank.steps}
        return min(told, key=lambda number: (-told[number], number)) if len(told) > 1 else None

    def own_s(self) -> dict[int, float]:
        """Seconds at work in a step, by rank."""
        return {number: rank.own_s for number, rank in self.ranks.items() if rank.steps}

    def phases(self) -> list[PhaseTime]:
        """Where the median rank's time went, and that of the rank that worked longest."""
        worst = self.worst()
        rank = None if worst is None else self.ranks[worst]
        told = [name for name in NAMES if self.phase_s.get(name) or (rank and rank.phase_s.get(name))]
        return [
            PhaseTime(
                name,
                self.phase_s[name] / self.steps if name in self.phase_s and self.steps else None,
                None if rank is None or name not in rank.phase_s else rank.phase_s[name] / rank.steps,
            )
            for name in told
        ]

    def to_course(self, stages: Mapping[int, int], end_s: float = 0.0) -> Course | None:
        """The job over time, until ``end_s`` at least, its ranks in these pipeline ``stages``; None without windows."""
        if self.course.start_s is None or self.first_s is None:
            return None
        self.course.reach(end_s)
        means = self.course.means()
        ranks = sorted(self.ranks)
        return Course(
            start_s=self.course.start_s,
            column_s=self.course.column_s,
            step_s=means[_STEP].tolist(),
            p95_s=means[_P95].tolist(),
            steps_from=_whole(means[_FIRST]),
            steps_to=_whole(means[_LAST]),
            ranks=ranks,
            own=self._own(ranks, means.shape[1]),
            stages=tuple(stages.get(rank, -1) for rank in ranks),
        )

    def _own(self, ranks: list[int], columns: int) -> Matrix:
        """Rows by rank, on the columns of the job's own course."""
        means = self.own.means()
        own = np.full((len(ranks), columns), np.nan)
        start_s = self.course.start_s or 0.0
        if not means.size or self.own.start_s is None:
            return own
        for column in range(means.shape[1]):
            at_s = self.own.start_s + column * self.own.column_s
            first = max(int((at_s - start_s) // self.course.column_s), 0)
            last = max(int((at_s + self.own.column_s - start_s) // self.course.column_s), first + 1)
            own[:, first : min(last, columns)] = means[[self.ranks[one].row for one in ranks], column][:, None]
        return own


def _mean_step_s(window: JobWindow) -> float:
    """The mean step of the median rank: its work, and its waits by their share. A median does not see one long wait."""
    works = 1.0 - min(window.wait_ratio or 0.0, 1.0)
    return max(window.step_median_s, window.own_median_s / works if works else 0.0)


def with_ranks(level: JobLevel, levels: Iterable[JobLevel]) -> JobLevel:
    """``level``, with the ranks of the finest longer windows that tell of any where its own tell of none.

    An archive keeps windows of ranks by the minute and those of jobs by ten seconds. Shorter ones may tell of the
    slowest ranks alone.
    """
    told = [one for one in levels if one.ranks and one.length_s > level.length_s]
    if level.ranks or not told:
        return level
    finest, filled = min(told, key=lambda one: one.length_s), copy.copy(level)
    filled.ranks, filled.own = finest.ranks, finest.own
    return filled


def _whole(values: Iterable[float]) -> list[int]:
    return [-1 if np.isnan(value) else int(value) for value in values]


def chosen(levels: Iterable[JobLevel]) -> JobLevel | None:
    """The finest length that tells of all ranks, from the beginning on, and of most steps that any length tells of.

    An archive keeps the short windows of the last days alone: a job that began before has longer ones from its start.
    """
    told = sorted((one for one in levels if one.steps), key=lambda one: one.length_s)
    if not told:
        return None
    most = max(one.steps for one in told)
    first_s = min(one.first_s for one in told if one.first_s is not None) + told[-1].length_s
    full = [one for one in told if one.steps * 2 >= most and one.first_s is not None and one.first_s < first_s]
    wide = [one for one in full if one.most_ranks <= RANKS_TOLD * one.length_s * 1.1]
    return (wide or full[-1:])[0]
