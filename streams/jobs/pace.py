"""Has the job as a whole turned slow: a change point in its pace, where no rank stands out.

Rule of this file: pure. The pace of a tick is what the step would take if nobody had to wait for a processor: the
longest own work of any rank that is not accused, and the shortest wait for others, which is the transfer itself.
Evaluations and checkpoints are not training. A change counts when the median of the newest ticks stands off the median
of those before by a share and by the noise of both, and nearly all of them are beyond half of it (Greyhound, ATC'25:
changes above 10 % that are 10 samples apart; robust here, because a heavy tail moves a mean). Longer looks find what is
too small to stand out of the noise of a few ticks: a median of n errs by 1/sqrt(n).

Where work is cut unevenly, the longest of many ranks goes up and down with the draw, and the middle one far less: what
slows all of them shows there first. So a change of the pace may stand out of the noise of either. And the middle rank
must have changed as well: where only the longest has, a rank is slow, whether or not it is accused yet.

Work that grows steadily, as sequences do in a curriculum, has turned slow at no step: what growth that goes on explains
as well as a step is not told.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from paceline.events import OP_INDEX, OPS
from paceline.ranges import ranges
from paceline.words import step_time

from ..episodes.causes import slowing_all
from ..episodes.finding import Said, Subject, number
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..robust import MAD_SIGMA, Array, nanmedian, newest_run
from ..stored import Kept, Stored
from .ticks import WORK, Tick

_NO_TRAINING = ("evaluation", "checkpoint")
_OWN = [OP_INDEX[name] for name in WORK if name not in _NO_TRAINING]
_WAIT, _STARVED, _HOST_BOUND = (OP_INDEX[name] for name in ("communication", "cpu_wait", "host_bound"))
#: Ticks that are remembered, newest last.
_KEPT = 120
#: Share of the ticks that must be beyond half the bar, in the shortest look and in longer ones.
_NEARLY_ALL, _MOST = 0.9, 0.7
#: Columns of what is remembered of a tick, and where the seconds by op begin.
_PACE, _OWN_S, _SHARED, _FIRST, _LAST, _LASTED, _BY_OP = range(7)
_JUDGED = (_PACE, _OWN_S, _SHARED)
#: A step must leave so much less of the values unexplained than growth does; and what is far out, in spreads.
_CLEARLY, _FAR = 0.8, 3.0
#: Share of the pace's change by which the middle rank must have changed: one slow rank of two moves it by half.
_LEAST_SHARED = 0.6
#: How many times the least slowdown the shortest look asks for: a busy neighbour is gone again before a longer one.
_SHORT = 1.5
#: A job has one pace.
_JOB = "job"


@dataclass(frozen=True)
class PaceConfig:
    """The job has turned slow when its pace over so many ``ticks`` and ``least_s`` seconds is by half as much again as
    ``least_slowdown``, and by ``sigmas`` times the noise of a tick, over what it was in at least twice as many ticks
    before; over one of the ``longer`` looks by ``least_slowdown``, and by less noise."""

    ticks: int = 15
    longer: tuple[int, ...] = (30, 60)
    least_s: float = 5.0
    least_slowdown: float = 0.1
    sigmas: float = 3.0


class PaceEvidence(Measured, frozen=True, kw_only=True):
    """Seconds a step now and before, and the op that has grown most on the median rank, by how many seconds a step.

    ``host_bound_s`` is by how much the time has grown in which its device waited for its host.
    """

    pace_s: float
    usual_s: float
    grown_op: str
    grown_s: float
    host_bound_s: float = 0.0


PaceEpisode = Episode[str, PaceEvidence]


class Pace(Stored):
    """The pace of one job.

    >>> from streams.ingest import steps
    >>> from streams.jobs import cohorts, ticks
    >>> pace, one_a_step = Pace(PaceConfig()), ticks.Ticks(0.0, cohorts.Cohorts())
    >>> for number in range(90):  # from step 60 on a fifth slower on both ranks
    ...     seconds = np.zeros((len(OPS), 2))
    ...     seconds[[OP_INDEX["forward"], OP_INDEX["step"]]] = 0.5 if number < 60 else 0.6
    ...     tick = one_a_step.update(steps.Step(number, seconds, seconds[0]))
    ...     if episode := pace.update(tick, set(), staged=False):
    ...         print(number, episode.state, episode.first_step)
    73 suspected 60
    89 confirmed 60
    """

    history: Kept[Array]
    usual: Kept[float]
    before: Kept[Array]
    quiet: Kept[int]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self, config: PaceConfig) -> None:
        self.config = config
        #: Per tick: pace, the median rank's own work, the same with the shortest wait, first step, last step, seconds
        #: that it stands for, then the median rank's seconds by op.
        self.history = np.empty((0, _BY_OP + len(OPS)))
        self.usual = 0.0
        self.before = np.zeros(len(OPS))
        self.quiet = 0
        #: Ticks that are to be judged next, and what is remembered of them while nobody else is accused.
        self._taken: list[Tick] = []
        self._rows: list[Array | None] = []
        self._without: set[int] = set()
        #: By how much the pace has changed at each of them, by the ticks of a look; empty where that is not known.
        self._changes: dict[int, list[float]] = {}
        # It is first told when it has lasted for a while: the doublings are counted from there, not from the proof.
        self.tracker = Tracker(PaceEpisode, Policy(doubles_from=frozenset({"suspected"})))

    def update(self, tick: Tick, accused: set[int], *, staged: bool) -> PaceEpisode | None:
        """Take in one tick; the episode where it has something new to tell."""
        row = self._next_row(tick, accused, staged)
        if row is None:
            return None
        self.history = np.concatenate([self.history, row[None]])[-_KEPT:]
        if (episode := self.tracker.get(_JOB)) is not None:
            return self._follow(episode, tick)
        ticks = self.config.ticks
        if accused:
            self.quiet = ticks  # while a rank is slow, and until it is out of the newest ticks, its verdict speaks
        elif self.quiet:
            self.quiet -= 1
        elif len(self.history) >= 3 * ticks:
            looks = (ticks, *self.config.longer)
            told = (self._look(look, math.sqrt(ticks / look)) for look in looks if 2 * look <= len(self.history))
            return next((episode for episode in told if episode), None)
        return None

    def take(self, ticks: Sequence[Tick]) -> None:
        """Take in ticks of equally many ranks, which are to be judged next, one by one: they share what it costs."""
        self._taken, self._rows = list(ticks), []

    def _next_row(self, tick: Tick, accused: set[int], staged: bool) -> Array | None:
        if not self._taken:
            self.take([tick])
        if not self._rows or accused != self._without:
            self._rows, self._without = _rows(self._taken, accused, staged), set(accused)
            self._changes = self._changes_ahead()
        del self._taken[0]
        for changes in self._changes.values():
            del changes[0]
        return self._rows.pop(0)

    def _changes_ahead(self) -> dict[int, list[float]]:
        """The changes of all looks at the ticks that are judged next, as long as nothing is forgotten before."""
        rows = [row[_PACE] for row in self._rows if row is not None]
        if len(rows) < max(len(self._rows), 2) or len(self.history) < _KEPT:
            return {}
        windows = sliding_window_view(np.concatenate([self.history[:, _PACE], rows]), _KEPT)
        return {ticks: _changes(windows, ticks).tolist() for ticks in (self.config.ticks, *self.config.longer)}

    def _look(self, ticks: int, error: float) -> PaceEpisode | None:
        """Compare the newest ``ticks`` with those before; their median errs by ``error`` times that of the shortest."""
        new, old = self.history[-ticks:], self.history[:-ticks]
        ahead = self._changes.get(ticks)
        change = _change(old[:, _PACE], new[:, _PACE]) if ahead is None else ahead[0]
        least = self._least(ticks)
        if change < least or float(new[:, _LASTED].sum()) < self.config.least_s:
            return None  # the common case, and a cheap one
        if _change(old[:, _SHARED], new[:, _SHARED]) < _LEAST_SHARED * change:
            return None
        margins = [self._margin(old[:, at], new[:, at], least, error) for at in _JUDGED]
        margin, at = max(zip(margins, _JUDGED, strict=True))
        if margin < 1.0 or _steady(old[:, at], new[:, at]):
            return None
        usual = float(np.median(old[:, _PACE]))
        self.usual, self.before = usual, np.median(old[:, _BY_OP:], axis=0)
        began = self.history[-newest_run(self.history[::-1, _PACE] / usual - 1, change / 2) :]
        episode = self.tracker.begin(_JOB, int(began[0, _FIRST]))
        for one in began:
            episode.add_tick(int(one[_LAST]), float(one[_LASTED]), float(one[_PACE]) / usual - 1)
        return self._tell(episode, "late", change, margin)

    def _least(self, ticks: int) -> float:
        """The least change that a look of ``ticks`` tells."""
        return self.config.least_slowdown * (_SHORT if ticks == self.config.ticks else 1.0)

    def _margin(self, old: Array, new: Array, least: float, error: float) -> float:
        """How many times over its bar the change from ``old`` to ``new`` is; 0 where it is not."""
        usual, change = float(np.median(old)), _change(old, new)
        if usual <= 0:
            return 0.0
        noise = max(_noise(old), _noise(new)) / usual
        bar = max(least, self.config.sigmas * noise * error)
        beyond = float((new > usual * (1 + bar / 2)).mean())
        if change < bar or beyond < (_NEARLY_ALL if error == 1.0 else _MOST):
            return 0.0
        return change / bar

    def _follow(self, episode: PaceEpisode, tick: Tick) -> PaceEpisode | None:
        ticks = self.config.ticks
        change = float(np.median(self.history[-ticks:, _PACE])) / self.usual - 1
        episode.add_tick(tick.last_step, tick.lasted_s, float(self.history[-1, _PACE]) / self.usual - 1)
        least = self.config.least_slowdown
        signal: Signal | None = "calm" if change < least / 2 else None
        if change >= least and episode.length >= 2 * ticks:
            signal = "persistent"
        return self._tell(episode, signal, change, change / least)

    def _tell(self, episode: PaceEpisode, signal: Signal | None, change: float, margin: float) -> PaceEpisode | None:
        def measure() -> PaceEvidence:
            evidence = self._measure(change, margin)
            slower_s = max(evidence.pace_s - evidence.usual_s, 1e-9)
            episode.cause = slowing_all(evidence.grown_op, evidence.host_bound_s / slower_s)
            return evidence

        told = self.tracker.revise(_JOB, signal, episode.length, measure=measure)
        if self.tracker.get(_JOB) is None:
            self.history = self.history[-self.config.ticks :]
            self._changes = {}
        return told

    def _measure(self, change: float, margin: float) -> PaceEvidence:
        grown = np.median(self.history[-self.config.ticks :, _BY_OP:], axis=0) - self.before
        host_bound_s = float(max(grown[_HOST_BOUND], 0.0))
        grown[OP_INDEX["step"]] = grown[_STARVED] = grown[_HOST_BOUND] = 0.0
        return PaceEvidence(
            margin=margin,
            pace_s=self.usual * (1 + change),
            usual_s=self.usual,
            grown_op=OPS[int(np.argmax(grown))],
            grown_s=float(max(grown.max(), 0.0)),
            host_bound_s=host_bound_s,
        )


def said(episode: PaceEpisode, config: PaceConfig, accused: Collection[int] = ()) -> Said:
    """What is said of a job that has turned slow as a whole; ``accused`` ranks have findings of their own."""
    seen = episode.measured
    rule = (
        f"median of {config.ticks} measurements, longest own work plus shortest wait; reported from "
        f"{config.least_slowdown:.0%} and {config.sigmas:g} times the noise"
    )
    evidence = [
        number("pace", seen.pace_s, "s/step", seen.usual_s, rule),
        number(f"grown_{seen.grown_op}", seen.grown_s, "s/step", None, "what grew most, median rank"),
    ]
    if seen.host_bound_s > 0.0:
        waits = "time in which its device waited for its host, median rank; the cause from 80 % of the slowdown on"
        evidence.append(number("grown_host_bound", seen.host_bound_s, "s/step", None, waits))
    summary = (
        f"The whole job became slower at step {episode.first_step}: {step_time(seen.pace_s)} a step "
        f"instead of {step_time(seen.usual_s)}, mostly in {seen.grown_op}. "
    )
    cleared = () if accused or seen.grown_op == "communication" else ("every rank: none is behind another",)
    return Said(Subject("slowdown", "job"), evidence, summary + _blame(seen.grown_op, accused), cleared)


def _blame(grown_op: str, accused: Collection[int]) -> str:
    """What is known of who slows the job."""
    if grown_op == "communication":  # A transfer takes as long as its slowest link, and all ranks are in it.
        return "The transfers of all ranks take longer: by the network, or by the link of one rank."
    if accused:
        ranks = "rank" if len(accused) == 1 else "ranks"
        return f"That is without what {ranks} {ranges(accused)} lost: see the finding on that."
    return "No single rank is to blame."


def _rows(ticks: Sequence[Tick], accused: set[int], staged: bool) -> list[Array | None]:
    """What is remembered of ticks of equally many ranks; None where no rank can be counted."""
    seconds = np.array([tick.seconds for tick in ticks])
    heard = ~np.isnan(seconds[:, -1])
    heard[:, [rank for rank in accused if rank < heard.shape[1]]] = False
    counted = np.count_nonzero(heard[0])
    # The order in which numpy sums differs where there is a single column: so that of one tick stays what it is.
    if len(ticks) > 1 and (counted == 1 or np.count_nonzero(heard != heard[0])):
        return [row for tick in ticks for row in _rows([tick], accused, staged)]
    if not counted:
        return [None for _ in ticks]
    mine = seconds[:, :, heard[0]]
    own = mine[:, _OWN].sum(axis=1) - mine[:, _STARVED]
    middle = nanmedian(np.concatenate([mine, own[:, None]], axis=1), axis=2)
    typical, shortest = middle[:, -1], mine[:, _WAIT].min(axis=1)
    if staged:
        pace = np.median(mine[:, -1] - sum(mine[:, OP_INDEX[name]] for name in _NO_TRAINING), axis=1)
    else:
        pace = own.max(axis=1) + shortest
    facts = [(tick.first_step, tick.last_step, tick.lasted_s) for tick in ticks]
    columns = [pace, typical, typical + shortest, *np.array(facts, dtype=np.float64).T, *middle.T[:-1]]
    return list(np.array(columns).T)


def _change(old: Array, new: Array) -> float:
    """The change from the median of ``old`` to that of ``new``, as a share of the former."""
    usual = float(nanmedian(old))
    return float(nanmedian(new)) / usual - 1 if usual > 0 else 0.0


def _changes(windows: Array, ticks: int) -> Array:
    """The change in each window, one a row, from the median of those before to that of the newest ``ticks``."""
    usual, now = nanmedian(windows[:, :-ticks], axis=1), nanmedian(windows[:, -ticks:], axis=1)
    some = usual > 0
    return np.where(some, now / np.where(some, usual, 1.0) - 1, 0.0)


def _noise(values: Array) -> float:
    return MAD_SIGMA * float(np.median(np.abs(values - np.median(values))))


def _steady(old: Array, new: Array) -> bool:
    """Whether growth that goes on is as good an account of the values as a step, wherever either begins.

    Both are fitted by least squares, at every point: a level before it and another after it, or a straight line on one
    side of it. Values far out of the noise are drawn in, for a hiccup has neither shape.

    >>> flat, later = np.ones(30), np.full(15, 1.3)
    >>> _steady(flat, later), _steady(1 + 0.01 * np.arange(30), 1.3 + 0.01 * np.arange(15))
    (False, True)
    """
    far = _FAR * max(_noise(old), _noise(new))
    values = np.clip(np.concatenate([old, new]), np.median(old) - far, np.median(new) + far)
    at = np.arange(values.size)
    since = at - at[1:, None]
    growth = np.concatenate([np.maximum(since + 1, 0), np.minimum(since, 0)])
    growing, stepped = (_left_over(values, shapes) for shapes in (growth, since >= 0))
    return stepped >= _CLEARLY * growing


def _left_over(values: Array, shapes: NDArray[Any]) -> float:
    """The squares that are left of ``values`` after a level and the best of ``shapes``, one a row."""
    shapes = shapes - shapes.mean(axis=1, keepdims=True)
    values = values - values.mean()
    return float(values @ values - ((shapes @ values) ** 2 / (shapes**2).sum(axis=1)).max())
