"""Whether a run has been measured, hangs or has failed: one look after the other.

Rule of this file: pure. Time is an argument; what a process does about it is ``inside``.
"""

from typing import NamedTuple

from .halving import Outcome
from .last_words import KILLED
from .plan import Measuring

#: Exit statuses that SIGKILL leaves.
KILLED_STATUSES = (137, -9)


class End(NamedTuple):
    """How a run is to be counted, and why in a sentence."""

    outcome: Outcome
    reason: str


class Watch:
    """Tells when a run is to be ended. Times are seconds since it was started."""

    def __init__(self, plan: Measuring) -> None:
        self._plan = plan
        self._last = -1
        self._moved_s = 0.0

    def look(self, now_s: float, last_step: int, steps: int, seconds: float) -> End | None:
        """What to end the run for; None: go on. ``last_step`` is -1 before the first, ``steps`` those that count."""
        plan = self._plan
        if last_step != self._last:
            self._last, self._moved_s = last_step, now_s
        if plan.enough(steps, seconds):
            return End("measured", "")
        if now_s >= plan.limit_s:
            return self._late(steps, seconds, f"over its limit of {plan.limit_s:.0f} s")
        if last_step < 0 and now_s >= plan.start_s:
            return End("hung", f"no step ended within {plan.start_s:.0f} s (start_s)")
        if last_step >= 0 and now_s - self._moved_s >= plan.hang_s:
            return End("hung", f"no step ended for {plan.hang_s:.0f} s after step {last_step} (hang_s)")
        return None

    def _late(self, steps: int, seconds: float, why: str) -> End:
        if self._plan.nearly(steps, seconds):
            return End("measured", f"{why}, with {steps} steps")
        return End("hung", f"{why}, {steps} steps after the warm-up")

    def ended(self, status: int, memory: str, steps: int, seconds: float) -> End:
        """It ended by itself; ``memory`` is what it said of it, as ``last_words`` has it."""
        plan = self._plan
        if plan.enough(steps, seconds) or (status == 0 and plan.nearly(steps, seconds)):
            return End("measured", "")
        if memory or status in KILLED_STATUSES:
            return End("out_of_memory", f"{memory or KILLED} (status {status})")
        if plan.nodes > 1 and plan.nearly(steps, seconds):
            return End("measured", "another node ended first")
        if status == 0:
            return End("crashed", f"ended by itself with {steps} steps after the warm-up, too few to judge")
        return End("crashed", f"status {status} with {steps} steps after the warm-up")
