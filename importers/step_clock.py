"""One clock for steps whose starts do not follow each other: that restart, or that are not there at all.

Rule of this file: pure. What is inside a step stays as it is, on every rank, and only whole steps are moved, all ranks
by as much. A start is compared with others of the same rank alone, so clocks of ranks may be years apart.
"""

import numpy as np

from paceline.events import OP_INDEX, OVERLAYS

from .op_rows import TOTAL, Cells, Floats, Ints, Rows, cells, spans

#: The middle row of a step begins this part of a step after that of the step before, at the least: a row that runs
#: ahead, data read for the next step or a checkpoint that goes on beside it, makes steps overlap and moves no middle.
_ONWARD = 0.25
#: No step lasts so long: what begins farther from the middle of its step has a wrong start.
FARTHEST_S = 86_400.0


def astray(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows begin a day or more from the middle row of their rank's step.

    Args:
        rows: as ``Rows.by_cell`` puts them.
    """
    there = cells(rows)
    return np.asarray(np.abs(rows.start - rows.start[_middle(there, rows.rank.size)][there.of]) >= FARTHEST_S)


def one_after_another(rows: Rows) -> tuple[Rows, int]:
    """``rows`` with every step after the step before on all ranks, and in how many steps starts went back.

    Where they do so nowhere, the rows stay as they are, overlaps and all.

    >>> none = np.zeros(3, dtype=np.int64)
    >>> rows = Rows(none, np.array([4, 5, 90]), none, none, np.array([0.5, 0.5, 60.0]), np.ones(3))
    >>> laid, restarts = one_after_another(rows)
    >>> laid.start.tolist(), restarts
    ([0.5, 1.5, 61.0], 1)

    Args:
        rows: as ``Rows.by_cell`` puts them.
    """
    there = cells(rows)
    start, end = spans(rows, there)
    middle = rows.start[_middle(there, rows.rank.size)]
    span = end - start
    follows = there.rank[1:] == there.rank[:-1]
    back = follows & (middle[1:] < middle[:-1] + _ONWARD * np.minimum(span[1:], span[:-1]))
    if not back.any():
        return rows, 0
    steps, number = np.unique(there.step, return_inverse=True)
    shift = np.zeros(steps.size)
    # By what the steps before have been moved, every one is moved as well.
    np.maximum.at(shift, number[1:][follows], (end[:-1] - start[1:])[follows])
    moved = np.cumsum(shift)[number]
    return rows._replace(start=rows.start + moved[there.of]), int(np.unique(number[1:][back]).size)


def _middle(there: Cells, size: int) -> Ints:
    """The middle row of each cell."""
    return np.asarray((there.begin + np.append(there.begin[1:], size) - 1) // 2)


def ends(rows: Rows) -> Floats:
    """When each cell's step is over: for all ranks when the last has ended, where their clocks agree.

    A rank that is done sooner stands still until then, which a table may have no row for. Clocks agree where all ranks
    are in the step at some moment. A rank that has begun its next step by then has waited for nobody.

    >>> none = np.zeros(4, dtype=np.int64)
    >>> start, took = np.array([0.0, 10.0, 0.0, 10.0]), np.array([2.0, 2.0, 7.0, 7.0])
    >>> ends(Rows(np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2]), none, none, start, took)).tolist()
    [7.0, 17.0, 7.0, 17.0]

    Args:
        rows: as ``Rows.by_cell`` puts them.
    """
    there = cells(rows)
    start, own = spans(rows, there)
    steps, number = np.unique(there.step, return_inverse=True)
    first_end, last_start = np.full(steps.size, np.inf), np.full(steps.size, -np.inf)
    last_end = np.full(steps.size, -np.inf)
    np.minimum.at(first_end, number, own)
    np.maximum.at(last_end, number, own)
    np.maximum.at(last_start, number, start)
    following = np.full(start.size, np.inf)
    follows = there.rank[1:] == there.rank[:-1]
    following[:-1][follows] = start[1:][follows]
    together = np.where(last_start < first_end, last_end, -np.inf)[number]
    return np.asarray(np.maximum(own, np.minimum(together, following)))


def laid_out(rows: Rows) -> Rows:
    """Starts for rows that have none: one after the other in the order of the file, all ranks meeting at each step.

    Args:
        rows: as ``Rows.by_cell`` puts them.
    """
    there = cells(rows)
    spent = np.where(np.isin(rows.op, [TOTAL, *(OP_INDEX[name] for name in OVERLAYS)]), 0.0, rows.duration)
    before = np.cumsum(spent) - spent
    within = before - before[there.begin][there.of]
    steps, number = np.unique(there.step, return_inverse=True)
    length = np.zeros(steps.size)
    np.maximum.at(length, number[there.of], within + rows.duration)
    return rows._replace(start=(np.cumsum(length) - length)[number][there.of] + within)
