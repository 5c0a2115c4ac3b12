"""Cadence: in which rounds ranks tell one another how long they took, waiting for it or in the background.

Rule of this file: pure. What it decides by is the same on every rank, so all come to the same rounds.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

#: The part of a step that telling may cost: once by exchanges that are waited for, and once by those in the background.
#: What the threads of the exchange itself take is not seen, so it is less than a job would give.
MOST_COST = 0.0025
#: Rounds at most from one time to the next, whatever it costs: changes must be noticed.
MOST_ROUNDS = 64
#: The first settling, in exchanges, and how many lie between two later ones. The second comes at the next exchange, no
#: more rounds later than that: by then it is known what the background costs.
_FIRST, _BETWEEN = 8, 128


def rounds_between(costs_s: Sequence[float], steps_s: Sequence[float]) -> int:
    """Rounds from one exchange to the next, such that it costs ``MOST_COST`` of a step at most.

    Who comes last to an exchange waits for nobody, so the smallest of the ranks' costs is what it costs.

    >>> rounds_between([0.0003, 0.002], [0.1, 0.1]), rounds_between([0.0003], [0.006])
    (2, 20)
    """
    cost_s, step_s = min(costs_s), min(steps_s)
    if not (cost_s > 0 and step_s > 0):
        return 1
    return max(1, min(math.ceil(cost_s / (MOST_COST * step_s)), MOST_ROUNDS))


class Cadence:
    """Counts rounds; ``settling`` says when ranks should agree again on how often to exchange."""

    def __init__(self) -> None:
        self.every = 1
        self._rounds = 0
        self._exchanges = 0
        self._costs: deque[float] = deque(maxlen=_FIRST)
        self._steps: deque[float] = deque(maxlen=_FIRST)

    def due(self) -> bool:
        """One more round is over: whether ranks exchange in it."""
        self._rounds += 1
        if self._rounds < self.every:
            return False
        self._rounds = 0
        self._exchanges += 1
        return True

    def settling(self) -> bool:
        """Whether the exchange that is due is one after which ranks agree again."""
        return self._exchanges in (_FIRST, _FIRST + 1) or self._exchanges % _BETWEEN == 0

    def cost(self, seconds: float) -> None:
        """An exchange took this rank so long."""
        self._costs.append(seconds)

    def step(self, seconds: float) -> None:
        """A round took so long, from its end to the next one's."""
        self._steps.append(seconds)

    def told(self) -> tuple[float, float]:
        """This rank's medians: what an exchange costs, and what a round takes; 0 where it has none."""
        return (
            statistics.median(self._costs) if self._costs else 0.0,
            statistics.median(self._steps) if self._steps else 0.0,
        )

    def settle(self, costs_s: Sequence[float], steps_s: Sequence[float]) -> None:
        """All ranks' medians, in the same order everywhere."""
        self.every = rounds_between(costs_s, steps_s)
        if self._exchanges == _FIRST:
            self._rounds = max(0, self.every - _FIRST)
