"""How many samples each worker takes, so that the slowest of them is done as early as can be.

Rule of this file: pure, and without logarithms or exponentials: the last bit of those differs between machines, and
every rank must come to the same answer. A worker with a share of zero is left out and costs nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Seconds that a measurement can be: beyond them divisions lose the digits that decide.
LEAST_SAMPLE_S, MOST_S = 1e-9, 1e6
#: Samples of a global batch, which are exact in a float by far.
MOST_SAMPLES = 2**40
#: Rounds in which the time is looked for; five do for measured workers, the rest is for hostile ones.
_ROUNDS = 200


class SplitError(ValueError):
    """The samples cannot be shared out; the message says why, and what to change."""


@dataclass(frozen=True)
class Worker:
    """What a worker costs: ``fixed_s + sample_s * share`` seconds a step, and which shares it can take.

    Args:
        fixed_s: seconds a step that do not depend on the share.
        sample_s: seconds a sample.
        least: samples it must take; 0 lets it be left out.
        most: samples that fit in its memory; None: as many as there are.
    """

    fixed_s: float
    sample_s: float
    least: int = 0
    most: int | None = None


class _Row(NamedTuple):
    """A worker in tiles: it holds ``least`` to ``most`` of them, and ``tile_s`` is what one more takes."""

    fixed_s: float
    sample_s: float
    tile_s: float
    least: int
    most: int


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
    (Federgruen & Groenevelt 1986). O(n log n).

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
    units = _units(total, tile, flex)
    fewest = units - int(units * flex)
    rows = [_row(rank, worker, tile, units) for rank, worker in enumerate(workers)]
    least, most = sum(row.least for row in rows), sum(row.most for row in rows)
    if not least <= units or not fewest <= most:
        bound = f"must take at least {least * tile}" if units < least else f"can take at most {most * tile}"
        mend = "a smaller least or a larger" if units < least else "more memory a rank (a higher most) or a smaller"
        raise SplitError(f"{len(rows)} workers {bound} samples and the global batch is {total}: it takes {mend} one")
    fewest, units = max(fewest, least), min(units, most)
    held = _held_below(rows, fewest)
    return [count * tile for count in _handed_out(rows, held, fewest, units, tile)]


def _units(total: int, tile: int, flex: float) -> int:
    """How many tiles there are to share out."""
    if isinstance(tile, bool) or not isinstance(tile, int) or not 1 <= tile <= MOST_SAMPLES:
        raise SplitError(f"tile {tile!r}: it takes a number of samples from 1 on")
    if isinstance(total, bool) or not isinstance(total, int) or not 1 <= total <= MOST_SAMPLES:
        raise SplitError(f"global batch {total!r}: it takes a number of samples from 1 to {MOST_SAMPLES}")
    if total % tile:
        lower = total - total % tile
        raise SplitError(
            f"global batch {total} is no multiple of the tile {tile}: take {lower or tile} or {lower + tile}"
        )
    if not 0 <= flex < 1:
        raise SplitError(f"flex {flex!r}: it takes a part from 0 to below 1")
    return total // tile


def _row(rank: int, worker: Worker, tile: int, units: int) -> _Row:
    if not 0 <= worker.fixed_s <= MOST_S or not LEAST_SAMPLE_S <= worker.sample_s <= MOST_S:
        raise SplitError(
            f"worker {rank} takes {worker.fixed_s!r} s and {worker.sample_s!r} s a sample: fixed seconds go from 0, "
            f"those of a sample from {LEAST_SAMPLE_S}, to {MOST_S}; measure it again, or leave it out"
        )
    most = units if worker.most is None else min(worker.most // tile, units)
    least = -(-worker.least // tile)
    if not 0 <= least <= most:
        raise SplitError(
            f"worker {rank} must take {worker.least} and can take {worker.most} of {units * tile} samples "
            f"in tiles of {tile}: it takes a smaller least, a higher most or a smaller tile"
        )
    return _Row(worker.fixed_s, worker.sample_s, worker.sample_s * tile, least, most)


def _held_below(rows: Sequence[_Row], units: int) -> list[int]:
    """Tiles that each can finish by a time at which all hold at most ``units``, and less than one each is missing.

    The time is looked for by secants, which are exact between two corners of the sum, inside a bracket that shrinks.
    """
    early, late = 0.0, max(row.fixed_s + row.tile_s * row.most for row in rows)
    time = (units + math.fsum(row.fixed_s / row.tile_s for row in rows)) / math.fsum(1 / row.tile_s for row in rows)
    best = [row.least for row in rows]
    for _ in range(_ROUNDS):
        time = time if early < time < late else (early + late) / 2
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


def _finished(row: _Row, time: float) -> int:
    count = int((time - row.fixed_s) / row.tile_s)
    if count > row.most:
        return row.most
    return max(count, row.least)


def _handed_out(rows: Sequence[_Row], held: list[int], fewest: int, units: int, tile: int) -> list[int]:
    """``held``, and what is missing: one tile after another to whoever finishes it first, of equals the lower rank.

    From ``fewest`` tiles on, the number with the most tiles a second is kept, and of equals the larger.
    """

    def finish_s(rank: int) -> float:
        return rows[rank].fixed_s + rows[rank].sample_s * (tile * (held[rank] + 1))

    waiting = [(finish_s(rank), rank) for rank, row in enumerate(rows) if held[rank] < row.most]
    heapq.heapify(waiting)
    slowest = max((row.fixed_s + row.sample_s * (tile * b) for row, b in zip(rows, held) if b), default=0.0)
    best, extra = math.inf, []
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
