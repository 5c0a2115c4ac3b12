"""What is told of a job until there is enough to judge it: where its ranks' time went, and who came last.

Rule of this file: pure and bounded. Once there is enough for a verdict all of it is let go of. What is said of a run
that ends before is written in short_run_evidence.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.events import OP_INDEX, OPS, RankBreakdown

from ..ingest.collective_batch import CollectiveBatch
from ..ingest.step_rows import TOTAL, StepRows
from ..limits import ABSURD_S
from ..raw_columns import Ints
from ..robust import Array, known_or_zero
from ..runs import lengths, starts
from ..stored import Kept, Stored
from .ticks import WORK

#: Calls of collectives that are kept at most; those that come after are counted by nobody.
MOST_CALLS = 200_000
#: Who is last tells something where the first and the last are this far apart.
APART_S = 1e-3
_IDLE, _DATA, _WAIT = (OP_INDEX[name] for name in ("idle", "data", "communication"))
_COMPUTE = [OP_INDEX[name] for name in WORK if name not in ("idle", "data")]


class Last(NamedTuple):
    """Of the collectives that all their heard ranks came to more than ``APART_S`` apart: ``of`` how many each rank was
    a member, and in how many of them the last. Both have shape (ranks,)."""

    of: Ints
    last: Ints

    @property
    def fair(self) -> Array:
        """How often a rank would be the last if all were alike: its share of the collectives that had a last."""
        members = self.of.sum()
        return np.asarray(self.of * (self.last.sum() / members if members else 0.0))


class RankTimes(NamedTuple):
    """Seconds of each rank over all that was heard, each of shape (ranks,), NaN where nobody told; by the trace of its
    device where there is one, else by its phases. ``span`` is the whole."""

    span: Array
    compute: Array
    communication: Array
    copies: Array
    idle: Array
    data: Array
    launch_delay: Array


class ShortRun(Stored):
    """What is told of one job until there is enough to judge."""

    enough: Kept[bool]
    seconds: Kept[Array]
    steps: Kept[Ints]
    first_step: Kept[int]
    last_step: Kept[int]
    breakdowns: Kept[dict[int, RankBreakdown]]
    groups: Kept[dict[str, int]]
    calls: Kept[list[tuple[Ints, Ints, Ints, Array]]]
    calls_left_out: Kept[int]

    def __init__(self) -> None:
        self.enough = False
        self._begin()

    def _begin(self) -> None:
        self.seconds = np.zeros((len(OPS), 0))
        self.steps = np.zeros(0, dtype=np.int64)
        self.first_step = self.last_step = -1
        self.breakdowns = {}
        self.groups = {}
        #: Rank, group, number and seconds of each collective.
        self.calls = []
        self.calls_heard = 0
        self.calls_left_out = 0

    @property
    def heard(self) -> bool:
        """Whether anything was told that a verdict could rest on."""
        return bool(self.steps.any() or self.breakdowns or self.calls_heard)

    def forget(self) -> None:
        """There is enough: verdicts say the rest."""
        if not self.enough:
            self.enough = True
            self._begin()

    def update_steps(self, rows: StepRows, plausible_ranks: int) -> None:
        """Take in what ranks say of their steps."""
        if self.enough:
            return
        sound = (rows.rank >= 0) & (rows.rank < plausible_ranks) & (rows.step >= 0)
        rank, step, seconds = rows.rank[sound], rows.step[sound], rows.seconds[:, sound]
        if not rank.size:
            return
        self._widen(int(rank.max()) + 1)
        seconds = np.where((seconds >= 0) & (seconds <= ABSURD_S), seconds, np.nan)
        np.add.at(self.seconds.T, rank, known_or_zero(seconds).T)
        whole = ~np.isnan(seconds[TOTAL])
        np.add.at(self.steps, rank[whole], 1)
        low, high = int(step.min()), int(step.max())
        self.first_step = low if self.first_step < 0 else min(low, self.first_step)
        self.last_step = max(high, self.last_step)

    def update_breakdowns(self, told: Sequence[RankBreakdown]) -> None:
        """Take in what traces say of ranks' devices."""
        if not self.enough:
            self.breakdowns |= {one.rank: one for one in told if not one.whole or one.device is None}

    def update_collectives(self, batch: CollectiveBatch) -> None:
        """Take in who was how long in which collective."""
        calls = batch.calls
        if self.enough or not calls.rank.size:
            return
        room = MOST_CALLS - self.calls_heard
        self.calls_left_out += max(0, calls.rank.size - room)
        if room <= 0:
            return
        numbers = np.full(len(batch.groups), -1, dtype=np.int64)
        for group in np.unique(calls.group[:room]).tolist():  # a name without a call would be kept without bound
            numbers[group] = self.groups.setdefault(batch.groups[group], len(self.groups))
        columns = (calls.rank, numbers[calls.group], calls.seq, calls.duration_s)
        self.calls.append(tuple(column[:room].copy() for column in columns))  # type: ignore[arg-type]
        self.calls_heard += min(room, calls.rank.size)

    def _widen(self, ranks: int) -> None:
        more = ranks - self.steps.size
        if more > 0:
            self.seconds = np.pad(self.seconds, ((0, 0), (0, more)))
            self.steps = np.pad(self.steps, (0, more))

    def ranks(self) -> int:
        """One more than the highest rank that was heard."""
        highest = max((int(rank.max()) for rank, *_ in self.calls), default=-1)
        return max(self.steps.size, highest + 1, max(self.breakdowns, default=-1) + 1)

    def times(self, ranks: int) -> RankTimes:
        """Where the time of the first ``ranks`` ranks went."""
        seconds = np.full((len(OPS), ranks), np.nan)
        heard = np.flatnonzero(self.steps)
        seconds[:, heard] = self.seconds[:, heard]
        none = np.full(ranks, np.nan)
        idle = seconds[_IDLE] if self.seconds[_IDLE].any() else none.copy()
        data = seconds[_DATA] if self.seconds[_DATA].any() else none.copy()
        compute = seconds[_COMPUTE].sum(axis=0)
        times = RankTimes(seconds[TOTAL].copy(), compute, seconds[_WAIT].copy(), none.copy(), idle, data, none.copy())
        for rank, told in self.breakdowns.items():
            if not told.whole:  # from another clock, or from part of its kernels
                for column in times:
                    column[rank] = np.nan
                continue
            delay = np.nan if told.launch_delay_s is None else told.launch_delay_s
            parts = (told.span_s, told.compute_s, told.exposed_communication_s, told.exposed_copy_s, told.idle_s)
            for column, value in zip(times, (*parts, data[rank], delay), strict=True):
                column[rank] = value
        return times

    def apart(self) -> list[int]:
        """The ranks whose times are compared with nobody's, for their traces lack kernels."""
        return sorted(rank for rank, told in self.breakdowns.items() if not told.whole)

    def last(self, ranks: int) -> Last:
        """Who came last: all leave a collective together, so its last rank is in it for the shortest time."""
        of, last = np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
        if not self.calls:
            return Last(of, last)
        rank, group, seq, seconds = (np.concatenate(column) for column in zip(*self.calls, strict=True))
        # A rank that tells a collective twice counts once.
        order = np.lexsort((seconds, rank, seq, group))
        once = order[starts(group[order], seq[order], rank[order])]
        rank, group, seq, seconds = rank[once], group[once], seq[once], seconds[once]
        order = np.lexsort((rank, seconds, seq, group))
        rank, group, seq, seconds = rank[order], group[order], seq[order], seconds[order]
        begin = starts(group, seq)
        members = lengths(begin, rank.size)
        longest = seconds[begin + members - 1]
        apart = (members > 1) & (longest - seconds[begin] > APART_S)
        np.add.at(last, rank[begin[apart]], 1)
        np.add.at(of, rank[np.repeat(apart, members)], 1)
        return Last(of, last)

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self.calls_heard = sum(int(rank.size) for rank, *_ in self.calls)
