"""From ops that overlap to phases that do not: communication is the time in which a rank did nothing but communicate.

Rule of this file: vectorised over all rows at once; time in which a rank did nothing at all is no row.
"""

import numpy as np

from paceline.events import OP_INDEX

from .op_rows import TOTAL, Floats, Ints, Rows

_COMMUNICATION = OP_INDEX["communication"]
_OVERLAYS = (OP_INDEX["gc"], OP_INDEX["cpu_wait"])


def phases(rows: Rows) -> Rows:
    """``rows`` with communication reduced to what no work hides, one row a rank and step, and every step closed."""
    kept = rows.only((rows.op != _COMMUNICATION) & (rows.op != TOTAL))
    parts = [kept, _exposed(rows), _closing(rows)]
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _exposed(rows: Rows) -> Rows:
    """One communication row for each rank and step that has any."""
    counted = rows.only((rows.op != TOTAL) & ~np.isin(rows.op, _OVERLAYS))
    waits = (counted.op == _COMMUNICATION).astype(np.int64)
    rank = np.concatenate([counted.rank, counted.rank])
    time = np.concatenate([counted.start, counted.start + counted.duration])
    # A row that ends where another begins has ended first, and one of no length has begun before it ends.
    closes = np.concatenate([np.zeros_like(waits), np.ones_like(waits)])
    step = np.concatenate([counted.step, counted.step])
    order = np.lexsort((closes, time, rank))
    rank, time, step = rank[order], time[order], step[order]
    change = 1 - 2 * closes
    communicating = np.cumsum((change * np.concatenate([waits, waits]))[order])
    working = np.cumsum((change * np.concatenate([1 - waits, 1 - waits]))[order])
    length = np.append(np.diff(time), 0.0)
    same = np.append(rank[1:] == rank[:-1], False)
    alone = same & (communicating > 0) & (working == 0) & (length > 0)
    return _sums(rank[alone], step[alone], time[alone], length[alone], counted.only(waits == 1))


def _sums(rank: Ints, step: Ints, time: Floats, length: Floats, there: Rows) -> Rows:
    """Stretches added up by rank and step; 0 where all of a step's communication was hidden."""
    cells, place = _cells(np.concatenate([rank, there.rank]), np.concatenate([step, there.step]))
    seconds = np.bincount(place[: rank.size], weights=length, minlength=cells.shape[1])
    start = np.full(cells.shape[1], np.inf)
    np.minimum.at(start, place, np.concatenate([time, there.start]))
    count = cells.shape[1]
    op, none = np.full(count, _COMMUNICATION), np.full(count, -1)
    return Rows(cells[0], cells[1], op, none, start, seconds.astype(np.float64))


def _closing(rows: Rows) -> Rows:
    """The row that closes each rank's step: the source's own, else from its first row's start to its last one's end."""
    given = rows.only(rows.op == TOTAL)
    cells, place = _cells(rows.rank, rows.step)
    count = cells.shape[1]
    start, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(start, place, rows.start)
    np.maximum.at(end, place, rows.start + rows.duration)
    has_own = np.zeros(count, dtype=bool)
    has_own[place[rows.op == TOTAL]] = True
    made = ~has_own
    own_cells, own_place = _cells(given.rank, given.step)
    first = np.full(own_cells.shape[1], given.rank.size, dtype=np.int64)
    np.minimum.at(first, own_place, np.arange(given.rank.size))
    own = given.only(first)
    size = int(made.sum())
    new = Rows(
        cells[0, made], cells[1, made], np.full(size, TOTAL), np.full(size, -1), start[made], (end - start)[made]
    )
    return Rows(*(np.concatenate(columns) for columns in zip(own, new, strict=True)))


def _cells(rank: Ints, step: Ints) -> tuple[Ints, Ints]:
    """The (rank, step) pairs there are, (2, cells), and the place of each row among them."""
    if not rank.size:
        return np.empty((2, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    # By the steps' places among all steps: a step number may be anything.
    steps, number = np.unique(step, return_inverse=True)
    keys, place = np.unique(rank * steps.size + number.reshape(-1), return_inverse=True)
    return np.stack([keys // steps.size, steps[keys % steps.size]]), place.reshape(-1)
