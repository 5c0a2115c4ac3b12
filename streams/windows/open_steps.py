"""The open steps of one job: seconds by step, rank and phase, in arrays that slide along with the steps.

Rule of this file: it stores and never judges. Steps count upward on every rank alike, which is what ranks have in
common; their clocks are not, so a start time is only ever compared with others of the same rank.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline.events import LATEST_S, OVERLAYS, PHASES

from ..robust import known_or_zero
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


class OpenSteps:
    """Seconds of each open step (rows), rank (slots, in order of appearance, and room for more) and phase."""

    def __init__(self) -> None:
        self.base = -1
        self.closed = -1
        self.used = 0
        self.dropped = 0
        self.beyond = 0
        self.slot: dict[int, int] = {}
        #: By rank: its slot, -1 for none.
        self.place_of: Whole = np.full(0, -1, dtype=np.int64)
        self.nodes: list[str] = []
        self._allocate(0, 0)
        #: By slot: the first step in which each phase was told.
        self.first_told: Whole = np.full((0, len(COLUMNS)), MOST_STEP, dtype=np.int64)
        self.last_step: Whole = np.zeros(0, dtype=np.int64)
        self.newest_s: Floats = np.zeros(0)

    def _allocate(self, steps: int, ranks: int) -> None:
        self.phase_s = np.zeros((steps, ranks, len(COLUMNS)))
        self.step_s = np.full((steps, ranks), np.nan)
        self.start_s = np.full((steps, ranks), np.nan)

    @property
    def ranks(self) -> list[int]:
        """The ranks heard, by slot."""
        return list(self.slot)

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
        rank, step, start, seconds = rows.rank, rows.step, rows.start_s, rows.seconds
        heard = (rank >= 0) & (rank < self.place_of.size)
        slot = np.where(heard, self.place_of[np.where(heard, rank, 0)], -1)
        good = (step >= 0) & (step < MOST_STEP) & (start >= 0) & (start <= LATEST_S) & (slot >= 0)
        if not good.all():
            step, slot, start, seconds = step[good], slot[good], start[good], seconds[:, good]
        if step.size:
            self._add(step, slot, np.where(seconds >= 0, seconds, np.nan), start)

    def _add(self, step: Whole, slot: Whole, seconds: Floats, start: Floats) -> None:
        self._reserve(int(step.min()), int(step.max()))
        index = step - self.base
        fits = (index >= 0) & (index < len(self.step_s))
        if not fits.all():
            self.dropped += int((~np.isnan(seconds[:, ~fits])).sum())
            index, slot, seconds, start = index[fits], slot[fits], seconds[:, fits], start[fits]
        if not index.size:
            return
        self.used = max(self.used, int(index.max()) + 1)
        phases, whole = seconds[: len(COLUMNS)].T, ~np.isnan(seconds[TOTAL])
        cells = (index * self.last_step.size + slot)[:, None] * len(COLUMNS) + np.arange(len(COLUMNS))
        np.add.at(self.phase_s.reshape(-1), cells.reshape(-1), known_or_zero(phases).reshape(-1))
        told, column = np.nonzero(~np.isnan(phases))
        np.minimum.at(self.first_told, (slot[told], column), index[told] + self.base)
        index, slot, start = index[whole], slot[whole], start[whole]
        self.step_s[index, slot] = seconds[TOTAL][whole]
        self.start_s[index, slot] = start
        np.maximum.at(self.last_step, slot, index + self.base)
        np.maximum.at(self.newest_s, slot, start)

    def _reserve(self, low: int, high: int) -> None:
        """Make room for steps ``low`` to ``high``, as far as they are not closed and not too many."""
        if self.base < 0:
            self.base = low
        low = max(low, self.closed + 1)
        newest = self.base + self.used
        if low < self.base and newest - low <= self.most_steps:
            self._resize(self.base - low, 0)
            self.base = low
        if low <= newest + self.most_steps:
            self.beyond = 0
        elif self.beyond + 1 < JUMP_MESSAGES:  # One odd message must not silence all the others.
            self.beyond += 1
            return
        else:  # A long gap: what is open will never be completed.
            self.drop(self.used)
            self.base = newest = low
        length = min(max(high + 1, newest) - self.base, self.most_steps)
        if length > len(self.step_s):
            self._resize(0, max(length, min(2 * len(self.step_s), self.most_steps)) - len(self.step_s))

    def _resize(self, before: int, after: int) -> None:
        self.phase_s = np.pad(self.phase_s, ((before, after), (0, 0), (0, 0)))
        self.step_s = np.pad(self.step_s, ((before, after), (0, 0)), constant_values=np.nan)
        self.start_s = np.pad(self.start_s, ((before, after), (0, 0)), constant_values=np.nan)
        self.used += before

    def drop(self, steps: int) -> None:
        """Close the first ``steps`` open steps."""
        left = self.used - steps
        room = left + min(max(16, 2 * left), max(0, self.most_steps - left))
        # What stays moves to the front of the same arrays: new ones of a large job take longer to fill than all else.
        for table, empty in ((self.phase_s, 0.0), (self.step_s, np.nan), (self.start_s, np.nan)):
            table[:left] = table[steps : self.used]
            table[left : self.used] = empty
        if len(self.step_s) > 2 * room:
            self.phase_s, self.step_s, self.start_s = (
                table[:room].copy() for table in (self.phase_s, self.step_s, self.start_s)
            )
        self.base += steps
        self.used = left
        self.closed = self.base - 1

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "base": self.base,
            "closed": self.closed,
            "dropped": self.dropped,
            "beyond": self.beyond,
            "ranks": self.ranks,
            "nodes": list(self.nodes),
            "phase_s": self.phase_s[: self.used],
            "step_s": self.step_s[: self.used],
            "start_s": self.start_s[: self.used],
            "first_told": self.first_told,
            "last_step": self.last_step,
            "newest_s": self.newest_s,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.base, self.closed = data["base"], data["closed"]
        self.dropped, self.beyond = data["dropped"], data["beyond"]
        self.slot = {rank: slot for slot, rank in enumerate(data["ranks"])}
        self.nodes = list(data["nodes"])
        self.place_of = np.full(max(self.slot, default=-1) + 1, -1, dtype=np.int64)
        self.place_of[list(self.slot)] = list(self.slot.values())
        self.phase_s, self.step_s, self.start_s = data["phase_s"], data["step_s"], data["start_s"]
        self.used = len(self.step_s)
        self.first_told, self.last_step, self.newest_s = data["first_told"], data["last_step"], data["newest_s"]
