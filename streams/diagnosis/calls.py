"""The sound rows of one batch of collectives, as arrays, worked out once for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveTimings

from .cohort import Array
from .config import MOST_RANKS
from .ledger import Ledger
from .steps import ABSURD_S

Ints = NDArray[np.int64]


class Spans(NamedTuple):
    """Of each rank in a batch, ascending: its first start, its last end, and the sum of its waits, in seconds."""

    ranks: list[int]
    first_s: list[float]
    last_s: list[float]
    waited_s: list[float]


class Calls(NamedTuple):
    """Equally long columns in the batch's order. Times are absolute, on the node's clock; ``group`` is an index."""

    rank: Ints
    step: Ints
    seq: Ints
    group: Ints
    operation: Ints
    bytes: Ints
    start_s: Array
    duration_s: Array
    wait_s: Array

    def spans(self) -> Spans:
        """Every rank's time."""
        order = np.argsort(self.rank, kind="stable")
        rank, start, wait = self.rank[order], self.start_s[order], self.wait_s[order]
        first = starts(rank)
        return Spans(
            rank[first].tolist(),
            np.minimum.reduceat(start, first).tolist(),
            np.maximum.reduceat(start + self.duration_s[order], first).tolist(),
            np.add.reduceat(wait, first).tolist(),
        )


def starts(*keys: Ints) -> Ints:
    """Where a new combination begins in ``keys``, sorted columns of at least one row."""
    new = np.ones(keys[0].size, dtype=bool)
    new[1:] = False
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def calls_of(batch: CollectiveTimings, ledger: Ledger) -> Calls:
    """The sound rows of ``batch``; the others are noted in ``ledger``."""
    rank, step, seq, group, operation = (
        np.asarray(column, dtype=np.int64)
        for column in (batch.rank, batch.step, batch.seq, batch.group, batch.operation)
    )
    start, took, wait = (
        np.asarray(column, dtype=np.float64) for column in (batch.start_s, batch.duration_s, batch.wait_s)
    )
    sound = (rank < MOST_RANKS) & (group < len(batch.groups)) & (operation < len(batch.operations))
    sound &= (np.minimum(rank, np.minimum(seq, group)) >= 0) & np.isfinite(start + took + wait)
    sound &= (wait >= 0) & (wait <= ABSURD_S) & (took >= 0) & (took <= ABSURD_S)
    moved = np.asarray(batch.bytes, dtype=np.int64)
    calls = Calls(rank, step, seq, group, operation, moved, start + batch.t0_s, took, wait)
    if sound.all():
        return calls
    ledger.note("collectives with impossible numbers", int((~sound).sum()))
    return Calls(*(column[sound] for column in calls))  # type: ignore[arg-type]
