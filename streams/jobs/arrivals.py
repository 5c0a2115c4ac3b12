"""Collectives of one group, in any batching, to ticks of lateness.

Rule of this file: lateness of a rank at a collective is the longest wait of the group less its own, because all members
leave together. It needs no common clock: durations of different ranks are compared, never their times of day. A
clock that is set back by more than patience is followed: the tick begins again there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ingest.coverage import CoverageTracker
from ..robust import Array, known_or_zero, peers_median
from ..stored import Kept, Stored
from .iterations import Iterations
from .ticks import PARTS, Tick

Ints = NDArray[np.int64]

#: Collectives of a group kept at first while members are missing from them; doubled up to the most.
_SLOTS = 256
_MOST_SLOTS = 65_536
#: Least share of a step that is left of it without anybody's lateness.
_LEAST_BASE = 0.1


class ArrivalRows(NamedTuple):
    """Rows of one group: equally long columns."""

    rank: Ints
    step: Ints
    seq: Ints
    start_s: Array
    wait_s: Array
    #: What each call is: the same number for the same operation and size.
    token: Ints


def _only(rows: ArrivalRows, which: NDArray[np.bool_]) -> ArrivalRows:
    return ArrivalRows(*(column[which] for column in rows))  # type: ignore[arg-type]


class Arrivals(Stored):
    """The collectives of one group that are not yet judged."""

    size: Kept[int]
    base: Kept[int]
    members: Kept[Ints]
    column_of: Kept[Ints]
    latest: Kept[Ints]
    wait: Kept[Array]
    start: Kept[Array]
    step: Kept[Ints]
    late: Kept[Array]
    waited: Kept[Array]
    counted: Kept[Array]
    tick_start: Kept[float]
    first_step: Kept[int]
    newest_step: Kept[int]
    judged: Kept[int]
    iterations: Kept[Iterations]
    unnumbered: Kept[Ints]

    def __init__(self, size: int, tick_s: float, patience_s: float, coverage: CoverageTracker) -> None:
        self.size = size
        self.tick_s = tick_s
        self.patience_s = patience_s
        self.coverage = coverage
        self.base = -1  # next sequence number to judge
        self.members = np.empty(0, dtype=np.int64)  # column -> rank
        self.column_of = np.empty(0, dtype=np.int64)  # rank -> column, -1 for none
        self.latest = np.empty(0, dtype=np.int64)
        self.wait = np.full((_SLOTS, 0), np.nan)
        self.start = np.full(_SLOTS, np.nan)  # by the clock of the first member, which alone cuts the ticks
        self.step = np.full(_SLOTS, -1, dtype=np.int64)
        # The tick that is being summed.
        self.late = np.zeros(0)
        self.waited = np.zeros(0)
        self.counted = np.zeros(0)
        self.tick_start = np.nan
        self.first_step = -1
        self.newest_step = -1
        self.judged = 0
        self.iterations = Iterations()
        #: Calls that wait for their number until iterations are known.
        self.unnumbered = np.empty(0, dtype=np.int64)

    def update(self, rows: ArrivalRows) -> list[Tick]:
        """Take in rows; the ticks that they complete."""
        column = self._columns(rows.rank)
        if self.base < 0:
            self.base = int(rows.seq.min())
        behind = rows.seq < self.base
        self.coverage.note("collectives repeated or after they were judged", int(behind.sum()))
        if behind.any():
            rows = _only(rows, ~behind)
            column = column[~behind]
        if not rows.seq.size:
            return []
        self._make_room(int(rows.seq.max()) - self.base + 1)
        fits = rows.seq - self.base < self.start.size
        if not fits.all():
            self.coverage.note("collectives too far ahead of the group", int((~fits).sum()))
            rows = _only(rows, fits)
            column = column[fits]
        self._store(rows, column)
        return self._judge()

    def rank_of(self, column: int) -> int:
        """The rank of one column of the ticks."""
        return int(self.members[column])

    def _columns(self, rank: Ints) -> Ints:
        """The column of each row's rank; new ranks get one."""
        if int(rank.max()) >= self.column_of.size:
            more = int(rank.max()) + 1 - self.column_of.size
            self.column_of = np.pad(self.column_of, (0, more), constant_values=-1)
        column = self.column_of[rank]
        strange = column < 0
        if not strange.any():
            return column
        fresh = np.unique(rank[strange])
        before = self.members.size
        self.column_of[fresh] = before + np.arange(fresh.size)
        self.members = np.concatenate([self.members, fresh])
        self._widen(before + fresh.size)
        return self.column_of[rank]

    def _widen(self, needed: int) -> None:
        """Columns for ``needed`` members; doubled, so that thousands of ranks that join one by one stay cheap."""
        width = self.latest.size
        if needed <= width:
            return
        more = max(needed, min(2 * width, self.size)) - width
        self.latest = np.pad(self.latest, (0, more), constant_values=-1)
        self.wait = np.pad(self.wait, ((0, 0), (0, more)), constant_values=np.nan)
        self.late, self.waited, self.counted = (np.pad(a, (0, more)) for a in self._sums())

    def _sums(self) -> tuple[Array, Array, Array]:
        return self.late, self.waited, self.counted

    def _make_room(self, needed: int) -> None:
        slots = self.start.size
        if needed <= slots or slots >= _MOST_SLOTS:
            return
        grown = min(_MOST_SLOTS, 1 << (needed - 1).bit_length())
        old = (self.base + np.arange(slots)) % slots
        new = (self.base + np.arange(slots)) % grown
        wait = np.full((grown, self.wait.shape[1]), np.nan)
        start, step = np.full(grown, np.nan), np.full(grown, -1, dtype=np.int64)
        wait[new], start[new], step[new] = self.wait[old], self.start[old], self.step[old]
        self.wait, self.start, self.step = wait, start, step

    def _store(self, rows: ArrivalRows, column: Ints) -> None:
        slot = rows.seq % self.start.size
        again = int((~np.isnan(self.wait[slot, column])).sum())
        cells = np.sort(slot * self.latest.size + column)
        again += int((cells[1:] == cells[:-1]).sum())
        self.coverage.note("collectives repeated or after they were judged", again)
        self.wait[slot, column] = rows.wait_s
        mine = column == 0
        self.start[slot[mine]] = rows.start_s[mine]
        self._number(rows, slot, mine)
        np.maximum.at(self.latest, column, rows.seq)

    def _number(self, rows: ArrivalRows, slot: Ints, mine: NDArray[np.bool_]) -> None:
        """Give each call the step it belongs to: its own, or, where none is known, the iteration that it falls into."""
        has_step = rows.step >= 0
        self.step[slot[has_step]] = rows.step[has_step]
        if has_step.all() or not mine.any():
            return
        numbered = self.iterations.update(rows.token[mine], rows.start_s[mine])
        seqs = np.concatenate([self.unnumbered, rows.seq[mine]])
        if numbered is None:
            self.unnumbered = seqs
            return
        self.unnumbered = np.empty(0, dtype=np.int64)
        fresh = (seqs >= self.base) & (seqs - self.base < self.start.size)
        self.step[seqs[fresh] % self.start.size] = numbered[fresh]

    def _judge(self) -> list[Tick]:
        frontier = self._frontier()
        count = frontier - self.base + 1
        if count <= 0:
            return []
        slot = (self.base + np.arange(count)) % self.start.size
        wait, start, step = self.wait[slot], self.start[slot], self.step[slot]
        self.wait[slot], self.start[slot], self.step[slot] = np.nan, np.nan, -1
        self.base = frontier + 1
        ticks: list[Tick] = []
        begin = 0
        for end in [*_set_backs(start, self.tick_start, self.patience_s), start.size]:
            if begin < end:
                ticks += self._cut(wait[begin:end], _rising(start[begin:end], self.tick_start), step[begin:end])
            if end < start.size:
                self._clear()
                self.tick_start, self.first_step, begin = float(start[end]), int(step[end]), end
        return ticks

    def _frontier(self) -> int:
        """The last sequence number that every member has reached, or that may be waited for no longer."""
        latest = self.latest[: self.members.size]
        lead = int(latest.max())
        first = self.start[(self.base + np.arange(min(lead - self.base + 1, self.start.size))) % self.start.size]
        starts = first[~np.isnan(first)]
        overdue = bool(starts.size and starts[-1] - starts[0] > self.patience_s)
        crowded = lead - self.base + 1 >= _MOST_SLOTS // 2
        if self.unnumbered.size and not crowded:
            return self.base - 1
        if self.members.size < self.size and not (overdue or crowded):
            return self.base - 1
        if not (overdue or crowded):
            return int(latest.min())
        present = latest >= (self.base + lead) // 2
        self.coverage.note("members of a group that fell silent", int((~present).sum()))
        return int(latest[present].min())

    def _cut(self, wait: Array, start: Array, step: Ints) -> list[Tick]:
        """Add judged collectives to the running tick and cut it wherever it is long enough and a step begins."""
        late = known_or_zero(np.fmax.reduce(wait, axis=1, keepdims=True) - wait)
        if np.isnan(self.tick_start):
            self.tick_start, self.first_step = float(start[0]), int(step[0])
        ticks = []
        begin = 0
        while True:
            end = int(np.searchsorted(start, self.tick_start + self.tick_s))
            # Whole steps only: what comes first in a step waits otherwise than what comes last.
            before = int(step[end - 1]) if end else self.newest_step
            end += int(np.argmax(step[end:] != before)) if (step[end:] != before).any() else step.size
            # At a time so large that a tick later is the same number, no tick ends.
            if end >= start.size or self.tick_start + self.tick_s <= self.tick_start:
                break
            self._add(wait[begin:end], late[begin:end])
            ticks += self._tick(float(start[end]), int(step[end]) - 1)
            self.tick_start, self.first_step = float(start[end]), int(step[end])
            begin = end
        self._add(wait[begin:], late[begin:])
        self.newest_step = int(step[-1])
        return ticks

    def _add(self, wait: Array, late: Array) -> None:
        self.late += late.sum(axis=0)
        self.waited += np.nansum(wait, axis=0)
        self.counted += (~np.isnan(wait)).sum(axis=0)

    def _tick(self, end_s: float, last_step: int) -> list[Tick]:
        """The running tick, ended; none where nothing happened in it or where it is the warm-up."""
        self.judged += 1
        if self.judged == 1 or not self.counted.any():
            self._clear()
            return []
        span = end_s - self.tick_start
        steps = max(last_step - self.first_step + 1, 1)
        heard = np.where(self.counted * 2 >= self.counted.max(), 1.0, np.nan)
        late, wait = self.late / steps * heard, self.waited / steps * heard
        peers = peers_median(late)
        tick = Tick(
            first_step=self.first_step,
            last_step=max(last_step, self.first_step),
            steps=steps,
            span_s=span,
            own=late,
            peers=peers,
            # Waits that overlap may add up to more than the time there was.
            base=np.maximum(span / steps - np.maximum(late - peers, 0.0), _LEAST_BASE * span / steps) * heard,
            wait=wait,
            waited=peers_median(wait) - wait,
            parts=np.zeros((len(PARTS), late.size)),
        )
        self._clear()
        return [tick]

    def _clear(self) -> None:
        for sums in self._sums():
            sums[:] = 0.0


def _set_backs(start: Array, before: float, patience_s: float) -> list[int]:
    """Where the clock was set back by more than ``patience_s``."""
    heard = np.flatnonzero(~np.isnan(start))
    previous = np.concatenate([[before], start[heard[:-1]]])[: heard.size]
    return [int(at) for at in heard[start[heard] < previous - patience_s]]


def _rising(start: Array, before: float) -> Array:
    """``start`` with unheard entries and backward jumps of the clock carried forward."""
    filled = np.fmax.accumulate(np.concatenate([[before], start]))[1:]
    return np.where(np.isnan(filled), start[~np.isnan(start)][0] if (~np.isnan(start)).any() else 0.0, filled)
