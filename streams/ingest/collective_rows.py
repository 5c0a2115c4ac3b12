"""What messages tell of collectives, as equally long columns: one by one, summed, and what follows from both.

Rule of this file: pure. ``…_sound`` says which rows can be; the others are left out and counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..limits import ABSURD_S
from ..raw_columns import Ints
from ..robust import Array
from ..runs import starts
from .coverage import CoverageTracker

_IMPOSSIBLE = "collectives with impossible numbers"


class Spans(NamedTuple):
    """Of each rank, ascending: its first start, its last end, and the sum of its waits, in seconds."""

    ranks: Ints
    first_s: Array
    last_s: Array
    waited_s: Array

    def merged(self) -> "Spans":
        """The same with one entry a rank."""
        if np.count_nonzero(self.ranks[1:] > self.ranks[:-1]) == self.ranks.size - 1:
            return self
        order = np.argsort(self.ranks, kind="stable")
        first = starts(self.ranks[order])
        return Spans(
            self.ranks[order][first],
            np.minimum.reduceat(self.first_s[order], first),
            np.maximum.reduceat(self.last_s[order], first),
            np.add.reduceat(self.waited_s[order], first),
        )


class Reached(NamedTuple):
    """How far each rank has got in each group: the number of its latest collective. ``group`` is an index."""

    rank: Ints
    group: Ints
    seq: Ints


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
        return Spans(self.rank, self.start_s, self.start_s + self.duration_s, self.wait_s).merged()

    def reached(self) -> Reached:
        """How far every rank has got."""
        order = np.lexsort((self.rank, self.group))
        rank, group = self.rank[order], self.group[order]
        first = starts(group, rank)
        return Reached(rank[first], group[first], np.maximum.reduceat(self.seq[order], first))


class Sums(NamedTuple):
    """Equally long columns: collectives of one step, group, operation and size on one node, as CollectiveSums has."""

    step: Ints
    group: Ints
    operation: Ints
    calls: Ints
    members: Ints
    bytes: Ints
    wait_s: Array
    duration_s: Array


def together(kind: Any, parts: Sequence[Any]) -> Any:
    """Columns of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return kind(*map(np.concatenate, zip(*parts, strict=True))) if parts else _nothing(kind)


def only_sound(rows: Any, sound: NDArray[np.bool_], coverage: CoverageTracker) -> Any:
    """The rows that are sound; the others are noted."""
    kept, impossible = split(rows, sound)
    coverage.note(_IMPOSSIBLE, impossible)
    return kept


def split(rows: Any, sound: NDArray[np.bool_]) -> tuple[Any, int]:
    """The rows that are sound, and how many are not."""
    impossible = sound.size - int(np.count_nonzero(sound))
    return (type(rows)(*(column[sound] for column in rows)) if impossible else rows), impossible


def _lasts(seconds: Array) -> NDArray[np.bool_]:
    return np.asarray((seconds >= 0) & (seconds <= ABSURD_S))


def calls_sound(calls: Calls, ranks: int) -> NDArray[np.bool_]:
    """Which collectives can be, of a job of so many ``ranks`` at most."""
    sound = (calls.rank >= 0) & (calls.rank < ranks) & (calls.seq >= 0)
    sound &= (calls.group >= 0) & (calls.operation >= 0) & np.isfinite(calls.start_s)
    return np.asarray(sound & _lasts(calls.wait_s) & _lasts(calls.duration_s))


def sums_sound(sums: Sums) -> NDArray[np.bool_]:
    """Which sums can be."""
    sound = (sums.step >= 0) & (sums.group >= 0) & (sums.operation >= 0) & (sums.calls > 0) & (sums.members > 0)
    return np.asarray(sound & (sums.bytes >= 0) & _lasts(sums.wait_s) & _lasts(sums.duration_s))


def spans_sound(spans: Spans, ranks: int) -> NDArray[np.bool_]:
    """Which spans can be, of a job of so many ``ranks`` at most."""
    sound = (spans.ranks >= 0) & (spans.ranks < ranks) & np.isfinite(spans.first_s)
    # Waits that overlap may add up to more than the time there was.
    return np.asarray(sound & _lasts(spans.last_s - spans.first_s) & (spans.waited_s >= 0) & (spans.waited_s < np.inf))


def _nothing(kind: Any) -> Any:
    """``kind``, a NamedTuple of columns, with no row."""
    floating = {name for name, one in kind.__annotations__.items() if one is not Ints}
    return kind(*(np.empty(0, np.float64 if name in floating else np.int64) for name in kind._fields))


NO_CALLS: Calls = _nothing(Calls)
NO_SUMS: Sums = _nothing(Sums)
NO_SPANS: Spans = _nothing(Spans)
NOT_REACHED: Reached = _nothing(Reached)
