"""When shares should change, and to what: the same on every rank, from the same observations.

Rule of this file: pure, and only +, -, *, / and square roots on floats, whose bits are the same on every machine. The
caller says when a plan takes effect, and tells it by `adopt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .measured import Measured
from .plan import Plan, Standing, check
from .replan import ControllerConfig, Replan, better, fitting
from .worker import SplitError, in_tiles

__all__ = ["Controller", "ControllerConfig", "Replan"]

#: Plans whose observations may still come: batches that were handed out before the newest one.
_KEPT = 8


class Controller:
    """Hears how long every rank computed, and says when other shares would be better.

    A rank's speed is a mean that grows surer with every time, and is replaced at once where two times or more say that
    it changed (`speeds.py`); the fixed part of a step is learned from what changes of the shares did (`fixed_cost.py`).
    Other shares are worth it where they save ``least_gain`` beyond what noise can pretend.

    Args:
        config: the global batch and the thresholds.
        shares: samples a rank that the run begins with, as plan 0.
        most: samples that each rank can hold; None: as many as there are.

    Raises:
        PlanError: the shares are not those of such a batch.
        SplitError: the batch is no multiple of the tile, or the limits are not one a rank.

    >>> controller = Controller(ControllerConfig(total=12, settle=0), [4, 4, 4])
    >>> controller.observe(0, [1.0, 1.0, 2.0])
    Replan(shares=(5, 5, 2), reason='speeds were measured', predicted_s=1.25, measured_s=2.0)
    """

    def __init__(
        self, config: ControllerConfig, shares: Sequence[int], most: Sequence[int | None] | None = None
    ) -> None:
        self.config = config
        self.version = 0
        self.shares = tuple(shares)
        in_tiles(config.total, config.tile, config.shrinks)
        self.check(Plan(0, 0, self.shares))
        self._most = [None] * len(shares) if most is None else list(most)
        if len(self._most) != len(shares):
            raise SplitError(f"{len(self._most)} limits for {len(shares)} ranks: it takes one a rank, or none at all")
        #: Version -> shares, and observations heard.
        self._plans = {0: self.shares}
        self._heard = {0: 0}
        self._measured = Measured(len(shares), config.total / len(shares), config.stale)
        self._measured_at = 0

    def observe(self, version: int, times_s: Sequence[float | None]) -> Replan | None:
        """One exchange: how long each rank computed under plan ``version``.

        Args:
            version: of the plan that the batch was handed out by; others than the newest few are passed over.
            times_s: seconds a rank, compute-ready, shape (ranks,); None, NaN and what is not above 0: not measured.

        Returns:
            what to do, again with each observation until a plan is adopted; None: nothing.
        """
        shares = self._plans.get(version)
        if shares is None or len(times_s) != len(self.shares):
            return None
        self._heard[version] += 1
        if self._heard[version] > self.config.settle:
            if version > self._measured_at:
                before = self._plans.get(self._measured_at, shares)
                self._measured.calibrate(before, shares, times_s)
                self._measured_at = version
            self._measured.update(shares, times_s)
        return self._answer(self._most) or better(self.config, self._measured, self.shares, self._most)

    def cap(self, rank: int, most: int) -> Replan | None:
        """Rank ``rank`` cannot hold more than ``most`` samples.

        Returns:
            what to do at once; None where the rank's share is no larger.

        Raises:
            SplitError: the global batch does not fit into what all can hold; nothing has changed.
        """
        return self.hold([most if place == rank else None for place in range(len(self.shares))])

    def hold(self, most: Sequence[int | None]) -> Replan | None:
        """No rank can hold more than its entry of ``most``; None says nothing new of a rank.

        Returns:
            what to do at once; None where no rank's share is larger.

        Raises:
            SplitError: the limits are not one a rank, or the global batch does not fit into what all can hold; nothing
                has changed.
        """
        if len(most) != len(self._most):
            raise SplitError(f"{len(most)} limits for {len(self._most)} ranks: it takes one a rank")
        caps = [
            before if new is None else new if before is None else min(before, new)
            for before, new in zip(self._most, most)
        ]
        answer = self._answer(caps)
        self._most = caps
        return answer

    def adopt(self, plan: Plan) -> None:
        """``plan`` is what ranks follow from its first batch on; one that is not newer changes nothing.

        Raises:
            PlanError: it is no plan for this run.
        """
        self.check(plan)
        if plan.version <= self.version:
            return
        self.version, self.shares = plan.version, plan.shares
        self._plans[plan.version], self._heard[plan.version] = plan.shares, 0
        self._measured.forget_changes()
        for old in sorted(self._plans)[:-_KEPT]:
            del self._plans[old], self._heard[old]

    def _answer(self, caps: Sequence[int | None]) -> Replan | None:
        return fitting(self.config, self._measured, self.shares, caps)

    def check(self, plan: Plan) -> None:
        """Refuses what this run's ranks cannot follow.

        Raises:
            PlanError: the message says why.
        """
        config = self.config
        check(plan, len(self.shares), total=config.total, flex=config.shrinks, tile=config.tile)

    @property
    def standing(self) -> Standing:
        """What a plan from outside must fit, without the number and the version of the run."""
        config = self.config
        return Standing(len(self.shares), None, None, config.total, config.shrinks, config.tile, self._most)

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "plans": [[version, list(shares), self._heard[version]] for version, shares in self._plans.items()],
            "most": list(self._most),
            "measured": self._measured.snapshot(),
            "measured_at": self._measured_at,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot of a controller of as many ranks with the same config."""
        self._plans = {version: tuple(shares) for version, shares, _ in state["plans"]}
        self._heard = {version: heard for version, _, heard in state["plans"]}
        self.version = max(self._plans)
        self.shares = self._plans[self.version]
        self._most = list(state["most"])
        self._measured.restore(state["measured"])
        self._measured_at = state["measured_at"]
