"""Is a rank late, and has it been for long enough: the statistics of the straggler verdict.

Rule of this file: pure arithmetic over a history of ticks; no names, no causes, no states.

A rank is late over n ticks when the median of its excess over the peers is at least ``least`` and stands
``sigmas + sqrt(2 ln ranks)`` spreads out of what its peers and its own jitter explain, when it was late in nearly all
of the ticks (one slow step is noise), and when its peers really waited for it (a rank that nobody waits for holds
nobody back).

The excess is judged as a whole and in its quieter parts (input, garbage collection, time outside any phase): a stall of
the input shows far more clearly in time spent on input than in the whole, where the noise of the computing drowns it.
Time without a processor is judged apart, by a larger bar, because on shared cores neighbours come and go; and so is
the work without it, in which a rank that computes longer shows where waiting for processors makes the whole a lottery.
Of a pipeline also what a rank does not share with the other stages of its pipeline is judged: long sequences slow all
of them.

A rank whose device or node is known to be in trouble, and those of its peers are not, needs no such bar: what is
known of it speaks for itself, and the times only have to agree.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..robust import Array, nanmedian
from . import lateness_bar as bars
from .lateness_bar import JUDGED
from .straggler_config import StragglerConfig
from .tick_history import Flags, TickHistory

#: In place of an excess beyond single precision.
_MOST = float(np.finfo(np.float32).max)
#: In place of a row of ``JUDGED``.
EXPLAINED = -1


class LateRanks(NamedTuple):
    """What one look over n ticks says: which ranks are late, by how many times the bar, and by what share of the step.

    ``part`` is the row of ``JUDGED`` in which a rank's lateness shows: 0 where the whole work does, the quiet part that
    stands out where it does not, and ``EXPLAINED`` where only what is known of its device or node speaks.
    """

    late: Flags
    margin: Array
    part: NDArray[np.int64]
    excess: Array

    def of(self, rank: int, config: StragglerConfig, explained: Callable[[int], bool]) -> tuple[float, int]:
        """Margin and part of one rank, whether it is ``explained`` asked again."""
        margin, part = float(self.margin[rank]), int(self.part[rank])
        by_bar = min(float(self.excess[rank] / config.least_excess), _MOST)  # not a number: of no rank that is judged
        if by_bar >= 1.0 and margin < by_bar and explained(rank):
            return by_bar, part if margin >= 1.0 else EXPLAINED
        return margin, part


def late_ranks(
    history: TickHistory, ticks: int, config: StragglerConfig, explained: Callable[[int], bool] | None = None
) -> LateRanks:
    """Judge every rank over the last ``ticks`` ticks.

    Args:
        explained: whether the device or the node of a rank is in trouble that its peers do not have.
    """
    ranks = history.table.shape[2]
    if not history.near(ticks, config):
        return _nobody(ranks)
    made, at = history.judged(ticks, config)
    if not made.reached[at]:
        return _nobody(ranks)  # nobody is near any bar
    margin, part = made.margin[at], made.part[at]
    if told := [rank for rank in made.asked[at] if explained is not None and explained(rank)]:
        margin, part = margin.copy(), part.copy()
        part[told] = np.where(margin[told] >= 1.0, part[told], EXPLAINED)
        margin[told] = made.by_bar[at, told]
    late = (margin >= 1.0) & made.waited_for[at]
    if 2 * np.count_nonzero(late) > made.most[at]:
        # Most of the job cannot be late behind itself: there is no healthy cohort to compare with.
        return _nobody(ranks)
    return LateRanks(late, margin, part, made.excess[at])


def _nobody(ranks: int) -> LateRanks:
    return LateRanks(np.zeros(ranks, dtype=bool), np.zeros(ranks), np.zeros(ranks, dtype=np.int64), np.zeros(ranks))


def calm(history: TickHistory, ticks: int, config: StragglerConfig, ranks: list[int]) -> list[bool]:
    """Which of ``ranks`` are back among their peers: under half of every bar, over the last ``ticks`` ticks."""
    median = nanmedian(history.table[: len(JUDGED), -ticks:, ranks], axis=1)
    quiet: Flags = np.asarray((median < bars.least(config, history.contended)[:, None] / 2).all(axis=0))
    return [bool(one) for one in quiet]
