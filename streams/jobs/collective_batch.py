"""The sound rows of a few batches of collectives, as arrays, worked out once for every line of judgement.

Rule of this file: pure; rows that cannot be are left out and counted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveTimings, LinkSample

from ..coverage import CoverageTracker
from ..robust import Array
from .limits import ABSURD_S, MOST_RANKS

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


class CollectiveBatch(NamedTuple):
    """A few batches of one job as one: their sound rows, and what the rows' numbers stand for."""

    calls: Calls
    groups: list[str]
    group_sizes: list[int]
    operations: list[str]
    #: Whether the ranks' phases are told as well, on their own topic.
    phases: bool
    links: list[LinkSample]
    ranks: list[int]


def collective_batch(batches: Sequence[CollectiveTimings], coverage: CoverageTracker) -> CollectiveBatch:
    """What ``batches`` tell; rows that cannot be are noted in ``coverage``."""
    groups: dict[str, int] = {}
    operations: dict[str, int] = {}
    sizes: list[int] = []
    parts = []
    for batch in batches:
        for name, size in zip(batch.groups, batch.group_sizes, strict=True):
            if groups.setdefault(name, len(groups)) == len(sizes):
                sizes.append(size)
        for word in batch.operations:
            operations.setdefault(word, len(operations))
        calls = _calls_of(batch, coverage)
        if len(groups) > 1:
            calls = calls._replace(group=np.array([groups[name] for name in batch.groups], dtype=np.int64)[calls.group])
        if len(operations) > 1:
            calls = calls._replace(
                operation=np.array([operations[word] for word in batch.operations], dtype=np.int64)[calls.operation]
            )
        parts.append(calls)
    whole = parts[0] if len(parts) == 1 else Calls(*map(np.concatenate, zip(*parts, strict=True)))
    return CollectiveBatch(
        whole,
        list(groups),
        sizes,
        list(operations),
        all(batch.phases for batch in batches),
        [link for batch in batches for link in batch.links],
        [rank for batch in batches for rank in batch.ranks],
    )


def _calls_of(batch: CollectiveTimings, coverage: CoverageTracker) -> Calls:
    """The sound rows of ``batch``; the others are noted in ``coverage``."""
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
    coverage.note("collectives with impossible numbers", int((~sound).sum()))
    return Calls(*(column[sound] for column in calls))  # type: ignore[arg-type]
