"""The part of a step that does not depend on the share, in samples: learned from what changing the shares did.

Rule of this file: pure, and only +, -, * and / on floats, whose bits are the same on every machine.

A worker's time is taken to be ``seconds a sample * (fixed + share)`` with one ``fixed`` for all. Two points a worker
cannot tell its own apart from noise (a free fit of both diverged); all workers together can tell one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

#: The candidates: this many steps, each this part of the mean share.
CANDIDATES, STEP = 33, 1 / 32
#: What each step away from no fixed part costs, so that changes that tell nothing change nothing.
_PRIOR = 1 / 256


class Changed(NamedTuple):
    """What a change of the share did to a worker; shares in samples, times in seconds."""

    before: int
    before_s: float
    after: int
    after_s: float


class FixedCost:
    """What the changes so far say.

    >>> cost = FixedCost(mean_share=8.0)
    >>> cost.update([Changed(8, 10.0, 16, 18.0), Changed(8, 10.0, 4, 6.0)])
    >>> cost.samples
    2.0
    """

    def __init__(self, mean_share: float) -> None:
        self._mean_share = mean_share
        self._misses = [_PRIOR * place for place in range(CANDIDATES)]

    @property
    def samples(self) -> float:
        """The fixed part of a worker's step, as so many samples of its own."""
        place = min(range(CANDIDATES), key=self._misses.__getitem__)
        return self._candidate(place)

    def update(self, changes: Sequence[Changed]) -> None:
        """Count by how much each candidate missed what came after, as a mean over workers."""
        for place in range(CANDIDATES):
            fixed = self._candidate(place)
            missed = math.fsum(_missed(each, fixed) for each in changes)
            self._misses[place] += missed / max(len(changes), 1)

    def _candidate(self, place: int) -> float:
        return self._mean_share * STEP * place

    def snapshot(self) -> list[float]:
        """All of it, as JSON has it."""
        return list(self._misses)

    def restore(self, state: list[float]) -> None:
        """Continue from a snapshot."""
        self._misses = list(state)


def _missed(change: Changed, fixed: float) -> float:
    """By which part ``fixed`` misses; more than all counts as all, so that one worker cannot decide."""
    expected_s = change.before_s * (fixed + change.after) / (fixed + change.before)
    return min(max(change.after_s / expected_s, expected_s / change.after_s) - 1, 1.0)
