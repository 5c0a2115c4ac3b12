"""Forward and backward of the same micro-batch, rank by rank, until their step is whole.

Rule of this file: pure bookkeeping of rows.
"""

from typing import NamedTuple

import numpy as np

from ..raw_columns import Ints
from ..robust import Array, known_or_zero
from ..stored import Kept, Stored
from .step_rows import MicrobatchRows

#: Micro-batch numbers beyond this are garbage.
MOST_MICROBATCHES = 65_536


class Pairs(NamedTuple):
    """The micro-batches of one step: rank, and seconds of each pass, equally long."""

    rank: Ints
    forward: Array
    backward: Array


class OpenMicrobatches(Stored):
    """Rows of micro-batches of steps that are not whole yet."""

    rows: Kept[dict[int, list[tuple[Ints, Array, Array]]]]

    def __init__(self) -> None:
        self.rows = {}

    def update(self, rows: MicrobatchRows) -> None:
        """Take in rows of micro-batches; those of an impossible number are left out."""
        sound = (rows.microbatch >= 0) & (rows.microbatch < MOST_MICROBATCHES)
        if not sound.any():
            return
        key = rows.rank * MOST_MICROBATCHES + rows.microbatch
        for number in np.unique(rows.step[sound]).tolist():
            mine = sound & (rows.step == number)
            self.rows.setdefault(number, []).append((key[mine], rows.forward_s[mine], rows.backward_s[mine]))

    def pop(self, step: int) -> Pairs | None:
        """The micro-batches of ``step`` that have been heard both ways; None where it had none."""
        rows = self.rows.pop(step, None)
        if rows is None:
            return None
        key, *seconds = (np.concatenate(columns) for columns in zip(*rows, strict=True))
        pair, at = np.unique(key, return_inverse=True)
        forward, backward = (
            np.bincount(at, weights=known_or_zero(one), minlength=pair.size).astype(np.float64) for one in seconds
        )
        both = (forward > 0) & (backward > 0)
        return Pairs(pair[both] // MOST_MICROBATCHES, forward[both], backward[both])

    def forget(self, done: int) -> None:
        """Drop what belongs to steps up to ``done``."""
        for step in [step for step in self.rows if step <= done]:
            del self.rows[step]
