"""What the ranks' nodes and devices went through while a rank was slow: throttled, swapping, or neither.

Rule of this file: pure. Conditions come with the rows of the same node, so those up to the end of a rank's step are
there whenever the step is: the same events give the same answer. What no node measures changes no verdict.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from paceline.events import Cause, RankCondition
from paceline.gpu import throttle

from ..episodes.causes import Verdict
from ..robust import Array, known_or_zero

#: Conditions kept of each rank, and how far back a look goes, at most and at least.
_KEPT = 32
_BACK_S = 8.0
_LEAST_S = 2.0
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


class ConditionsSeen(NamedTuple):
    """What a rank went through, and the median of its peers; NaN is not measured."""

    own: View
    peers: View


class RankConditions:
    """The last conditions of every rank."""

    def __init__(self) -> None:
        self.kept: dict[int, list[tuple[float, float, float, float, float, float, float]]] = {}
        self.ends_s: Array = np.empty(0)

    def update(self, conditions: Iterable[RankCondition]) -> None:
        """Take down what a batch brought."""
        for one in conditions:
            mask = float("nan") if one.throttle_reasons is None else float(one.throttle_reasons)
            row = (one.time_s, one.span_s, mask, _number(one.sm_clock_mhz), _number(one.major_faults))
            more = (_number(one.pressure_memory_ratio), _number(one.swap_used_bytes))
            self.kept[one.rank] = [*self.kept.get(one.rank, [])[-_KEPT + 1 :], (*row, *more)]

    def view(self, rank: int, back_s: float) -> View | None:
        """What ``rank`` went through in the ``back_s`` seconds before its last step ended; None where nobody looked."""
        end = float(self.ends_s[rank]) if rank < self.ends_s.size else float("nan")
        back = min(max(back_s, _LEAST_S), _BACK_S)
        rows = [row for row in self.kept.get(rank, []) if end - back < row[0] <= end]
        if not rows:
            return None
        table = np.array(rows)
        masks = table[:, 2][~np.isnan(table[:, 2])].astype(np.int64)
        slowing = masks & throttle.SLOWING
        span = float(table[:, 1].sum())
        faults = table[:, 4]
        return View(
            throttled=float((slowing > 0).mean()) if masks.size else float("nan"),
            mask=int(np.bitwise_or.reduce(slowing)) if masks.size else 0,
            clock=_mean(table[:, 3]),
            faults_per_s=float(np.nansum(faults)) / span if span > 0 and not np.isnan(faults).all() else float("nan"),
            stalled=_mean(table[:, 5]),
        )

    def troubled(self, rank: int) -> bool:
        """Whether the last that was heard of ``rank`` is any trouble at all: cheap, to be asked of everybody."""
        rows = self.kept.get(rank)
        if not rows:
            return False
        _, _, mask, _, faults, stalled, _ = rows[-1]
        slowed = not np.isnan(mask) and bool(int(mask) & throttle.SLOWING)
        return slowed or faults > 0 or stalled > 0

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
        cause = _cause(own, others) if verdict.cause in ("worker_compute", "unknown") else None
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
        )
        return ConditionsSeen(own, median)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {"kept": [[rank, [list(row) for row in rows]] for rank, rows in self.kept.items()], "ends": self.ends_s}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.kept = {rank: [tuple(row) for row in rows] for rank, rows in data["kept"]}
        self.ends_s = data["ends"]


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
