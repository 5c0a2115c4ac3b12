"""When shares should change, and to what: the same on every rank, from the same observations.

Rule of this file: pure, and only +, -, * and / on floats, whose bits are the same on every machine. The caller says
when a plan takes effect, and tells it by `adopt`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .fixed_cost import Changed, FixedCost
from .plan import Plan, check, check_shares
from .speeds import Speed
from .split import LEAST_SAMPLE_S, MOST_S, Worker, split, step_s

if TYPE_CHECKING:
    from typing import TypeGuard  # newer than 3.9

#: Plans whose observations may still come: batches that were handed out before the newest one.
_KEPT = 8


@dataclass(frozen=True)
class ControllerConfig:
    """Thresholds.

    Args:
        total: samples of the global batch.
        tile: shares are multiples of it.
        conserve: the global batch stays as it is; otherwise it may shrink by ``flex``.
        flex: the part of the global batch that may be left out.
        settle: observations at the start of a plan that do not count: new shapes are slow at first.
        reach: a share becomes at most so many times larger or smaller at once.
        least_gain: the part of a step that a new plan must save, beyond what noise can pretend.
        stale: observations without a time after which a rank's share stays as it is.
    """

    total: int
    tile: int = 1
    conserve: bool = True
    flex: float = 0.0
    settle: int = 1
    reach: int = 3
    least_gain: float = 0.03
    stale: int = 20


@dataclass(frozen=True)
class Replan:
    """Shares that should be taken from now on.

    Args:
        shares: samples a rank.
        reason: an English clause.
        predicted_s: what a step will take with them.
        measured_s: what it takes by the same measurements now.
    """

    shares: tuple[int, ...]
    reason: str
    predicted_s: float
    measured_s: float


class Controller:
    """Hears how long every rank computed, and says when other shares would be better.

    >>> controller = Controller(ControllerConfig(total=12, settle=0), [4, 4, 4])
    >>> controller.observe(0, [1.0, 1.0, 2.0])
    Replan(shares=(5, 5, 2), reason='speeds were measured', predicted_s=1.25, measured_s=2.0)
    """

    def __init__(
        self, config: ControllerConfig, shares: Sequence[int], most: Sequence[int | None] | None = None
    ) -> None:
        check_shares(shares, "the first plan", config.tile)
        self.config = config
        self.version = 0
        self.shares = tuple(shares)
        self._most: list[int | None] = list(most) if most is not None else [None] * len(shares)
        self._plans: dict[int, tuple[int, ...]] = {0: self.shares}
        self._counted: dict[int, int] = {0: 0}
        self._speeds = [Speed() for _ in shares]
        self._unheard = [0] * len(shares)
        self._fixed_cost = FixedCost(config.total / len(shares))
        self._fixed = self._fixed_cost.samples
        self._measured_at = 0
        self._changed: dict[int, float] = {}

    def observe(self, version: int, times_s: Sequence[float | None]) -> Replan | None:
        """One exchange: how long each rank computed under plan ``version``.

        Args:
            version: of the plan that the batch was handed out by; others than the newest few are passed over.
            times_s: seconds a rank, compute-ready; None, NaN and what is not above 0: not measured.

        Returns:
            what to do, asked again with each observation until a plan is adopted; None: nothing.
        """
        shares = self._plans.get(version)
        if shares is None or len(times_s) != len(self.shares):
            return None
        self._counted[version] += 1
        if self._counted[version] <= self.config.settle:
            return None
        if version > self._measured_at:
            self._calibrate(version, shares, times_s)
        noise = self._noise()
        for rank, (speed, share, time_s) in enumerate(zip(self._speeds, shares, times_s)):
            if not _measured(time_s):
                self._unheard[rank] += 1
                continue
            self._unheard[rank] = 0
            factor = speed.update(max(time_s / (self._fixed + share), LEAST_SAMPLE_S), noise)
            if factor is not None:
                self._changed[rank] = self._changed.get(rank, 1.0) * factor
        return self._better()

    def cap(self, rank: int, most: int) -> Replan | None:
        """Rank ``rank`` cannot hold more than ``most`` samples.

        Raises:
            SplitError: the global batch does not fit into what all can hold.
        """
        before = self._most[rank]
        self._most[rank] = most if before is None else min(before, most)
        if self.shares[rank] <= most:
            return None
        known = [speed.level for speed in self._speeds if speed.level is not None]
        typical = statistics.median(known) if known else 1.0
        rows = [
            self._worker(rank, speed.level or typical, self.config.tile, self.config.total)
            for rank, speed in enumerate(self._speeds)
        ]
        shares = self._split(rows)
        return Replan(tuple(shares), f"rank {rank} ran out of memory", step_s(rows, shares), step_s(rows, self.shares))

    def adopt(self, plan: Plan) -> None:
        """``plan`` is what ranks follow from its first batch on; an older one than the newest changes nothing.

        Raises:
            PlanError: it is no plan for this run.
        """
        config = self.config
        flex = 0.0 if config.conserve else config.flex
        check(plan, len(self.shares), total=config.total, flex=flex, tile=config.tile)
        if plan.version <= self.version:
            return
        self.version, self.shares = plan.version, plan.shares
        self._plans[plan.version], self._counted[plan.version] = plan.shares, 0
        self._changed = {}
        for old in sorted(self._plans)[:-_KEPT]:
            del self._plans[old], self._counted[old]

    def _calibrate(self, version: int, shares: tuple[int, ...], times_s: Sequence[float | None]) -> None:
        """The first times under other shares tell the fixed part of a step."""
        before = self._plans.get(self._measured_at, shares)
        changes = [
            Changed(old, speed.level * (self._fixed + old), new, time_s)
            for speed, old, new, time_s in zip(self._speeds, before, shares, times_s)
            if _measured(time_s) and speed.level is not None and old != new
        ]
        self._fixed_cost.update(changes)
        fixed = self._fixed_cost.samples
        for speed, old, new in zip(self._speeds, before, shares):
            speed.rescale((self._fixed + old) / (fixed + old))
            if old != new:
                speed.doubt(2)
        self._fixed, self._measured_at = fixed, version

    def _better(self) -> Replan | None:
        """Shares that are worth a change, if there are."""
        levels = [None if gone > self.config.stale else s.level for s, gone in zip(self._speeds, self._unheard)]
        known = [(level * (self._fixed + self.shares[rank]), rank) for rank, level in enumerate(levels) if level]
        if not known:
            return None
        measured_s, slowest = max(known)
        worth = 1 + self.config.least_gain + self._doubt(slowest)
        rows = [self._row(rank, level) for rank, level in enumerate(levels)]
        shares = self._split(rows)
        predicted_s = max(level * (self._fixed + shares[rank]) for rank, level in enumerate(levels) if level)
        if measured_s * sum(shares) <= worth * predicted_s * sum(self.shares):
            return None
        return Replan(tuple(shares), self._reason(), predicted_s, measured_s)

    def _row(self, rank: int, level: float | None) -> Worker:
        share = self.shares[rank]
        if level is None:
            return Worker(0.0, LEAST_SAMPLE_S, share, share)
        return self._worker(rank, level, max(share // self.config.reach, self.config.tile), share * self.config.reach)

    def _worker(self, rank: int, level: float, least: int, most: int) -> Worker:
        cap = self._most[rank]
        most = most if cap is None else min(most, cap)
        return Worker(level * self._fixed, level, max(min(least, most), self.config.tile), most)

    def _split(self, rows: list[Worker]) -> list[int]:
        config = self.config
        return split(rows, config.total, tile=config.tile, flex=0.0 if config.conserve else config.flex)

    def _noise(self) -> float:
        return statistics.median(speed.noise for speed in self._speeds)

    def _doubt(self, slowest: int) -> float:
        """By what noise alone can make the slowest of n ranks look slower: sqrt(2 ln n) standard errors of it."""
        speed = self._speeds[slowest]
        n = len(self._speeds)
        whole = n.bit_length() - 1
        logarithm = 0.6931471805599453 * (whole + n / (1 << whole) - 1)
        noise = max(speed.noise, self._noise())
        return 1.8 * noise * math.sqrt(2 * logarithm / speed.count)

    def _reason(self) -> str:
        if not self._changed:
            return "speeds were measured"
        rank, factor = max(self._changed.items(), key=lambda item: max(item[1], 1 / item[1]))
        words = f"{factor:.2f} times slower" if factor > 1 else f"{1 / factor:.2f} times faster"
        more = f" and {len(self._changed) - 1} more ranks changed" if len(self._changed) > 1 else ""
        return f"rank {rank} became {words}{more}"

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "version": self.version,
            "plans": [[version, list(shares), self._counted[version]] for version, shares in self._plans.items()],
            "most": list(self._most),
            "speeds": [speed.snapshot() for speed in self._speeds],
            "unheard": list(self._unheard),
            "fixed_cost": self._fixed_cost.snapshot(),
            "fixed": self._fixed,
            "measured_at": self._measured_at,
            "changed": [list(item) for item in self._changed.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot of a controller of as many ranks."""
        self.version = state["version"]
        self._plans = {version: tuple(shares) for version, shares, _ in state["plans"]}
        self._counted = {version: counted for version, _, counted in state["plans"]}
        self.shares = self._plans[self.version]
        self._most = list(state["most"])
        for speed, each in zip(self._speeds, state["speeds"]):
            speed.restore(each)
        self._unheard = list(state["unheard"])
        self._fixed_cost.restore(state["fixed_cost"])
        self._fixed, self._measured_at = state["fixed"], state["measured_at"]
        self._changed = dict(state["changed"])


def _measured(time_s: float | None) -> TypeGuard[float]:
    return time_s is not None and 0 < time_s <= MOST_S
