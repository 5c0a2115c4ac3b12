"""Forward and backward of the same micro-batch, rank by rank, until their step is whole.

Rule of this file: pure bookkeeping of rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..robust import Array

Ints = NDArray[np.int64]

#: Micro-batch numbers beyond this are garbage.
MOST_MICROBATCHES = 65_536


class Pairs(NamedTuple):
    """The micro-batches of one step: rank, and seconds of each pass, equally long."""

    rank: Ints
    forward: Array
    backward: Array


class OpenMicrobatches:
    """Rows of micro-batches of steps that are not whole yet."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[Ints, NDArray[np.bool_], Array]]] = {}

    def update(self, step: Ints, rank: Ints, microbatch: Ints, back: NDArray[np.bool_], seconds: Array) -> None:
        """Take in rows of forward and (``back``) backward passes; those of no micro-batch are left out."""
        sound = (microbatch >= 0) & (microbatch < MOST_MICROBATCHES)
        if not sound.any():
            return
        key = rank * MOST_MICROBATCHES + microbatch
        for number in np.unique(step[sound]):
            mine = sound & (step == number)
            self.rows.setdefault(int(number), []).append((key[mine], back[mine], seconds[mine]))

    def pop(self, step: int) -> Pairs | None:
        """The micro-batches of ``step`` that have been heard both ways; None where it had none."""
        rows = self.rows.pop(step, None)
        if rows is None:
            return None
        key = np.concatenate([row[0] for row in rows])
        back = np.concatenate([row[1] for row in rows])
        seconds = np.concatenate([row[2] for row in rows])
        pair, at = np.unique(key, return_inverse=True)
        forward = np.bincount(at, weights=np.where(back, 0.0, seconds), minlength=pair.size)
        backward = np.bincount(at, weights=np.where(back, seconds, 0.0), minlength=pair.size)
        both = (forward > 0) & (backward > 0)
        passes = np.array([forward[both], backward[both]], dtype=np.float64)
        return Pairs(pair[both] // MOST_MICROBATCHES, passes[0], passes[1])

    def forget(self, done: int) -> None:
        """Drop what belongs to steps up to ``done``."""
        for step in [step for step in self.rows if step <= done]:
            del self.rows[step]

    def snapshot(self) -> list[Any]:
        """The state as plain data and arrays."""
        return [[step, [list(row) for row in rows]] for step, rows in self.rows.items()]

    def load(self, data: list[Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.rows = {step: [(key, back, seconds) for key, back, seconds in rows] for step, rows in data}
