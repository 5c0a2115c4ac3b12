"""A balanced job, second by second: its ranks compute as fast as they are told, and follow a plan when they are told.

Rule of this file: pure and seeded; time is an argument of the events alone.
"""

from random import Random
from typing import Any

from paceline.events import BalanceObserved, BalancePlan

#: When the job began (Unix time); it takes ten steps a second, and tells of one.
START_S, STEPS = 1_700_000_000.0, 10


class BalancedJob:
    """Ranks that take ``fixed_s`` and a second for every ``speeds`` samples, to within ``noise``."""

    def __init__(
        self,
        speeds: tuple[float, ...] = (100.0, 100.0, 200.0, 400.0),
        total: int = 256,
        *,
        source: str = "kafka",
        job: str = "balanced",
        noise: float = 0.02,
        **fields: Any,
    ) -> None:
        self.speeds, self.noise, self.fixed_s = list(speeds), noise, 0.01
        share, left = divmod(total, len(speeds))
        self.shares = [share + (rank < left) for rank in range(len(speeds))]
        self.version = 0
        self.second = 0
        self._random = Random(3)
        self._head = {"cluster": "default", "job": job, "attempt": 0}
        self._told = {"source": source, "global_batch": total, **fields}

    @property
    def batch(self) -> int:
        """The batch that is trained on now."""
        return self.second * STEPS

    @property
    def at_s(self) -> float:
        """Now."""
        return START_S + self.second

    @property
    def step_s(self) -> float:
        """Seconds until the slowest rank is done, without noise."""
        return max(self.fixed_s + share / speed for share, speed in zip(self.shares, self.speeds, strict=True))

    def observed(self, **changed: Any) -> BalanceObserved:
        """What is told of this second; the next begins."""
        ready = [
            (self.fixed_s + share / speed) * self._random.lognormvariate(0.0, self.noise)
            for share, speed in zip(self.shares, self.speeds, strict=True)
        ]
        told = {
            "producer": "node-0-1",
            "sequence": self.second,
            "node": "node-0",
            "t0_s": self.at_s,
            "version": self.version,
            "batch": self.batch,
            "shares": list(self.shares),
            "ready_s": ready,
        }
        self.second += 1
        return BalanceObserved(**{**self._head, **told, **self._told, **changed})

    def follow(self, plan: BalancePlan) -> BalancePlan:
        """Its ranks follow ``plan`` from now on; what rank 0 tells of that."""
        self.version, self.shares = plan.version, list(plan.shares)
        return self.plan(plan.reason, plan.predicted_step_s, plan.measured_step_s, plan.made_by)

    def plan(
        self, reason: str = "", predicted_s: float | None = None, measured_s: float | None = None, by: str = "inband"
    ) -> BalancePlan:
        """The plan that is followed, as rank 0 tells it."""
        return BalancePlan(
            **self._head,
            time_s=self.at_s,
            version=self.version,
            first_batch=self.batch,
            shares=list(self.shares),
            reason=reason,
            predicted_step_s=predicted_s,
            measured_step_s=measured_s,
            made_by=by,
        )
