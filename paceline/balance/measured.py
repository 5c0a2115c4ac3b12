"""What is known of all ranks' speeds, and of the part of a step that no share changes.

Rule of this file: pure, and only +, -, *, / and square roots on floats, whose bits are the same on every machine. A
rank's step takes ``level * (fixed + share)`` seconds; ``fixed`` is one number for all, in samples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .fixed_cost import Changed, FixedCost
from .speeds import Speed
from .worker import LEAST_SAMPLE_S, MOST_S

if TYPE_CHECKING:
    from typing import TypeGuard  # newer than 3.9

#: After a change of its share, a rank's speed stands for at most so many values: it comes from another share.
_TRUSTED = 2
#: By which part a standard error of one value is taken to be larger.
_FEW = 0.5
#: All speeds follow what all have in common by one part in so many a step: what is told is seconds.
_FOLLOWED = 16
#: … of a factor of at most so much: a single step in which all stood still for an hour is soon forgotten.
_MOST_COMMON = 2.0
_LN_2 = 0.6931471805599453


class Measured:
    """The ranks of a run.

    Args:
        ranks: how many there are.
        mean_share: samples a rank.
        stale: times that may be missing in a row before a rank counts as unknown.
    """

    def __init__(self, ranks: int, mean_share: float, stale: int) -> None:
        self._stale = stale
        #: In units of ``_unit`` seconds, which follows what all ranks have in common.
        self._speeds = [Speed() for _ in range(ranks)]
        self._unit = 1.0
        self._unheard = [0] * ranks
        self._fixed_cost = FixedCost(mean_share)
        self.fixed = self._fixed_cost.samples
        #: Ranks whose speed was replaced since `forget_changes`, and by which factor.
        self._changed: dict[int, float] = {}

    def update(self, shares: Sequence[int], times_s: Sequence[float | None]) -> None:
        """One time a rank under ``shares``; None, NaN, and what is not above 0 or is above 11 days: not measured."""
        noise = self._noise()
        values = [
            max(time_s / ((self.fixed + share) * self._unit), LEAST_SAMPLE_S) if _is_time(time_s) else None
            for share, time_s in zip(shares, times_s)
        ]
        common = self._common(values)
        for rank, (speed, value) in enumerate(zip(self._speeds, values)):
            if value is None:
                self._unheard[rank] = min(self._unheard[rank] + 1, self._stale + 1)
                continue
            self._unheard[rank] = 0
            factor = speed.update(max(value / common, LEAST_SAMPLE_S), noise)
            if factor is not None:
                self._changed[rank] = self._changed.get(rank, 1.0) * factor
        self._unit *= 1 + (min(common, _MOST_COMMON) - 1) / _FOLLOWED

    def _common(self, values: Sequence[float | None]) -> float:
        """By which factor this step was longer for all than their speeds say: the median over ranks.

        It changes no share. Ranks that are slowed down together, as by what they have in common, would be found out one
        after the other, and look unlike meanwhile. 1 where fewer than half of them are measured; of two, too, where the
        middle would take half of what one alone has slowed down by for common.
        """
        factors = [
            value / speed.level
            for speed, value in zip(self._speeds, values)
            if value is not None and speed.level is not None
        ]
        if len(factors) < 3 or 2 * len(factors) < len(self._speeds):
            return 1.0
        return max(statistics.median(factors), LEAST_SAMPLE_S)

    def calibrate(self, before: Sequence[int], shares: Sequence[int], times_s: Sequence[float | None]) -> None:
        """The first times under other shares than ``before`` tell the fixed part; to be called ahead of `update`."""
        changes = [
            Changed(old, speed.level * self._unit * (self.fixed + old), new, time_s)
            for speed, old, new, time_s in zip(self._speeds, before, shares, times_s)
            if _is_time(time_s) and speed.level is not None and old != new
        ]
        self._fixed_cost.update(changes)
        fixed = self._fixed_cost.samples
        for speed, old, new in zip(self._speeds, before, shares):
            speed.rescale((self.fixed + old) / (fixed + old))
            if old != new:
                speed.doubt(_TRUSTED)
        self.fixed = fixed

    def levels(self) -> list[float | None]:
        """Seconds a sample of each rank; None where it is not known, or not any more."""
        return [
            None if gone > self._stale or speed.level is None else speed.level * self._unit
            for speed, gone in zip(self._speeds, self._unheard)
        ]

    def uncertainty(self, ranks: Iterable[int]) -> float:
        """By which part noise alone can make one of ``ranks`` look the slowest of n: sqrt(2 ln n) standard errors.

        They are half as large again for a single value and less so for more, as noise is not known better then. The
        logarithm is interpolated between powers of two: a library's may differ in its last bit.
        """
        n, typical = len(self._speeds), self._noise()
        whole = n.bit_length() - 1
        logarithm = _LN_2 * (whole + n / (1 << whole) - 1)

        def of(speed: Speed) -> float:
            count = max(speed.count, 1)
            return max(speed.noise, typical) * math.sqrt(2 * logarithm / count) * (1 + _FEW / count)

        return max(of(self._speeds[rank]) for rank in ranks)

    def reason(self) -> str:
        """Which rank changed most since `forget_changes`, as an English clause."""
        if not self._changed:
            return "speeds were measured"
        rank, factor = max(self._changed.items(), key=lambda item: max(item[1], 1 / item[1]))
        words = f"{factor:.2f} times slower" if factor > 1 else f"{1 / factor:.2f} times faster"
        more = len(self._changed) - 1
        return f"rank {rank} became {words}" + (f", and {more} more changed" if more else "")

    def forget_changes(self) -> None:
        """A plan answers what changed so far."""
        self._changed = {}

    def _noise(self) -> float:
        """Of a typical rank: a rank's own can be too small by chance."""
        return statistics.median(speed.noise for speed in self._speeds)

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "speeds": [speed.snapshot() for speed in self._speeds],
            "unheard": list(self._unheard),
            "fixed_cost": self._fixed_cost.snapshot(),
            "fixed": self.fixed,
            "unit": self._unit,
            "changed": [list(item) for item in self._changed.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot of as many ranks."""
        for speed, each in zip(self._speeds, state["speeds"]):
            speed.restore(each)
        self._unheard = list(state["unheard"])
        self._fixed_cost.restore(state["fixed_cost"])
        self.fixed = state["fixed"]
        self._unit = state.get("unit", 1.0)
        self._changed = dict(state["changed"])


def _is_time(time_s: float | None) -> TypeGuard[float]:
    return time_s is not None and 0 < time_s <= MOST_S
