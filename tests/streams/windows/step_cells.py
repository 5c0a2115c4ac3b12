"""Rows of steps from what a test says of each."""

from collections.abc import Sequence

import numpy as np

from paceline.events import OP_INDEX, OPS
from streams.step_rows import TOTAL, MicrobatchRows, StepRows

Cell = tuple[int, int, float | None, bool]


def rows_of(cells: Sequence[Cell]) -> StepRows:
    """Rows of (rank, step, forward or None, whether it says how long the step was)."""
    rank, step, forward, whole = (list(column) for column in zip(*cells, strict=True))
    seconds = np.full((len(OPS), len(cells)), np.nan)
    seconds[OP_INDEX["forward"]] = [np.nan if one is None else one for one in forward]
    seconds[TOTAL] = [2.0 + at if told else np.nan for at, told in enumerate(whole)]
    none, nothing = np.zeros(len(cells), dtype=np.int64), np.empty(0)
    batches = MicrobatchRows(none[:0], none[:0], none[:0], nothing, nothing)
    numbers = np.array(step, dtype=np.int64)
    return StepRows(np.array(rank, dtype=np.int64), numbers, 100.0 + numbers, seconds, batches, none)
