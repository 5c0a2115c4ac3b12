"""Tiles: shares in whole steps of a size, where batches of other sizes are expensive or the script cuts them so.

Rule of this file: pure. A compiled model meets few shapes when its batches are multiples of a tile. A script that
takes a batch in micro-batches of one size keeps that size, and so its memory and its kernels, when shares are multiples
of it: a plan changes how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from .replan import ControllerConfig
from .split import split
from .worker import Worker

#: Samples that a compiled model's batches are multiples of, where the global batch is.
COMPILED = 8


def fitting(tile: int, total: int, world: int) -> bool:
    """Whether ``total`` can be shared out in tiles: one for each rank at least, and equal ranks remain equal.

    What the largest of equal shares grows by, no plan can give back; so little of it that no plan is worth it may be.
    """
    if not (tile > 0 and total % tile == 0 and total // tile >= world):
        return False
    largest = -(-(total // tile) // world) * tile
    return largest <= (1 + ControllerConfig.least_gain) * -(-total // world)


def for_compiled(total: int, world: int) -> int:
    """The largest tile up to that of compiled models in which ``total`` can be shared out.

    >>> for_compiled(256, 8), for_compiled(80, 4), for_compiled(56, 4), for_compiled(36, 8)
    (8, 4, 2, 1)
    """
    halves = (COMPILED >> halved for halved in range(COMPILED.bit_length()))
    return next((tile for tile in halves if fitting(tile, total, world)), 1)


def for_micro_batches(sizes: Sequence[float], total: int) -> int:
    """The tile for micro-batches as large as each rank says, 0 where it takes a batch at once; 1 where they are unlike.

    >>> for_micro_batches([4, 4], 64), for_micro_batches([4, 8], 64), for_micro_batches([0, 0], 64)
    (4, 1, 1)
    """
    size = int(min(sizes))
    return size if size == max(sizes) and fitting(size, total, len(sizes)) else 1


def whole_tiles(shares: Sequence[int], most: Sequence[int | None], tile: int) -> list[int]:
    """``shares`` in whole tiles, as near in proportion as these allow.

    Raises:
        SplitError: they do not fit into what ranks can hold.

    >>> whole_tiles([21, 22, 21], [None, None, None], 4)
    [20, 24, 20]
    """
    rows = [Worker(0.0, 1 / share, tile, cap) for share, cap in zip(shares, most)]
    return split(rows, sum(shares), tile=tile)
