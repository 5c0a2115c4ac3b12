"""The open steps of one job: seconds by step, rank and phase, in arrays that slide along with the steps.

Rule of this file: it stores and never judges. Steps count upward on every rank alike, which is what ranks have in
common; their clocks are not, so a start time is only ever compared with others of the same rank. Only steps that were
told take room: those of a profiler that looks at every thousandth are as many as there are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline.events import LATEST_S, MOST_LEFT_OUT, OVERLAYS, PHASES, RANK_LIMIT

from ..limits import ABSURD_S
from ..robust import known_or_zero
from ..runs import distinct
from ..step_rows import TOTAL, StepRows

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

#: The columns of a summary: the words of the rows but the last, which is the whole step.
COLUMNS = PHASES + OVERLAYS
#: No more open steps than this, and no more open cells (steps x ranks): what bounds the memory of one job.
MOST_STEPS = 4096
MOST_CELLS = 500_000
MOST_STEP = 2**53
#: So many messages in a row must lie beyond the room for open steps before it is given up for them.
JUMP_MESSAGES = 3
#: In place of how many steps are left out after one: nobody has closed it.
_NOT_CLOSED = MOST_LEFT_OUT + 1


class OpenSteps:
    """Seconds of each open step (rows), rank (slots, in order of appearance, and room for more) and phase."""

    def __init__(self) -> None:
        #: The step of each row in use, ascending.
        self.numbers: Whole = np.empty(0, dtype=np.int64)
        self.closed = -1
        self.dropped = 0
        self.beyond = 0
        self.slot: dict[int, int] = {}
        #: By rank: its slot, -1 for none.
        self.place_of: Whole = np.full(0, -1, dtype=np.int64)
        self.nodes: list[str] = []
        self._rank_of: Whole | None = None
        self._allocate(0, 0)
        #: By slot: the first step in which each phase was told.
        self.first_told: Whole = np.full((0, len(COLUMNS)), MOST_STEP, dtype=np.int64)
        #: By slot: the last step that the rank told, or leaves out right after it.
        self.last_step: Whole = np.zeros(0, dtype=np.int64)
        self.newest_s: Floats = np.zeros(0)

    def _allocate(self, steps: int, ranks: int) -> None:
        self.phase_s = np.zeros((steps, ranks, len(COLUMNS)))
        self.step_s = np.full((steps, ranks), np.nan)
        self.start_s = np.full((steps, ranks), np.nan)
        #: By row: how many steps right after it no rank tells, on purpose; more than that where nobody has closed it.
        self.left_out: Whole = np.full(steps, _NOT_CLOSED, dtype=np.int64)

    def left_out_after(self, steps: int) -> int:
        """Steps that no rank tells, on purpose, right after the first ``steps`` open ones."""
        told = self.left_out[:steps]
        return int(told[told < _NOT_CLOSED].sum())

    @property
    def used(self) -> int:
        """How many steps are open."""
        return self.numbers.size

    @property
    def ranks(self) -> list[int]:
        """The ranks heard, by slot."""
        return list(self.slot)

    @property
    def rank_of(self) -> Whole:
        """The same as an array."""
        if self._rank_of is None:
            self._rank_of = np.array(self.ranks, dtype=np.int64)
        return self._rank_of

    def last_of(self, steps: int) -> int:
        """The last of the first ``steps`` open steps; those that nobody told belong with the one before."""
        return int(self.numbers[steps]) - 1 if steps < self.used else int(self.numbers[-1])

    @property
    def most_steps(self) -> int:
        """How many steps may be open at once."""
        return int(min(MOST_STEPS, max(8, MOST_CELLS // max(1, len(self.slot)))))

    def place(self, ranks: Sequence[int], node: str) -> None:
        """Take down which ranks speak on ``node``."""
        new = [rank for rank in dict.fromkeys(ranks) if rank not in self.slot]
        if not new:
            return
        for rank in new:
            self.slot[rank] = len(self.slot)
            self.nodes.append(node)
        self._rank_of = None
        self._widen(len(self.slot))
        if self.place_of.size <= max(new):
            room = max(max(new) + 1, self.place_of.size * 3 // 2)
            self.place_of = np.pad(self.place_of, (0, room - self.place_of.size), constant_values=-1)
        self.place_of[new] = [self.slot[rank] for rank in new]

    def _widen(self, slots: int) -> None:
        """Room for so many ``slots``, and for half as many again: thousands of nodes join one by one."""
        width = self.last_step.size
        if slots <= width:
            return
        more = max(slots, width * 3 // 2) - width
        self.phase_s = np.pad(self.phase_s, ((0, 0), (0, more), (0, 0)))
        self.step_s = np.pad(self.step_s, ((0, 0), (0, more)), constant_values=np.nan)
        self.start_s = np.pad(self.start_s, ((0, 0), (0, more)), constant_values=np.nan)
        self.first_told = np.pad(self.first_told, ((0, more), (0, 0)), constant_values=MOST_STEP)
        self.last_step = np.pad(self.last_step, (0, more), constant_values=-1)
        self.newest_s = np.pad(self.newest_s, (0, more), constant_values=-np.inf)

    def update(self, rows: StepRows) -> None:
        """Take in the rows of a few messages; those of ranks that do not speak are left out."""
        if not self.slot:
            return
        rank, step, start, seconds, left = rows.rank, rows.step, rows.start_s, rows.seconds, rows.left_out
        heard = (rank >= 0) & (rank < self.place_of.size)
        slot = np.where(heard, self.place_of[np.where(heard, rank, 0)], -1)
        good = (step >= 0) & (step < MOST_STEP) & (start >= 0) & (start <= LATEST_S) & (slot >= 0)
        if np.count_nonzero(good) < good.size:
            step, slot, start, seconds, left = step[good], slot[good], start[good], seconds[:, good], left[good]
        if step.size:
            self._add(step, slot, np.where((seconds >= 0) & (seconds <= ABSURD_S), seconds, np.nan), start, left)

    def _add(self, step: Whole, slot: Whole, seconds: Floats, start: Floats, left: Whole) -> None:
        index = self._rows_of(step)
        fits = index >= 0
        if np.count_nonzero(fits) < fits.size:
            self.dropped += int((~np.isnan(seconds[:, ~fits])).sum())
            index, step, slot, seconds, start = index[fits], step[fits], slot[fits], seconds[:, fits], start[fits]
            left = left[fits]
        if not index.size:
            return
        phases, whole = seconds[: len(COLUMNS)], ~np.isnan(seconds[TOTAL])
        cells = (index * self.last_step.size + slot) * len(COLUMNS) + np.arange(len(COLUMNS))[:, None]
        np.add.at(self.phase_s.reshape(-1), cells.reshape(-1), known_or_zero(phases).reshape(-1))
        earlier = ~np.isnan(phases) & (step < self.first_told[slot].T)
        if np.count_nonzero(earlier):
            column, told = np.nonzero(earlier)
            np.minimum.at(self.first_told, (slot[told], column), step[told])
        lasted = seconds[TOTAL]
        if np.count_nonzero(whole) < whole.size:
            index, step, slot, start, left = index[whole], step[whole], slot[whole], start[whole], left[whole]
            lasted = lasted[whole]
        self.step_s[index, slot] = lasted
        self.start_s[index, slot] = start
        np.maximum.at(self.last_step, slot, step + left)
        np.minimum.at(self.left_out, index, left)
        np.maximum.at(self.newest_s, slot, start)

    def _rows_of(self, step: Whole) -> Whole:
        """The row of each step; -1 for one that is closed or finds no room. Steps that are new get theirs."""
        told = np.array(distinct(step[step > self.closed]), dtype=np.int64)
        new = told[self._row_of(told) < 0]
        if new.size:
            self._make_room(told.size == new.size)
            self._open(new[: max(0, self.most_steps - self.used)])
        return self._row_of(step)

    def _row_of(self, step: Whole) -> Whole:
        """The row of each step; -1 for one that has none."""
        if not self.used:
            return np.full(step.size, -1, dtype=np.int64)
        row = np.minimum(np.searchsorted(self.numbers, step), self.used - 1)
        return np.where(self.numbers[row] == step, row, -1)

    def _make_room(self, all_new: bool) -> None:
        """Where all rows are in use and messages tell of none of their steps, these will never be completed."""
        if self.used < self.most_steps or not all_new:
            self.beyond = 0
            return
        self.beyond += 1
        if self.beyond >= JUMP_MESSAGES:  # One odd message must not silence all the others.
            self.beyond = 0
            self.drop(self.used)

    def _open(self, new: Whole) -> None:
        """Put rows for the steps ``new`` among those in use."""
        before = self.numbers
        self.numbers = np.concatenate([before, new])
        between = before.size > 0 and new.size > 0 and bool(new[0] < before[-1])
        order = np.argsort(self.numbers, kind="stable") if between else None
        if self.used > len(self.step_s):
            room = max(self.used, min(2 * len(self.step_s), self.most_steps)) - len(self.step_s)
            self.phase_s = np.pad(self.phase_s, ((0, room), (0, 0), (0, 0)))
            self.step_s = np.pad(self.step_s, ((0, room), (0, 0)), constant_values=np.nan)
            self.start_s = np.pad(self.start_s, ((0, room), (0, 0)), constant_values=np.nan)
            self.left_out = np.pad(self.left_out, (0, room), constant_values=_NOT_CLOSED)
        if order is not None:
            # A step from between or before those that are open: their rows move up, from the first that is empty.
            self.numbers = self.numbers[order]
            for table in (self.phase_s, self.step_s, self.start_s, self.left_out):
                table[: self.used] = table[order]

    def drop(self, steps: int) -> None:
        """Close the first ``steps`` open steps."""
        if not steps:
            return
        left, used = self.used - steps, self.used
        room = left + min(max(16, 2 * left), max(0, self.most_steps - left))
        # What stays moves to the front of the same arrays: new ones of a large job take longer to fill than all else.
        tables = ((self.phase_s, 0.0), (self.step_s, np.nan), (self.start_s, np.nan), (self.left_out, _NOT_CLOSED))
        for table, empty in tables:
            table[:left] = table[steps:used]
            table[left:used] = empty
        if len(self.step_s) > 2 * room:
            self.phase_s, self.step_s, self.start_s = (
                table[:room].copy() for table in (self.phase_s, self.step_s, self.start_s)
            )
            self.left_out = self.left_out[:room].copy()
        self.closed = self.last_of(steps)
        self.numbers = self.numbers[steps:]

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "numbers": self.numbers,
            "closed": self.closed,
            "dropped": self.dropped,
            "beyond": self.beyond,
            "ranks": self.ranks,
            "nodes": list(self.nodes),
            "phase_s": self.phase_s[: self.used],
            "step_s": self.step_s[: self.used],
            "start_s": self.start_s[: self.used],
            "left_out": self.left_out[: self.used],
            "first_told": self.first_told,
            "last_step": self.last_step,
            "newest_s": self.newest_s,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.numbers, self.closed = data["numbers"], data["closed"]
        self.dropped, self.beyond = data["dropped"], data["beyond"]
        self.slot = {rank: slot for slot, rank in enumerate(data["ranks"])}
        # The table of places is as long as the highest rank: a damaged state must not choose that.
        if not all(0 <= rank < RANK_LIMIT for rank in self.slot):
            raise ValueError("a rank beyond what any job has")
        self._rank_of = None
        self.nodes = list(data["nodes"])
        self.place_of = np.full(max(self.slot, default=-1) + 1, -1, dtype=np.int64)
        self.place_of[list(self.slot)] = list(self.slot.values())
        self.phase_s, self.step_s, self.start_s = data["phase_s"], data["step_s"], data["start_s"]
        self.left_out = data["left_out"]
        self.first_told, self.last_step, self.newest_s = data["first_told"], data["last_step"], data["newest_s"]
