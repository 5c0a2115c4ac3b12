"""Rows of steps from what a test says of each."""

from collections.abc import Callable

import numpy as np
import pytest

from paceline.events import OP_INDEX, OPS
from streams.ingest.step_rows import MicrobatchRows, StepRows


def op_rows(*rows: tuple[int, int, str, float, float] | tuple[int, int, str, float, float, int]) -> StepRows:
    """Rows of phases: (rank, step, op, start, seconds) each, and the micro-batch where it has one."""
    cells = list(dict.fromkeys((rank, step) for rank, step, *_ in rows))
    seconds = np.full((len(OPS), len(cells)), np.nan)
    start_s = np.full(len(cells), np.nan)
    passes: list[tuple[int, int, int, float, float]] = []
    unknown = 0
    for rank, step, op, start, took, *batch in rows:
        if op not in OP_INDEX:
            unknown += 1
            continue
        where = OP_INDEX[op], cells.index((rank, step))
        seconds[where] = np.nansum([seconds[where], took])
        start_s[where[1]] = start if op == "step" else np.fmin(start_s[where[1]], start)
        if batch and batch[0] >= 0 and op in ("forward", "backward"):
            passes.append((rank, step, batch[0], *((took, np.nan) if op == "forward" else (np.nan, took))))
    told = list(zip(*passes, strict=True)) or [()] * 5
    micro = MicrobatchRows(*(np.array(column, dtype=np.int64) for column in told[:3]), *map(np.array, told[3:]))
    ranks, steps = (np.array(column, dtype=np.int64) for column in zip(*cells, strict=True))
    return StepRows(ranks, steps, start_s, seconds, micro, np.zeros(len(cells), dtype=np.int64), unknown)


@pytest.fixture
def make_rows() -> Callable[..., StepRows]:
    """Makes rows of phases, as the steps are told them."""
    return op_rows
