"""Parts: ranks that know the same shares cut the same batches, and each sample is in one part."""

import random

import pytest

from paceline.balance.parts import part_of


def cut(shares: list[int], size: int, *, drop_last: bool) -> list[list[tuple[int, int]]]:
    """Batch by batch, each rank's samples as (first, last)."""
    found, start = [], 0
    while True:
        parts = [part_of(rank, shares, start, size, drop_last=drop_last) for rank in range(len(shares))]
        if parts[0] is None:
            assert all(part is None for part in parts)
            return found
        assert len({(part.start, part.end) for part in parts if part}) == 1
        found.append([(part.first, part.last) for part in parts if part])
        start = parts[0].end


@pytest.mark.parametrize("seed", range(20))
def test_every_sample_is_in_one_part(seed: int) -> None:
    """Also of a last batch that is short, with fewer samples than ranks."""
    chance = random.Random(seed)
    shares = [chance.randint(1, 9) for _ in range(chance.randint(1, 8))]
    size = chance.randint(sum(shares), 5 * sum(shares))
    for drop_last in (True, False):
        taken = [n for batch in cut(shares, size, drop_last=drop_last) for a, b in batch for n in range(a, b)]
        whole = size - size % sum(shares)
        assert taken == list(range(whole if drop_last else size))


def test_a_short_batch_is_shared_out_in_proportion() -> None:
    """Half of a batch is half of every share, to less than one sample."""
    parts = [part_of(rank, [40, 20, 60], 0, 60, drop_last=False) for rank in range(3)]
    assert [part.counted for part in parts if part] == [20, 10, 30]


def test_a_rank_without_a_sample_has_a_filler() -> None:
    parts = [part_of(rank, [4, 4, 4], 12, 14, drop_last=False) for rank in range(3)]
    assert sorted(part.counted for part in parts if part) == [0, 1, 1]
    assert [part.filler for part in parts if part] == [part.counted == 0 for part in parts if part]


def test_an_epoch_that_is_over_has_no_part() -> None:
    assert part_of(0, [2, 2], 8, 8, drop_last=False) is None
    assert part_of(0, [2, 2], 8, 11, drop_last=True) is None
