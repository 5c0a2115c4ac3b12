"""What the page holds of a job's balancer: the plans that its ranks followed, one that is proposed, and their times.

Rule of this file: pure and bounded. A plan of another number of ranks belongs to another run of the job; what was held
of the run before goes.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from paceline.events import BalanceObserved, BalancePlan

from .step_ring import Floats, Ints

#: Plans of the log, and observations, about one a second; fewer of many ranks, so that they take no more numbers.
PLANS, OBSERVATIONS = 200, 3_600
PLAN_CELLS, CELLS = 500_000, 2_000_000
#: Observations that shrinking leaves.
LEAST = 60


class FollowedPlan(NamedTuple):
    """A plan without its shares, these as an array, and what a step took under it: None before it was measured."""

    event: BalancePlan
    shares: Ints
    took_s: float | None = None


@dataclass(frozen=True)
class BalanceView:
    """A copy of all that is held; ``ready_s`` is ranks x observations, NaN where not measured.

    ``plans`` are those followed, the newest last; ``proposed`` is one that no rank follows yet. ``at_s`` (Unix time),
    ``batch`` and ``version`` have an entry an observation.
    """

    plans: tuple[FollowedPlan, ...]
    proposed: FollowedPlan | None
    shares: Ints
    source: str
    mode: str
    at_s: npt.NDArray[np.float64]
    batch: Ints
    version: Ints
    ready_s: Floats

    @property
    def step_s(self) -> Floats:
        """Of each observation, what its slowest rank took."""
        return slowest(self.ready_s)


class _Observation(NamedTuple):
    at_s: float
    batch: int
    version: int
    ready_s: Floats


class BalanceBook:
    """The balancer of one attempt of one job."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._plans: list[FollowedPlan] = []
        self._proposed: FollowedPlan | None = None
        self._observed: deque[_Observation] = deque(maxlen=OBSERVATIONS)
        self._shares: Ints = np.empty(0, np.int64)
        self._source = self._mode = ""

    @property
    def cells(self) -> int:
        """Numbers that it takes."""
        plans = len(self._plans) + (self._proposed is not None)
        return self._shares.size * (len(self._observed) + 2 * plans)

    def shrink(self) -> int:
        """Keep half as many observations; how many numbers less that is, 0 where it goes no further."""
        before = self.cells
        for _ in range(len(self._observed) // 2 if len(self._observed) >= 2 * LEAST else 0):
            self._observed.popleft()
        return before - self.cells

    def plan(self, event: BalancePlan) -> None:
        """Take a plan: one without a first batch is proposed, any other is followed."""
        shares = np.array(event.shares, np.int64)
        self._of_world(shares)
        line = FollowedPlan(msgspec.structs.replace(event, shares=[]), shares)
        if event.first_batch is None:
            self._proposed = line if self._newer(line) else self._proposed
            return
        same = (event.version, event.first_batch)
        kept = [one for one in self._plans if (one.event.version, one.event.first_batch) != same]
        kept = sorted([*kept, line], key=lambda one: one.event.time_s)
        self._plans = kept[-max(1, min(PLANS, PLAN_CELLS // shares.size)) :]
        self._shares = self._plans[-1].shares
        if self._proposed is not None and self._proposed.event.version <= self._plans[-1].event.version:
            self._proposed = None

    def _newer(self, proposed: FollowedPlan) -> bool:
        """Whether ranks may still come to follow it."""
        held = -1 if self._proposed is None else self._proposed.event.version
        followed = self._plans[-1].event.version if self._plans else -1
        return proposed.event.version > max(held, followed)

    def observe(self, event: BalanceObserved) -> None:
        """Take an observation; one that is older than the newest changes nothing."""
        shares = np.array(event.shares, np.int64)
        self._of_world(shares)
        if self._observed and event.t0_s < self._observed[-1].at_s and event.batch < self._observed[-1].batch:
            return
        ready_s = np.array([np.nan if one is None else one for one in event.ready_s], np.float32)
        self._observed.append(_Observation(event.t0_s, event.batch, event.version, ready_s))
        while len(self._observed) * shares.size > CELLS and len(self._observed) > LEAST:
            self._observed.popleft()
        self._shares, self._source, self._mode = shares, event.source, event.mode

    def _of_world(self, shares: Ints) -> None:
        if self._shares.size not in (0, shares.size):
            self._clear()
        if not self._shares.size:
            self._shares = shares

    def view(self) -> BalanceView | None:
        """A copy of what is held; None where the job has no balancer that was heard of."""
        if not self._shares.size:
            return None
        observed = list(self._observed)
        version = np.array([one.version for one in observed], np.int64)
        ready_s = np.array([one.ready_s for one in observed], np.float32).reshape(-1, self._shares.size).T
        step_s = slowest(ready_s)
        return BalanceView(
            plans=tuple(one._replace(took_s=_median(step_s[version == one.event.version])) for one in self._plans),
            proposed=self._proposed,
            shares=self._shares,
            source=self._source,
            mode=self._mode or (self._plans[-1].event.mode if self._plans else ""),
            at_s=np.array([one.at_s for one in observed], np.float64),
            batch=np.array([one.batch for one in observed], np.int64),
            version=version,
            ready_s=ready_s,
        )


def slowest(ready_s: Floats) -> Floats:
    """Of each observation the longest time, NaN where none was measured; ``ready_s`` is ranks x observations.

    >>> slowest(np.array([[1.0, np.nan], [3.0, np.nan]], np.float32)).tolist()
    [3.0, nan]
    """
    longest: Floats = np.fmax.reduce(ready_s, axis=0) if ready_s.size else np.empty(0, np.float32)
    return longest


def _median(step_s: Floats) -> float | None:
    known = step_s[np.isfinite(step_s)]
    return float(np.median(known)) if known.size else None
