"""What balancing brought: steps before it reacted beside steps now.

Rule of this file: pure. A job's first plan comes of a warm-up in which no rank was slow yet, and the plans after the
one that reacted refine what is balanced already: what a step took before that one plan is what there is to win back.
"""

import statistics
from collections import deque
from collections.abc import Iterable

from paceline.events import BalanceObserved, BalancePlan

#: Observations that say how long a step takes now, about one a second.
RECENT = 30


def reacted(plans: Iterable[BalancePlan]) -> BalancePlan | None:
    """The followed plan that was to win most of what was measured before it; None where none was measured.

    Of plans that were to win nothing it is the first: the only one that followed equal shares.

    >>> def plan(version, measured_s, predicted_s):
    ...     told = dict(cluster="c", job="j", attempt=0, time_s=0.0, shares=[1, 1], made_by="inband", first_batch=0)
    ...     return BalancePlan(version=version, measured_step_s=measured_s, predicted_step_s=predicted_s, **told)
    >>> reacted([plan(1, 0.114, 0.110), plan(2, 0.206, 0.180), plan(3, 0.184, 0.183)]).version
    2
    """
    measured = [plan for plan in plans if plan.first_batch is not None and plan.measured_step_s is not None]
    return max(measured, key=_promised, default=None)


def _promised(plan: BalancePlan) -> float:
    before_s, after_s = plan.measured_step_s, plan.predicted_step_s
    return 0.0 if before_s is None or after_s is None else max(before_s - after_s, 0.0)


class BalanceGain:
    """One job's plans and newest times, as they come."""

    def __init__(self) -> None:
        self._plan: BalancePlan | None = None
        self._version = -1
        self._step_s: deque[float] = deque(maxlen=RECENT)

    def update(self, event: BalancePlan | BalanceObserved) -> None:
        """Take in a plan, or what ranks measured under one."""
        if isinstance(event, BalancePlan):
            self._plan = reacted([*([self._plan] if self._plan else []), event])
            return
        ready_s = [one for one in event.ready_s if one is not None]
        if event.version < self._version or not ready_s:
            return
        if event.version > self._version:
            self._step_s.clear()
        self._version = event.version
        self._step_s.append(max(ready_s))

    def in_words(self) -> str | None:
        """Both in milliseconds; None where either is not known, or no plan has been followed since."""
        plan = self._plan
        if plan is None or plan.measured_step_s is None or not self._step_s or self._version < plan.version:
            return None
        before_ms, now_ms = plan.measured_step_s * 1e3, statistics.median(self._step_s) * 1e3
        return f"balanced: the slowest rank computes {now_ms:.0f} ms a step now, {before_ms:.0f} ms before"
