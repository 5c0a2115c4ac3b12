"""The rows of a few OpTimings messages as arrays, made once for all that read them.

Rule of this file: pure. Lists become arrays in time that grows with their length, and several decisions want the same:
who tells them of a message owns a ``RowArrays`` and lets them share it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OP_INDEX, OpTimings

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]

#: What ``OpRows.op`` counts in: the disjoint phases, the overlays, and the whole step last.
UNKNOWN = -1


class OpRows(NamedTuple):
    """Equally long columns in the messages' order, read only. Starts are absolute, each on its node's clock.

    ``op`` indexes ``OPS``, ``UNKNOWN`` for any other word.
    """

    rank: Ints
    step: Ints
    op: Ints
    microbatch: Ints
    start_s: Floats
    duration_s: Floats


def op_rows(batches: Sequence[OpTimings]) -> OpRows:
    """The rows of ``batches``."""
    rows = OpRows(
        rank=_ints(batch.rank for batch in batches),
        step=_ints(batch.step for batch in batches),
        op=np.concatenate([_ops(batch) for batch in batches]),
        microbatch=_ints(batch.microbatch for batch in batches),
        start_s=np.concatenate([np.array(batch.start_s, dtype=np.float64) + batch.t0_s for batch in batches]),
        duration_s=np.array(list(chain.from_iterable(batch.duration_s for batch in batches)), dtype=np.float64),
    )
    for column in rows:
        column.flags.writeable = False
    return rows


class RowArrays:
    """The rows of the messages that were read last, shared by the decisions that are told of the same messages."""

    def __init__(self) -> None:
        self.batches: tuple[OpTimings, ...] = ()
        self.rows: OpRows | None = None

    def of(self, batches: Sequence[OpTimings]) -> OpRows:
        """The rows of ``batches``; asked again for the same messages it answers the same arrays."""
        same = len(self.batches) == len(batches) and all(a is b for a, b in zip(self.batches, batches, strict=True))
        if self.rows is None or not same:
            self.batches, self.rows = tuple(batches), op_rows(batches)
        return self.rows

    def clear(self) -> None:
        """Let go of the messages and their rows."""
        self.batches, self.rows = (), None


def _ints(columns: Iterator[list[int]]) -> Ints:
    return np.array(list(chain.from_iterable(columns)), dtype=np.int64)


def _ops(batch: OpTimings) -> Ints:
    words = np.array([*(OP_INDEX.get(name, UNKNOWN) for name in batch.ops), UNKNOWN], dtype=np.int64)
    op = np.array(batch.op, dtype=np.int64)
    return words[np.where((op >= 0) & (op < len(batch.ops)), op, len(batch.ops))]
