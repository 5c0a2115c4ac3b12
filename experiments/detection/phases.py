"""A job's rows as tables of seconds, for rules that look at phases: (steps, ranks) for each op.

Rule of this file: it collects; NaN is "not heard".
"""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline import columns
from paceline.events import STEP, Column, StepTimings

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
COMPUTE = ("forward", "backward", "optimizer")


class ClosedSteps(NamedTuple):
    """Steps that ranks closed, equally long: who, which, when it began (Unix time) and how long it took."""

    rank: Ints
    step: Ints
    start_s: Floats
    seconds: Floats


def closed_steps(event: StepTimings) -> ClosedSteps:
    """The steps that ``event`` tells."""
    rank, step, start, seconds = map(_numbers, (event.rank, event.step, event.start_s, event.step_s))
    return ClosedSteps(rank.astype(np.int64), step.astype(np.int64), start + event.t0_s, seconds)


def _numbers(column: Column) -> Floats:
    return np.frombuffer(column.data, "<" + column.type).astype(np.float64)


class Phases:
    """Takes events, gives ``tables``."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Any, Any, Any]]] = defaultdict(list)
        self._ends: list[tuple[Any, Any, Any]] = []
        self.ranks = 0
        self.open_s: dict[int, float] = {}
        self.missing: set[int] = set()
        self.last_s = 0.0

    def update(self, event: object) -> None:
        """Take in one event."""
        if not isinstance(event, StepTimings):
            return
        self._take(event)
        if event.open and event.now_s is not None:
            ranks = columns.numbers(event.speakers.ranks)
            self.last_s = max(self.last_s, event.now_s)
            self.open_s.update({one.rank: event.now_s - one.start_s for one in event.open})
            self.missing |= set(ranks) - {one.rank for one in event.open}

    def _take(self, event: StepTimings) -> None:
        closed = closed_steps(event)
        if not closed.rank.size:
            return
        for name, column in event.phases.items():
            seconds = _numbers(column)
            has = ~np.isnan(seconds)
            self._parts[name].append((closed.rank[has], closed.step[has], seconds[has]))
        self._parts[STEP].append((closed.rank, closed.step, closed.seconds))
        self.ranks = max(self.ranks, max(columns.numbers(event.speakers.world_sizes), default=0))
        self._ends.append((closed.rank, closed.step, closed.start_s + closed.seconds))

    def tables(self) -> "Tables":
        """Everything heard."""
        whole = [np.concatenate(parts) for parts in zip(*self._parts.get(STEP, []), strict=True)]
        steps = int(whole[1].max()) + 1 if whole else 0
        found = {name: self._table(parts, steps) for name, parts in self._parts.items()}
        heard = ~np.isnan(found[STEP]) if STEP in found else np.zeros((0, 0), dtype=bool)
        for name, table in found.items():
            if name != STEP:
                found[name] = np.where(heard, np.nan_to_num(table), np.nan)
        ends = self._table(self._ends, steps)
        known = ~np.isnan(ends).all(axis=1) if steps else np.zeros(0, dtype=bool)
        last = np.full(steps, np.nan)
        last[known] = np.nanmax(ends[known], axis=1)
        return Tables(found, last, self.ranks)

    def _table(self, parts: list[tuple[Any, Any, Any]], steps: int) -> Floats:
        out = np.full((steps, self.ranks), np.nan)
        for rank, step, seconds in parts:
            sound = (step >= 0) & (step < steps) & (rank < self.ranks)
            cells = (step[sound], rank[sound])
            out[cells] = np.nan_to_num(out[cells])
            np.add.at(out, cells, seconds[sound])
        return out


class Tables:
    """``of(op)``: (steps, ranks) seconds; ``end_s``: (steps,) when the last rank had ended each step (Unix time)."""

    def __init__(self, tables: dict[str, Floats], end_s: Floats, ranks: int) -> None:
        self.tables = tables
        self.end_s = end_s
        self.ranks = ranks

    @property
    def steps(self) -> int:
        """Steps heard of."""
        return int(self.end_s.size)

    def of(self, *ops: str) -> Floats:
        """The sum of ``ops``; 0 where a rank was heard and has none."""
        heard = self.tables.get(STEP)
        if heard is None:
            return np.full((self.steps, self.ranks), np.nan)
        out = np.where(np.isnan(heard), np.nan, 0.0)
        for op in ops:
            if op in self.tables:
                out = out + self.tables[op]
        return out

    def windows(self, steps: int) -> list[slice]:
        """Whole runs of ``steps`` steps, one after the other."""
        return [slice(begin, begin + steps) for begin in range(0, self.steps - steps + 1, steps)]

    def minutes(self, seconds: float) -> list[slice]:
        """Runs of steps that end in the same ``seconds``, without what is left over at the end."""
        known = np.flatnonzero(~np.isnan(self.end_s))
        if not known.size:
            return []
        first = float(self.end_s[known[0]])
        number = np.floor((self.end_s - first) / seconds)
        out = []
        for index in range(int(np.nanmax(number))):
            inside = np.flatnonzero(number == index)
            if inside.size:
                out.append(slice(int(inside[0]), int(inside[-1]) + 1))
        return out
