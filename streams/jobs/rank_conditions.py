"""What the ranks' nodes and devices went through while a rank was slow: throttled, swapping, or neither.

Rule of this file: pure. Conditions come with the rows of the same node, so those up to the end of a rank's step are
there whenever the step is: the same events give the same answer. What no node measures changes no verdict.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.columns import rows
from paceline.events import Cause, StepTimings
from paceline.gpu import throttle

from ..episodes.causes import COMPUTING, Verdict
from ..raw_columns import Floats, Ints, floats, unknown, whole
from ..robust import Array, known_or_zero
from ..runs import lengths, places, starts
from ..stored import Kept, Stored

#: Conditions kept of each rank, and how far back a look goes, at most and at least.
_KEPT = 32
_BACK_S = 8.0
_LEAST_S = 2.0
#: What is read of a condition, beside its rank, time and span.
_FIELDS = (
    "throttle_reasons",
    "sm_clock_mhz",
    "major_faults",
    "pressure_memory_ratio",
    "cpu_quota_count",
    "cpu_throttled_ratio",
)
_VALUES = 1 + len(_FIELDS)
#: Share of the samples in which a reason must have been there.
_OFTEN = 0.5
#: A clock this much below the peers' is slower; a power cap that all GPUs hit alike explains nothing.
_CLOCK = 0.97
#: Pages read back from disk a second, and stalls for memory (PSI), that make a process slow beyond its peers. A major
#: fault costs some 0.1 ms on flash, so a hundred a second take a percent of it and are a sign, thousands are the cause.
_FAULTS_PER_S = 100.0
_STALLED = 0.1


class View(NamedTuple):
    """What one rank went through: means over a look; NaN is not measured."""

    throttled: float
    mask: int
    clock: float
    faults_per_s: float
    stalled: float
    #: Processors that its control group may use, and the share of periods in which it was stopped for that.
    quota: float = float("nan")
    held_back: float = float("nan")


class ConditionsSeen(NamedTuple):
    """What a rank went through, and the median of its peers; NaN is not measured."""

    own: View
    peers: View


class ConditionRows(NamedTuple):
    """Equally long columns: rank, when, over how many seconds, and what was measured then; NaN is not measured."""

    rank: Ints
    time_s: Floats
    span_s: Floats
    throttled: Floats
    clock: Floats
    faults: Floats
    stalled: Floats
    quota: Floats
    held_back: Floats


def condition_rows(messages: Sequence[StepTimings]) -> ConditionRows:
    """What ``messages`` tell of conditions, in their order."""
    told = [(one.t0_s, one.conditions) for one in messages if one.conditions]
    if not told:
        return _NO_CONDITIONS
    parts = [part for _, part in told]
    sizes = [rows(part.rank) for part in parts]
    began_s = np.repeat([t0_s for t0_s, _ in told], sizes)
    values = (
        floats([part.values.get(name) or unknown(size) for part, size in zip(parts, sizes, strict=True)])
        for name in _FIELDS
    )
    return ConditionRows(
        whole([part.rank for part in parts]),
        floats([part.time_s for part in parts]) + began_s,
        floats([part.span_s for part in parts]),
        *values,
    )


_NO_CONDITIONS = ConditionRows(np.empty(0, dtype=np.int64), *(np.empty(0) for _ in range(len(_FIELDS) + 2)))


class RankConditions(Stored):
    """The last conditions of every rank."""

    times: Kept[Floats]
    values: Kept[NDArray[np.float32]]
    count: Kept[Ints]
    ends_s: Kept[Array]

    def __init__(self) -> None:
        #: By rank, and in the order of ``count``: when; the other columns of ConditionRows.
        self.times = np.full((0, _KEPT), -np.inf)
        self.values = np.empty((0, _KEPT, _VALUES), dtype=np.float32)
        #: How many were ever heard of each rank.
        self.count = np.empty(0, dtype=np.int64)
        self.ends_s = np.empty(0)

    def update(self, told: ConditionRows, most_ranks: int) -> None:
        """Take down what a few messages brought of ranks below ``most_ranks``."""
        sound = (told.rank >= 0) & (told.rank < most_ranks)
        rank = told.rank[sound]
        if not rank.size:
            return
        self._widen(int(rank.max()) + 1)
        order = np.argsort(rank, kind="stable")
        rank = rank[order]
        first = starts(rank)
        slot = (self.count[rank] + places(first, rank.size)) % _KEPT
        mask = told.throttled[sound][order]
        slowing = np.where(np.isnan(mask), 0.0, np.clip(mask, 0, 2.0**53)).astype(np.int64) & throttle.SLOWING
        measured = (told.span_s, told.clock, told.faults, told.stalled, told.quota, told.held_back)
        columns = [np.where(np.isnan(mask), np.nan, slowing), *(column[sound][order] for column in measured)]
        # Of more than ``_KEPT`` of one rank in one go the last stay: numpy assigns in order.
        self.times[rank, slot] = told.time_s[sound][order]
        with np.errstate(over="ignore"):
            self.values[rank, slot] = np.stack(columns, axis=1)
        self.count[rank[first]] += lengths(first, rank.size)

    def _widen(self, ranks: int) -> None:
        more = ranks - self.count.size
        if more > 0:
            self.times = np.pad(self.times, ((0, more), (0, 0)), constant_values=-np.inf)
            self.values = np.pad(self.values, ((0, more), (0, 0), (0, 0)), constant_values=np.nan)
            self.count = np.pad(self.count, (0, more))

    def view(self, rank: int, back_s: float) -> View | None:
        """What ``rank`` went through in the ``back_s`` seconds before its last step ended; None where nobody looked."""
        if rank >= self.count.size or rank >= self.ends_s.size:
            return None
        end = float(self.ends_s[rank])
        back = min(max(back_s, _LEAST_S), _BACK_S)
        mine = (self.times[rank] > end - back) & (self.times[rank] <= end)
        if not mine.any():
            return None
        mask, spans, clock, faults, stalled, quota, held_back = self.values[rank, mine].T.astype(np.float64)
        slowing = mask[~np.isnan(mask)].astype(np.int64)
        span = float(spans.sum())
        return View(
            throttled=float((slowing > 0).mean()) if slowing.size else float("nan"),
            mask=int(np.bitwise_or.reduce(slowing)) if slowing.size else 0,
            clock=_mean(clock),
            faults_per_s=float(np.nansum(faults)) / span if span > 0 and not np.isnan(faults).all() else float("nan"),
            stalled=_mean(stalled),
            quota=_mean(quota),
            held_back=_mean(held_back),
        )

    def troubled(self, rank: int) -> bool:
        """Whether the last that was heard of ``rank`` is any trouble at all: cheap, to be asked of everybody."""
        if rank >= self.count.size or not self.count[rank]:
            return False
        mask, _, _, faults, stalled, _, _ = self.values[rank, (self.count[rank] - 1) % _KEPT].tolist()
        return bool(mask > 0 or faults > 0 or stalled > 0)

    def explains(self, rank: int, peers: Iterable[int], back_s: float) -> bool:
        """Whether the state of its device or node alone makes ``rank`` slower than its peers."""
        own = self.view(rank, back_s)
        return own is not None and _cause(own, self._views(rank, peers, back_s)) is not None

    def _views(self, rank: int, peers: Iterable[int], back_s: float) -> list[View]:
        return [view for peer in peers if peer != rank and (view := self.view(peer, back_s)) is not None]

    def refine(self, verdict: Verdict, rank: int, peers: Iterable[int], back_s: float) -> Verdict:
        """``verdict`` with the cause that the node's or device's state explains better, and what it cleared."""
        own = self.view(rank, back_s)
        if own is None:
            return verdict
        others = self._views(rank, peers, back_s)
        cause = _cause(own, others) if verdict.cause in (*COMPUTING, "host_bound") else None
        if cause is not None:
            return Verdict(cause, verdict.share, verdict.cleared)
        cleared = list(verdict.cleared)
        if not np.isnan(own.throttled):
            cleared.append(f"throttling: in {own.throttled:.0%} of the samples")
        if not np.isnan(own.faults_per_s):
            cleared.append(f"memory pressure: {own.faults_per_s:.0f} major faults/s")
        return Verdict(verdict.cause, verdict.share, cleared)

    def seen(self, rank: int, peers: Iterable[int], back_s: float) -> ConditionsSeen | None:
        """The numbers that ``refine`` rests on; None where nobody looked."""
        own = self.view(rank, back_s)
        if own is None:
            return None
        others = self._views(rank, peers, back_s)
        median = View(
            throttled=_median([view.throttled for view in others]),
            mask=0,
            clock=_median([view.clock for view in others]),
            faults_per_s=_median([view.faults_per_s for view in others]),
            stalled=_median([view.stalled for view in others]),
            quota=_median([view.quota for view in others]),
            held_back=_median([view.held_back for view in others]),
        )
        return ConditionsSeen(own, median)


def _cause(own: View, others: list[View]) -> Cause | None:
    if own.throttled >= _OFTEN:
        clock = _median([view.clock for view in others])
        slower = own.clock < _CLOCK * clock if not np.isnan(clock + own.clock) else None
        alike = _median([view.throttled for view in others]) >= _OFTEN
        if slower or (slower is None and not alike):
            return "throttling"
    faults, stalled = _median([v.faults_per_s for v in others]), _median([v.stalled for v in others])
    swapping = own.faults_per_s >= max(_FAULTS_PER_S, 5 * float(known_or_zero(faults)))
    if swapping or own.stalled >= max(_STALLED, 2 * float(known_or_zero(stalled))):
        return "memory_pressure"
    return None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _mean(values: Array) -> float:
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if measured.size else float("nan")


def _median(values: list[float]) -> float:
    measured = [value for value in values if not np.isnan(value)]
    return float(np.median(measured)) if measured else float("nan")
