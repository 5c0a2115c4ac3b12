"""Rows of ops to events, step by step over all ranks.

Rule of this file: whatever the order of the source, all ranks' rows of a step come before the next step's, and a rank's
closing row comes after its others; so clocks of ranks that disagree do no harm.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.columns import durations, offsets, whole
from paceline.events import OP_INDEX, OPS, STEP, Column, Microbatches, Speakers, StepTimings
from paceline.timed_event import TimedEvent
from paceline.topics import OP

TOTAL = OP_INDEX[STEP]
_FORWARD, _BACKWARD, _WAIT = (OP_INDEX[name] for name in ("forward", "backward", "communication"))
#: Rows of one message, and seconds.
MOST_ROWS, MOST_S = 4000, 1.0
_NONE = whole([])
#: A message that tells of no step.
ROWLESS: dict[str, Any] = {"rank": _NONE, "step": _NONE, "start_s": _NONE, "step_s": _NONE, "phases": {}}

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Equally long columns; ``op`` indexes ``OPS``, ``start`` is Unix time or seconds since the first row."""

    rank: Ints
    step: Ints
    op: Ints
    microbatch: Ints
    start: Floats
    duration: Floats

    def only(self, which: NDArray[Any]) -> "Rows":
        """The rows that ``which`` selects, by truth or by number."""
        return Rows(*(column[which] for column in self))

    def by_cell(self) -> "Rows":
        """The rows by rank, step and start; what starts at the same moment, or has no start, keeps its order."""
        return self.only(np.lexsort((self.start, self.step, self.rank)))


class Cells(NamedTuple):
    """The (rank, step) pairs of rows that stand by cell, in their order: what a rank did in a step is one cell.

    ``begin`` is each cell's first row, ``of`` the cell of each row.
    """

    rank: Ints
    step: Ints
    begin: Ints
    of: Ints


def cells(rows: Rows) -> Cells:
    """The cells of ``rows``, which must stand as ``by_cell`` puts them.

    >>> none = np.zeros(4)
    >>> one = np.array([0, 0, 0, 4])
    >>> cells(Rows(one, np.array([7, 7, 9, 7]), one, one, none, none)).begin.tolist()
    [0, 2, 3]
    """
    fresh = np.ones(rows.rank.size, dtype=bool)
    fresh[1:] = (rows.rank[1:] != rows.rank[:-1]) | (rows.step[1:] != rows.step[:-1])
    begin = np.flatnonzero(fresh)
    return Cells(rows.rank[begin], rows.step[begin], begin, np.cumsum(fresh) - 1)


def spans(rows: Rows, there: Cells) -> tuple[Floats, Floats]:
    """When each cell begins and ends, by the rows that take time; by all of them where none does.

    Args:
        rows: as ``Rows.by_cell`` puts them, and ``there`` are their cells.
    """
    lasts = rows.duration > 0
    lasts |= ~(np.bincount(there.of, weights=lasts) > 0)[there.of]
    start, end = np.full(there.begin.size, np.inf), np.full(there.begin.size, -np.inf)
    np.minimum.at(start, there.of[lasts], rows.start[lasts])
    np.maximum.at(end, there.of[lasts], (rows.start + rows.duration)[lasts])
    return start, end


@dataclass(frozen=True)
class ImportedJob:
    """Whose rows they are. Where known, ``dp``, ``tp``, ``pp`` are places of ranks and ``nodes`` their hosts."""

    name: str
    ranks: list[int]
    dp: dict[int, int]
    pp: dict[int, int]
    nodes: dict[int, str]
    tp: dict[int, int] = field(default_factory=dict)
    cluster: str = "imported"
    node: str = "imported"

    def about(self, node: str, sequence: int) -> dict[str, Any]:
        """What every message says."""
        return {
            "cluster": self.cluster,
            "producer": f"import-{self.name}-{node}",
            "sequence": sequence,
            "job": self.name,
            "attempt": 0,
            "node": node,
        }


def messages(rows: Rows, job: ImportedJob) -> Iterator[TimedEvent]:
    """The rows as StepTimings, by step, then rank, then time."""
    # The closing row goes last: it starts with the first of the others.
    order = np.lexsort((rows.start, rows.op == TOTAL, rows.rank, rows.step))
    rows = rows.only(order)
    names = sorted(set(job.nodes.values()) | {job.node})
    number = {name: index for index, name in enumerate(names)}
    size = max(job.ranks, default=0) + 1
    node_of = np.array([number[job.nodes.get(rank, job.node)] for rank in range(size)], dtype=np.int64)
    waits = bool((rows.op == _WAIT).any())
    sequences = dict.fromkeys(names, 0)
    clock_s = 0.0
    for begin, end in _cuts(rows):
        piece = rows.only(np.arange(begin, end))
        clock_s = max(clock_s, float((piece.start + piece.duration).max()))
        for index in np.unique(node_of[piece.rank]).tolist():
            mine = piece.only(node_of[piece.rank] == index)
            event = _event(mine, job, names[index], sequences[names[index]], waits=waits)
            sequences[names[index]] += 1
            yield TimedEvent(clock_s, OP, event)


def _cuts(rows: Rows) -> Iterator[tuple[int, int]]:
    """Where messages begin and end: whole steps of ranks, some second's worth, never too many rows."""
    if not rows.rank.size:
        return
    cells = np.flatnonzero(np.diff(rows.rank, prepend=-1) | np.diff(rows.step, prepend=-1))
    ends = np.append(cells[1:], rows.rank.size)
    begin, begin_s = 0, float(rows.start[0])
    for cell, end in zip(cells.tolist(), ends.tolist(), strict=True):
        new_step = cell > begin and rows.step[cell] != rows.step[cell - 1]
        full = end - begin > MOST_ROWS or (new_step and float(rows.start[cell]) - begin_s >= MOST_S)
        if full and cell > begin:
            yield begin, cell
            begin, begin_s = cell, float(rows.start[cell])
    yield begin, int(rows.rank.size)


def _event(rows: Rows, job: ImportedJob, node: str, sequence: int, *, waits: bool) -> StepTimings:
    """``rows``, which stand by step and rank, as wide rows. ``waits``: the source tells how long ranks wait."""
    there = cells(rows)
    t0_s = round(float(rows.start.min()), 3)
    seconds = np.zeros((len(OPS), there.begin.size))
    told = np.zeros(seconds.shape, dtype=bool)
    np.add.at(seconds, (rows.op, there.of), rows.duration)
    told[rows.op, there.of] = True
    seconds[~told] = np.nan
    starts = np.full(there.begin.size, np.nan)
    np.fmin.at(starts, there.of, rows.start)
    closing = rows.op == TOTAL
    starts[there.of[closing]] = rows.start[closing]
    phases = {
        OPS[op]: durations(seconds[op].tolist()) for op in np.flatnonzero(told.any(axis=1)).tolist() if op != TOTAL
    }
    if not waits:
        phases[OPS[_WAIT]] = durations(seconds[_WAIT].tolist())  # all NaN: it is not measured
    return StepTimings(
        **job.about(node, sequence),
        t0_s=t0_s,
        speakers=_placed(job, np.unique(rows.rank).tolist()),
        rank=whole(there.rank.tolist()),
        step=whole(there.step.tolist()),
        start_s=offsets((starts - t0_s).tolist()),
        step_s=durations(seconds[TOTAL].tolist()),
        phases=phases,
        microbatches=_microbatches(rows),
    )


def speakers(ranks: Iterable[int], world: int) -> Speakers:
    """``ranks`` of a world of so many, each once; no source tells of their devices."""
    members = sorted(set(ranks))
    return Speakers(ranks=whole(members), world_sizes=whole([world] * len(members)), devices=[""] * len(members))


def _placed(job: ImportedJob, ranks: list[int]) -> Speakers:
    placed = job.dp or job.tp or job.pp

    def places(known: dict[int, int]) -> Column:
        return whole([known.get(rank, -1) for rank in ranks])

    return msgspec.structs.replace(
        speakers(ranks, len(job.ranks)),
        dp=places(job.dp) if job.dp else None,
        tp=places(job.tp) if placed else None,
        pp=places(job.pp) if placed else None,
    )


def _microbatches(rows: Rows) -> Microbatches | None:
    """A row a micro-batch and pass; None where there are none."""
    mine = rows.only((rows.microbatch >= 0) & ((rows.op == _FORWARD) | (rows.op == _BACKWARD)))
    if not mine.rank.size:
        return None
    back = mine.op == _BACKWARD
    return Microbatches(
        rank=whole(mine.rank.tolist()),
        step=whole(mine.step.tolist()),
        microbatch=whole(mine.microbatch.tolist()),
        forward_s=durations(np.where(back, np.nan, mine.duration).tolist()),
        backward_s=durations(np.where(back, mine.duration, np.nan).tolist()),
    )
