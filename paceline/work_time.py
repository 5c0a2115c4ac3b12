"""Work time: a rank's step without waiting for other ranks, and a rank against the median of the others.

Rule of this file: pure. The judged rank is left out of the median: of two ranks, the median of both is half the slow
one's. A difference counts from ``LEAST_EXCESS`` of a step on, as the verdict on stragglers has it.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from paceline.events import JobWindow, RankWindow
from paceline.phases import PHASES
from paceline.words import seconds

WAITING = "communication"
#: Least excess over the others, as a share of the step without it, and the share of it that they must have waited for.
LEAST_EXCESS, WAITED_SHARE = 0.05, 0.25


class Longest(NamedTuple):
    """The rank that works longest, seconds a step, and how much longer that is than the median of the others."""

    rank: int
    work_s: float
    others_s: float

    @property
    def excess_s(self) -> float:
        """Seconds a step."""
        return self.work_s - self.others_s

    @property
    def words(self) -> str:
        """As panel, report and page say it.

        >>> Longest(1, 0.0606, 0.0247).words
        'rank 1 works 35.9 ms a step longer than the others on average'
        """
        return f"rank {self.rank} works {seconds(self.excess_s)} a step longer than the others on average"


def work_s(window: RankWindow) -> float:
    """Mean seconds a step at work: the phases but waiting; the median step of a rank that reports no phases.

    >>> from tests.derived_events import rank_window
    >>> work_s(rank_window(0, 0.5, step_median_s=0.02))
    0.5
    """
    parts = [spent_s for name, spent_s in window.phase_mean_s.items() if name in PHASES and name != WAITING]
    return sum(parts) if parts else window.step_median_s


def medians_of_others(values: Mapping[int, float]) -> dict[int, float]:
    """For each rank the median of all other ranks' values; empty where there are fewer than two.

    >>> medians_of_others({0: 0.052, 1: 0.094})
    {0: 0.094, 1: 0.052}
    >>> medians_of_others({0: 1.0, 1: 2.0, 2: 9.0})
    {0: 5.5, 1: 5.0, 2: 1.5}
    """
    ordered = sorted((value, rank) for rank, value in values.items())
    count = len(ordered)
    if count < 2:
        return {}
    low, high = (count - 2) // 2, (count - 1) // 2
    return {
        rank: (ordered[low + (at <= low)][0] + ordered[high + (at <= high)][0]) / 2
        for at, (_, rank) in enumerate(ordered)
    }


def others_of_worst_s(window: JobWindow) -> float:
    """The work time that the worst rank of ``window`` is compared with: of two ranks the other's.

    Of more ranks the median is all that a window has.
    """
    if window.ranks != 2:
        return window.own_median_s
    return max(2 * window.own_median_s - window.own_worst_s, 0.0)


def longest(values: Mapping[int, float]) -> Longest | None:
    """The rank that works longest, of equals the lowest; None where there is no other."""
    others = medians_of_others(values)
    if not others:
        return None
    rank = min(values, key=lambda one: (-values[one], one))
    return Longest(rank, values[rank], others[rank])


def uneven(
    work: Mapping[int, float], waits: Mapping[int, float], stages: Mapping[int, int] | None = None
) -> Longest | None:
    """The rank that works longest, where that matters: by ``LEAST_EXCESS`` of the step, and the others waited for it.

    >>> uneven({0: 0.0247, 1: 0.0606}, {0: 0.040, 1: 0.004})
    Longest(rank=1, work_s=0.0606, others_s=0.0247)
    >>> uneven({0: 0.0247, 1: 0.0606}, {0: 0.004, 1: 0.004}) is None  # The other did not wait.
    True
    >>> uneven({0: 0.0247, 1: 0.0250}, {0: 0.004, 1: 0.004}) is None
    True

    Args:
        work: Mean seconds a step at work, by rank; NaN is not measured.
        waits: The same of waiting for others.
        stages: The pipeline stage of each rank, where known: another stage has other work, and is not compared.
    """
    by_stage: dict[int, dict[int, float]] = {}
    for rank, spent_s in work.items():
        if math.isfinite(spent_s):
            by_stage.setdefault((stages or {}).get(rank, -1), {})[rank] = spent_s
    found = [one for ranks in by_stage.values() if (one := _uneven(ranks, waits)) is not None]
    return max(found, key=lambda one: one.excess_s, default=None)


def _uneven(work: Mapping[int, float], waits: Mapping[int, float]) -> Longest | None:
    found = longest(work)
    if found is None:
        return None
    waited_s = medians_of_others({rank: waits.get(rank, 0.0) for rank in work})[found.rank]
    least_s = LEAST_EXCESS * (found.work_s + waits.get(found.rank, 0.0) - found.excess_s)
    return found if found.excess_s >= least_s > 0 and waited_s >= WAITED_SHARE * found.excess_s else None
