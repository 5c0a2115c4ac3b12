"""From ops that overlap to phases that do not: communication is the time in which a rank did nothing but communicate.

Rule of this file: vectorised over all rows at once, and never beyond a rank's step: what other steps do at the same
moment hides nothing, for clocks may restart in every step. Time in which a rank did nothing at all is no row.
"""

import numpy as np

from paceline.events import OP_INDEX, OVERLAYS

from .intervals import new_time
from .op_rows import TOTAL, Cells, Floats, Ints, Rows, cells, spans

_COMMUNICATION = OP_INDEX["communication"]
_OVERLAYS = [OP_INDEX[name] for name in OVERLAYS]


def phases(rows: Rows, ends: Floats) -> Rows:
    """``rows`` with communication reduced to what no work hides, one row a rank and step, and every step closed.

    Args:
        rows: as ``Rows.by_cell`` puts them.
        ends: when the step of each cell is over.
    """
    there = cells(rows)
    kept = rows.only((rows.op != _COMMUNICATION) & (rows.op != TOTAL))
    parts = [kept, _exposed(rows, there), _closing(rows, there, ends)]
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _exposed(rows: Rows, there: Cells) -> Rows:
    """One communication row for each cell that has any: as long as work and communication are together, less work."""
    communicates = rows.op == _COMMUNICATION
    works = ~communicates & (rows.op != TOTAL) & ~np.isin(rows.op, _OVERLAYS)
    seconds = _covered(rows, there, communicates | works) - _covered(rows, there, works)
    start = np.full(there.rank.size, np.inf)
    np.minimum.at(start, there.of[communicates], rows.start[communicates])
    some = np.isfinite(start)
    return _one_a_cell(there, some, _COMMUNICATION, start, np.maximum(seconds, 0.0))


def _covered(rows: Rows, there: Cells, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """The seconds of each cell in which any of the rows ``which`` ran."""
    seconds = np.zeros(there.rank.size)
    if not which.any():
        return seconds
    of = there.of[which]
    # Seconds since the cell began: sums of times of day would cost the microseconds.
    start = rows.start[which] - rows.start[there.begin][of]
    end = start + rows.duration[which]
    # Every cell after the one before: then one running maximum serves all.
    np.maximum.at(seconds, of, end)
    before = (np.cumsum(seconds) - seconds)[of]
    start, end = start + before, end + before
    return np.bincount(of, weights=end - new_time(start, end), minlength=seconds.size).astype(np.float64)


def _closing(rows: Rows, there: Cells, end: Floats) -> Rows:
    """The row that closes each rank's step: the source's own, else from its first row's start to the step's end."""
    start, _ = spans(rows, there)
    own = np.flatnonzero(rows.op == TOTAL)
    closed, first = np.unique(there.of[own], return_index=True)
    made = np.ones(start.size, dtype=bool)
    made[closed] = False
    new = _one_a_cell(there, made, TOTAL, start, end - start)
    return Rows(*(np.concatenate(columns) for columns in zip(rows.only(own[first]), new, strict=True)))


def _one_a_cell(
    there: Cells, which: np.ndarray[tuple[int], np.dtype[np.bool_]], op: int, start: Floats, seconds: Floats
) -> Rows:
    rank, step = there.rank[which], there.step[which]
    words: tuple[Ints, Ints] = (np.full(rank.size, op), np.full(rank.size, -1))
    return Rows(rank, step, *words, start[which], seconds[which])
