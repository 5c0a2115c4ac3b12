"""Units of ranks that fail together, nodes, switches and groups; and one look at all ranks as one look at such units.

Rule of this file: pure arithmetic over who is where. Work is compared between **cells**, the ranks of one unit in one
pipeline stage: a cell is as slow as its middle rank (of an even number the faster of the two), so that it takes more
than half of its ranks to make it slow, and it is compared with the other cells of its stage, or, where its stage lives
nowhere else, with its own past. A unit is as late as the cell in which its middle rank is. Two nodes of which one is
slow are so compared with each other, where of their ranks every second one is late and nobody would stand out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.events import OPS, RANK_LIMIT

from ..ingest.steps import Step
from ..raw_columns import Ints
from ..robust import Array, peers_median
from ..runs import lengths, starts
from ..stored import Kept, Stored
from .cohorts import Cohorts
from .ticks import ARRAYS, PARTS, Tick, Ticks

#: A step is never shorter than this without an excess.
_LEAST_BASE_S = 1e-9


class Units(Stored):
    """The units of one kind, and which ranks are in which. A unit keeps its number while the job runs."""

    names: Kept[list[str]]
    of: Kept[Ints]
    cells: Kept[Cohorts]
    _cell_unit: Kept[Ints]
    _cell_stage: Kept[Ints]

    def __init__(self) -> None:
        self.names = []
        self._numbers: dict[str, int] = {}
        #: By rank: the number of its unit, -1 where none is known.
        self.of = np.empty(0, dtype=np.int64)
        self.cells = Cohorts()
        #: By cell: its unit and stage; by rank: its cell, -1 for none. None: to be made.
        self._cell_unit = np.empty(0, dtype=np.int64)
        self._cell_stage = np.empty(0, dtype=np.int64)
        self._cell_of: Ints | None = None
        self._sizes: Ints = np.empty(0, dtype=np.int64)

    def place(self, ranks: Sequence[int] | Ints, name: str) -> None:
        """Take down that ``ranks``, whose stages are known by now, are in the unit ``name``; "" is none."""
        at = np.asarray(ranks, dtype=np.int64)
        if not at.size:
            return
        number = self._number(name)
        more = int(at.max()) + 1 - self.of.size
        if more > 0:
            # Room for half as many again: thousands of nodes join one by one.
            self.of = np.pad(self.of, (0, max(more, self.of.size // 2)), constant_values=-1)
        self.of[at] = number
        self._cell_of = None

    def _number(self, name: str) -> int:
        if name and name not in self._numbers and len(self.names) < RANK_LIMIT:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers.get(name, -1)

    @property
    def comparable(self) -> bool:
        """Whether there is more than one unit, and any of more than one rank: else ranks say all that there is."""
        if len(self.names) < 2:
            return False
        if self._cell_of is None:
            placed = self.of[self.of >= 0]
            self._sizes = np.bincount(placed, minlength=len(self.names))
        return bool((self._sizes > 1).any())

    def ranks(self, unit: int) -> Ints:
        """The ranks of ``unit``."""
        return np.flatnonzero(self.of == unit)

    def ranks_of(self, name: str) -> Ints:
        """The ranks of the unit called ``name``; none where there is no such unit."""
        return self.ranks(self._numbers[name]) if name in self._numbers else np.empty(0, dtype=np.int64)

    def hold(self, ranks: Ints) -> int:
        """How many units ``ranks`` are in."""
        of = self.of[ranks[ranks < self.of.size]]
        return int(np.unique(of[of >= 0]).size)

    def unit_of(self, rank: int) -> int:
        """The number of the unit that ``rank`` is in; -1 for none."""
        return int(self.of[rank]) if rank < self.of.size else -1

    def of_tick(self, tick: Tick, cohorts: Cohorts) -> Tick:
        """What ``tick`` says of the units: the arrays have an entry a unit, NaN where none of it was heard.

        Args:
            tick: one look at all ranks.
            cohorts: the stages of the ranks.
        """
        cell_of = self._cells(cohorts)[: tick.own.size]
        cell_of = np.pad(cell_of, (0, tick.own.size - cell_of.size), constant_values=-1)
        heard = np.flatnonzero((cell_of >= 0) & ~np.isnan(tick.own))
        # Nobody to compare a rank with: then all of its cell are compared by their times as they are.
        by = np.where(np.isnan(tick.excess), tick.own, tick.excess)
        middle, count = _middles(heard, cell_of[heard], by)
        compared = self._compare(tick, middle, cell_of[middle])
        weight = np.zeros(self._cell_unit.size, dtype=np.int64)
        weight[cell_of[middle]] = count
        return self._by_unit(tick, compared, weight)

    def _cells(self, cohorts: Cohorts) -> Ints:
        """The cell of every rank; the numbers of cells stay what they are as units join."""
        if self._cell_of is not None:
            return self._cell_of
        stage, pipeline = (
            np.pad(one[: self.of.size], (0, max(self.of.size - one.size, 0)), constant_values=-1)
            for one in (cohorts.stage, cohorts.pipeline)
        )
        placed = np.flatnonzero(self.of >= 0)
        span = int(stage.max(initial=-1)) + 2
        keys, first, at = np.unique(self.of[placed] * span + stage[placed] + 1, return_index=True, return_inverse=True)
        unit, cell_stage = keys // span, keys % span - 1
        known = self._cell_unit.size
        if not (np.array_equal(unit[:known], self._cell_unit) and np.array_equal(cell_stage[:known], self._cell_stage)):
            self.cells = Cohorts()  # these cells are others, and have another past
        self._cell_unit, self._cell_stage = unit, cell_stage
        self._cell_of = np.full(self.of.size, -1, dtype=np.int64)
        self._cell_of[placed] = at
        self._sizes = np.bincount(self.of[placed], minlength=len(self.names))
        if (cell_stage >= 0).any():
            # Cells that begin with ranks of one pipeline are fed the same.
            self.cells.place(range(unit.size), cell_stage.tolist(), pipeline[placed][first].tolist())
        return self._cell_of

    def _compare(self, tick: Tick, middle: Ints, cell: Ints) -> Tick:
        """The look at cells, told by their ranks ``middle``, each compared with its peers."""
        cells = self._cell_unit.size
        if not tick.seconds.shape[1]:
            return _by_lateness(tick, middle, cell, cells)
        seconds = np.full((len(OPS), cells), np.nan)
        seconds[:, cell] = tick.seconds[:, middle]
        made = Ticks(0.0, self.cells).update(Step(tick.last_step, seconds, np.empty(0)))
        assert made is not None, "every tick is long enough for no time at all"
        return made

    def _by_unit(self, tick: Tick, cells: Tick, weight: Ints) -> Tick:
        """The look at units, each told by the cell in which its middle rank is."""
        if self._cell_unit.size == len(self.names):  # one each, in their order
            alike: dict[str, Any] = {name: getattr(cells, name) for name in ARRAYS}
            return tick._replace(**alike)
        known = np.flatnonzero(~np.isnan(cells.excess) & (weight > 0))
        order = known[np.lexsort((cells.excess[known], self._cell_unit[known]))]
        unit, size = self._cell_unit[order], weight[order]
        first = starts(unit)
        before = np.cumsum(size) - size
        run = lengths(first, order.size)
        whole = np.add.reduceat(size, first) if order.size else size
        upto = before - np.repeat(before[first], run) + size
        reached = upto > (np.repeat(whole, run) - 1) // 2
        there = np.flatnonzero(reached)
        told = there[starts(unit[there])]
        at, of = order[told], unit[told]

        def taken(values: Array) -> Array:
            out = np.full((*values.shape[:-1], len(self.names)), np.nan)
            out[..., of] = values[..., at]
            return out

        arrays: dict[str, Array] = {name: getattr(cells, name) for name in ARRAYS}
        made: dict[str, Any] = {name: taken(one) if one.shape[-1] else one for name, one in arrays.items()}
        return tick._replace(**made)

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._cell_of = None


def _middles(ranks: Ints, cell: Ints, by: Array) -> tuple[Ints, Ints]:
    """The middle rank of each cell, of an even number the faster of the two, and how many ranks each has.

    Args:
        ranks: those that were heard.
        cell: of each of them.
        by: how late every rank is.
    """
    order = np.argsort(cell, kind="stable")  # mostly sorted: a node's ranks are numbered one after the other
    ranks, cell = ranks[order], cell[order]
    first = starts(cell)
    count = lengths(first, ranks.size)
    if count.size and (count == count[0]).all():
        table = ranks.reshape(-1, int(count[0]))
        middle = (int(count[0]) - 1) // 2
        at = np.argpartition(by[table], middle, axis=1)[:, middle]
        return table[np.arange(count.size), at], count
    return ranks[np.lexsort((by[ranks], cell))][first + (count - 1) // 2], count


def _by_lateness(tick: Tick, middle: Ints, cell: Ints, cells: int) -> Tick:
    """The look at cells where only lateness is known: each against the median of the others."""

    def taken(values: Array) -> Array:
        out = np.full(cells, np.nan)
        out[cell] = values[middle]
        return out

    own, wait = taken(tick.own), taken(tick.wait)
    whole = taken(tick.base + np.maximum(tick.own - tick.peers, 0.0))
    peers = peers_median(own)
    base = np.maximum(whole - np.maximum(own - peers, 0.0), _LEAST_BASE_S)
    waited, parts = peers_median(wait) - wait, np.zeros((len(PARTS), cells))
    return tick._replace(own=own, peers=peers, base=base, wait=wait, waited=waited, parts=parts)
