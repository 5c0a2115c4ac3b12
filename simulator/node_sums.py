"""The collectives of one node's ranks, summed by step, group, operation and size until their step is complete.

Rule of this file: which collectives are whose is a table made once; the rest is arithmetic on whole runs of steps. A
step's sums are given once, when every rank of the node has closed a step after it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveSums, Column

from . import raw_columns
from .work import Array

Ints = NDArray[np.int64]


class Met(NamedTuple):
    """What ranks met in, in the steps that one message closes, n rows: who, in which step, and of each of its C
    collectives when it came and left (Unix time) and how long it stood, (n, C)."""

    local: Ints
    step: Ints
    issued: Array
    left: Array
    stood: Array


class Meetings:
    """Which collectives the ranks of a node meet in, and how these are summed.

    ``table``, (ranks, C, 5): group, operation, bytes, how many of that group in a step, and which of them it is. Nodes
    whose ranks meet alike share one.
    """

    def __init__(self, table: Ints) -> None:
        self.ranks = table.shape[0]
        flat = table.reshape(-1, 5)
        # A collective is one that ranks share: the same place in a step of the same group.
        _, first, which, members = np.unique(
            flat[:, [0, 4]], axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        self.by_collective = np.argsort(which.ravel(), kind="stable")
        self.collective_starts = np.concatenate([[0], np.cumsum(members)[:-1]])
        group, operation, size, *_ = flat[first].T
        power = np.floor(np.log2(np.maximum(size, 1))).astype(np.int64)
        kinds, kind, count = np.unique(
            np.stack([group, operation, power], axis=1), axis=0, return_inverse=True, return_counts=True
        )
        kind = kind.ravel()
        self.by_kind = np.argsort(kind, kind="stable")
        self.kind_starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        self.kinds = count.size
        most = np.zeros(count.size, dtype=np.int64)
        np.maximum.at(most, kind, members)
        total = np.bincount(kind, size).astype(np.int64)
        self._rows = {"group": kinds[:, 0], "operation": kinds[:, 1], "count": count, "members": most, "bytes": total}
        #: Of every rank's groups: which rank, which group, how many collectives in a step, and the last of them.
        who = np.repeat(np.arange(self.ranks), table.shape[1])
        reached, last = np.unique(np.stack([who, flat[:, 0]], axis=1), axis=0, return_inverse=True)
        self.reached_local, self.reached_group = reached.T
        self.reached_per_step, self.reached_index = np.zeros((2, len(reached)), dtype=np.int64)
        np.maximum.at(self.reached_per_step, last.ravel(), flat[:, 3])
        np.maximum.at(self.reached_index, last.ravel(), flat[:, 4])
        self._told: dict[int, dict[str, Any]] = {}

    def rows(self, steps: int) -> dict[str, Any]:
        """The columns that are the same in every message with the sums of so many steps."""
        if steps not in self._told:
            self._told[steps] = {name: raw_columns.whole(np.tile(each, steps)) for name, each in self._rows.items()}
        return self._told[steps]


class NodeSums:
    """The sums of a node whose first rank is ``begin``."""

    def __init__(self, begin: int, meetings: Meetings, words: dict[str, Any]) -> None:
        self.begin = begin
        self.meetings = meetings
        self.words = words
        self._everyone = self._who(np.ones(meetings.ranks, dtype=bool))
        #: The step after the last one of each rank.
        self._closed = np.zeros(meetings.ranks, dtype=np.int64)
        #: The first step not given yet, and of it and those after it the seconds waited and taken, (2, steps, kinds).
        self._next = 0
        self._waiting: Array = np.zeros((2, 0, meetings.kinds))

    def add(self, stood: Array, took: Array) -> None:
        """How long each rank stood in each collective of the next run of steps, and how long these took: (S, R, C)."""
        meetings = self.meetings
        both = np.stack([stood, took]).reshape(2, stood.shape[0], -1)[:, :, meetings.by_collective]
        least = np.minimum.reduceat(both, meetings.collective_starts, axis=2)[:, :, meetings.by_kind]
        sums = np.add.reduceat(least, meetings.kind_starts, axis=2)
        self._waiting = np.concatenate([self._waiting, sums], axis=1)

    def close(self, met: Met, t0_s: float) -> CollectiveSums:
        """What goes out with the steps that ranks close: the sums that are complete with them, and ``met``."""
        ranks = self._closed.size
        last, first_s, last_s = np.full(ranks, -1), np.full(ranks, np.inf), np.zeros(ranks)
        np.maximum.at(last, met.local, met.step)
        np.minimum.at(first_s, met.local, met.issued.min(axis=1))
        np.maximum.at(last_s, met.local, met.left.max(axis=1))
        waited_s = np.bincount(met.local, met.stood.sum(axis=1), minlength=ranks)
        heard = last >= 0
        self._closed = np.maximum(self._closed, last + 1)
        meetings = self.meetings
        reached = heard[meetings.reached_local]
        seq = last[meetings.reached_local] * meetings.reached_per_step + meetings.reached_index
        return self._sums(
            int(self._closed.min()) - 1,
            **(self._everyone if heard.all() else self._who(heard)),
            reached_seq=raw_columns.whole(seq[reached]),
            span_first_s=raw_columns.offsets(first_s[heard] - t0_s),
            span_last_s=raw_columns.offsets(last_s[heard] - t0_s),
            span_waited_s=raw_columns.durations(waited_s[heard]),
            longest_wait_s=round(float(met.stood.max()), 6),
        )

    def _who(self, heard: NDArray[np.bool_]) -> dict[str, Column]:
        """The columns that tell of whom a message speaks where it has steps of these ranks."""
        reached = heard[self.meetings.reached_local]
        return {
            "reached_rank": raw_columns.whole(self.meetings.reached_local[reached] + self.begin),
            "reached_group": raw_columns.whole(self.meetings.reached_group[reached]),
            "span_rank": raw_columns.whole(np.flatnonzero(heard) + self.begin),
        }

    def end(self) -> CollectiveSums | None:
        """The sums that are left when no step comes any more; None where none are."""
        none = Column("u1", b"")
        rest = dict.fromkeys(("reached_seq", "span_first_s", "span_last_s", "span_waited_s"), none)
        nobody = self._who(np.zeros(self._closed.size, dtype=bool))
        until = int(self._closed.max())
        return self._sums(until, **nobody, **rest) if self._next < until else None

    def _sums(self, until: int, **rest: Any) -> CollectiveSums:
        """The sums of the steps before ``until`` that were not given yet."""
        steps = max(until - self._next, 0)
        seconds, self._waiting = self._waiting[:, :steps], self._waiting[:, steps:]
        step = np.repeat(np.arange(self._next, self._next + steps), self.meetings.kinds)
        self._next += steps
        return CollectiveSums(
            **self.words,
            **self.meetings.rows(steps),
            step=raw_columns.whole(step),
            wait_s=raw_columns.durations(seconds[0]),
            duration_s=raw_columns.durations(seconds[1]),
            **rest,
        )
