"""The rows of one OpTimings message as arrays, made once for all that read the message.

Rule of this file: pure. Lists become arrays in time that grows with their length, and three decisions want the same.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OpTimings

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


class OpRows(NamedTuple):
    """Equally long columns in the message's order, read only. Starts are absolute, on the node's clock."""

    rank: Ints
    step: Ints
    op: Ints
    microbatch: Ints
    start_s: Floats
    duration_s: Floats


class _Latest:
    """The message that was read last: every decision is told of one message before the next comes."""

    batch: OpTimings | None = None
    rows: OpRows | None = None


def op_rows(batch: OpTimings) -> OpRows:
    """The rows of ``batch``. Asked again for the same message it answers the same arrays."""
    if _Latest.rows is None or _Latest.batch is not batch:
        _Latest.rows = OpRows(
            rank=np.array(batch.rank, dtype=np.int64),
            step=np.array(batch.step, dtype=np.int64),
            op=np.array(batch.op, dtype=np.int64),
            microbatch=np.array(batch.microbatch, dtype=np.int64),
            start_s=np.array(batch.start_s, dtype=np.float64) + batch.t0_s,
            duration_s=np.array(batch.duration_s, dtype=np.float64),
        )
        _Latest.batch = batch
        for column in _Latest.rows:
            column.flags.writeable = False
    return _Latest.rows
