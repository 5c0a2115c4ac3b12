"""Staleness: in which steps ranks exchange gradients, and after which they average their weights.

Rule of this file: pure. All ranks count the same steps, so all come to the same answers.
"""

from __future__ import annotations

#: Local steps between two averages, at most: a sane run has 1 to 500 (Douillard et al. 2023).
MOST_STALENESS = 1000


class Staleness:
    """After ``warm_up`` synchronous steps, weights are averaged after every ``staleness + 1`` steps of a rank's own.

    So nobody's weights are older than ``staleness`` steps against what all agreed on. (Lin et al., "Don't use large
    mini-batches, use local SGD", 2020.)

    Args:
        staleness: steps that a rank takes without hearing of the others; 0: every step is synchronous.
        warm_up: synchronous steps before the first one of its own.

    >>> staleness, told = Staleness(1, warm_up=1), []
    >>> for _ in range(5):
    ...     local = staleness.local
    ...     told.append((local, staleness.step()))
    >>> told
    [(False, False), (True, False), (True, True), (True, False), (True, True)]
    """

    def __init__(self, staleness: int, warm_up: int = 0) -> None:
        self.staleness, self.warm_up = staleness, warm_up
        self._steps = 0
        #: Own steps since weights were the same on all ranks.
        self.own_steps = 0

    @property
    def local(self) -> bool:
        """Whether gradients of the step under way stay on their rank."""
        return self.staleness > 0 and self._steps >= self.warm_up

    def step(self) -> bool:
        """A step has ended; whether weights are to be averaged after it."""
        self.own_steps += self.local
        self._steps += 1
        if self.own_steps <= self.staleness:
            return False
        self.own_steps = 0
        return True

    def averaged(self) -> None:
        """Weights are the same on all ranks."""
        self.own_steps = 0
