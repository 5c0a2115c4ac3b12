"""How many samples each worker takes, so that the slowest of them is done as early as can be.

Rule of this file: pure, and without logarithms or exponentials: the last bit of those differs between machines, and
every rank must come to the same answer. A worker with a share of zero is left out and costs nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from .left_out import tried
from .worker import Row, SplitError, Worker, in_tiles, tiled

__all__ = ["SplitError", "Worker", "split", "step_s"]

#: Rounds in which the time is looked for. Five do for measured workers; for hostile ones secants could need one for
#: each corner of the sum, so that from ``_SECANTS`` on the bracket is halved, until floats have none between its ends.
_ROUNDS, _SECANTS = 200, 24
#: A tile that is done at just that time is handed out last, whichever way a division rounds.
_SHORT = 1 - 1e-12


def step_s(workers: Sequence[Worker], shares: Sequence[int]) -> float:
    """Seconds until the slowest of those that take part is done.

    >>> step_s([Worker(0.5, 0.25), Worker(9.0, 1.0)], [4, 0])
    1.5
    """
    return max((w.fixed_s + w.sample_s * b for w, b in zip(workers, shares) if b), default=0.0)


def split(workers: Sequence[Worker], total: int, *, tile: int = 1, flex: float = 0.0) -> list[int]:
    """The shares of ``total`` samples with which the slowest worker is done first; no other shares are better.

    A time is looked for at which all together hold just less than the total, and what is missing goes one by one to
    whoever would finish it first: the greedy rule, optimal because a worker's time never falls with its share
    (Federgruen & Groenevelt 1986). O(n log n), however many samples there are. What to leave out is as good as the
    best up to ``left_out.MOST_TRIED`` tiles; of more, see there.

    Args:
        workers: n of them.
        total: samples of the global batch.
        tile: shares are multiples of this, and so must the total be.
        flex: the part of the total, 0 to below 1, that may be left out where more samples a second are done without.

    Returns:
        shape (n,), samples; the sum is the total, or up to ``flex`` less.

    Raises:
        SplitError: a number is not one, or the total does not fit into what the workers can take.

    >>> split([Worker(0.0, 1.0), Worker(0.0, 1.0), Worker(0.0, 0.5), Worker(0.0, 0.25)], 256)
    [32, 32, 64, 128]
    >>> split([Worker(0.0, 1.0), Worker(50.0, 1.0)], 20)
    [20, 0]
    """
    units = in_tiles(total, tile, flex)
    fewest = units - int(units * flex)
    rows = [tiled(rank, worker, tile, units) for rank, worker in enumerate(workers)]
    least, most = sum(row.least for row in rows), sum(row.most for row in rows)
    if not least <= units or not fewest <= most:
        bound = f"must take at least {least * tile}" if units < least else f"can take at most {most * tile}"
        mend = "a smaller least or a larger" if units < least else "more memory a rank (a higher most) or a smaller"
        raise SplitError(f"{len(rows)} workers {bound} samples and the global batch is {total}: it takes {mend} one")
    fewest, units = max(fewest, least), min(units, most)
    first, last = tried(rows, fewest, units)
    shares = _between(rows, first, last, tile)
    if last < units:  # Nothing is left out for less than it brings.
        whole = _between(rows, units, units, tile)
        shares = whole if _tile_s(rows, whole) <= _tile_s(rows, shares) else shares
    return [count * tile for count in shares]


def _between(rows: Sequence[Row], fewest: int, units: int, tile: int) -> list[int]:
    return _handed_out(rows, _held_below(rows, fewest), fewest, units, tile)


def _tile_s(rows: Sequence[Row], shares: Sequence[int]) -> float:
    """Seconds a tile."""
    return max(row.fixed_s + row.tile_s * b for row, b in zip(rows, shares) if b) / sum(shares)


def _held_below(rows: Sequence[Row], units: int) -> list[int]:
    """Tiles that each can finish by a time at which all hold at most ``units``, and less than one each is missing.

    The time is looked for by secants, which are exact between two corners of the sum, inside a bracket that shrinks.
    """
    early, late = 0.0, max(row.fixed_s + row.tile_s * row.most for row in rows)
    time = (units + math.fsum(row.fixed_s / row.tile_s for row in rows)) / math.fsum(1 / row.tile_s for row in rows)
    best = [row.least for row in rows]
    for turn in range(_ROUNDS):
        time = time if early < time < late and turn < _SECANTS else (early + late) / 2
        held = [_finished(row, time) for row in rows]
        missing = units - sum(held)
        if missing >= 0:
            best, early = held, time
            if missing <= len(rows):
                break
        else:
            late = time
        slopes = [1 / row.tile_s for row, count in zip(rows, held) if row.least < count < row.most]
        time += (missing - len(slopes) / 2) / math.fsum(slopes) if slopes else math.inf
    return best


def _finished(row: Row, time: float) -> int:
    """Tiles that ``row`` has done before ``time``, of those it can take."""
    count = int((time - row.fixed_s) / row.tile_s * _SHORT)
    if count > row.most:
        return row.most
    return max(count, row.least)


def _handed_out(rows: Sequence[Row], held: list[int], fewest: int, units: int, tile: int) -> list[int]:
    """``held``, and what is missing: one tile after another to whoever finishes it first, of equals the lower rank.

    From ``fewest`` tiles on, the number with the most tiles a second is kept, and of equals the larger.
    """

    def finish_s(rank: int) -> float:
        return rows[rank].fixed_s + rows[rank].sample_s * (tile * (held[rank] + 1))

    waiting = [(finish_s(rank), rank) for rank, row in enumerate(rows) if held[rank] < row.most]
    heapq.heapify(waiting)
    slowest = max((row.fixed_s + row.sample_s * (tile * b) for row, b in zip(rows, held) if b), default=0.0)
    best, extra = slowest / fewest if sum(held) >= fewest else math.inf, []
    for count in range(sum(held) + 1, units + 1):
        slowest, rank = max(waiting[0][0], slowest), waiting[0][1]
        held[rank] += 1
        extra.append(rank)
        if held[rank] < rows[rank].most:
            heapq.heapreplace(waiting, (finish_s(rank), rank))
        else:
            heapq.heappop(waiting)
        if count >= fewest and slowest / count <= best:
            best, extra = slowest / count, []
    for rank in extra:
        held[rank] -= 1
    return held
