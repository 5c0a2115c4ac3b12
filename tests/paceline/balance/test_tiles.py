"""Tiles: as large as they can be without making equal ranks unequal."""

import pytest

from paceline.balance.split import split
from paceline.balance.tiles import COMPILED, for_compiled, for_micro_batches
from paceline.balance.worker import Worker


def largest(total: int, world: int, tile: int) -> int:
    """The largest share of equal ranks: all wait for it."""
    return max(split([Worker(0.0, 1.0, tile)] * world, total, tile=tile))


def test_equal_ranks_do_not_wait_for_a_tile() -> None:
    """Whatever the batch: 3 % of a step at most."""
    for world in range(2, 17):
        for total in range(world, 40 * world):
            tile = for_compiled(total, world)
            assert total % tile == 0
            assert largest(total, world, tile) <= 1.03 * largest(total, world, 1), (total, world)


@pytest.mark.parametrize(
    ("total", "world", "tile"),
    [(80, 4, 4), (96, 8, 4), (160, 8, 4), (48, 4, 4), (56, 4, 2), (36, 8, 1), (256, 4, 8), (4096, 3, 8)],
)
def test_a_tile_is_as_large_as_that_allows(total: int, world: int, tile: int) -> None:
    """Few shapes, so few recompilations."""
    assert COMPILED % tile == 0
    assert for_compiled(total, world) == tile


def test_micro_batches_that_make_equal_ranks_unequal_are_not_kept() -> None:
    """64 in pieces of 8 over three ranks: one of them would be done a third earlier."""
    assert for_micro_batches([8, 8, 8], 64) == 1
    assert for_micro_batches([8, 8, 8, 8], 64) == 8
