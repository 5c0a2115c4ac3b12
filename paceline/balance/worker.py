"""What a worker costs and what it can take, and the same in tiles.

Rule of this file: pure; what is no measurement is refused here, so that the search for shares can trust its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: Seconds that a measurement can be: beyond them divisions lose the digits that decide.
LEAST_SAMPLE_S, MOST_S = 1e-9, 1e6
#: Samples of a global batch, which are exact in a float by far.
MOST_SAMPLES = 2**40


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


class Row(NamedTuple):
    """A worker in tiles: it holds ``least`` to ``most`` of them, and ``tile_s`` is what one more takes."""

    fixed_s: float
    sample_s: float
    tile_s: float
    least: int
    most: int


def in_tiles(total: int, tile: int, flex: float) -> int:
    """How many tiles there are to share out.

    Raises:
        SplitError: a number is not one, or the total is no multiple of the tile.
    """
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


def tiled(rank: int, worker: Worker, tile: int, units: int) -> Row:
    """Worker ``rank`` in tiles, of which there are ``units``.

    Raises:
        SplitError: its costs are no measurement, or what it must take is more than it can.
    """
    if not 0 <= worker.fixed_s <= MOST_S or not LEAST_SAMPLE_S <= worker.sample_s <= MOST_S:
        raise SplitError(
            f"worker {rank} takes {worker.fixed_s!r} s and {worker.sample_s!r} s a sample: fixed seconds go from 0, "
            f"those of a sample from {LEAST_SAMPLE_S}, to {MOST_S}; measure it again, or leave it out"
        )
    most = units if worker.most is None else min(worker.most // tile, units)
    least = -(-worker.least // tile)
    if worker.least < 0 or least > most:
        raise SplitError(
            f"worker {rank} must take {worker.least} and can take {worker.most} of {units * tile} samples "
            f"in tiles of {tile}: it takes a smaller least, a higher most or a smaller tile"
        )
    return Row(worker.fixed_s, worker.sample_s, worker.sample_s * tile, least, most)
