"""The split: no other shares are better, whatever the workers; what is no measurement is refused by name."""

import itertools
import math
import random

import pytest

from paceline.balance.split import SplitError, Worker, split, step_s


def best_s(workers: list[Worker], total: int, tile: int = 1) -> float | None:
    """The least step by every way to share out the total; None where there is none."""
    ranges = [
        [b for b in range(0, total + 1, tile) if w.least <= b <= (total if w.most is None else w.most)] for w in workers
    ]
    found = [step_s(workers, shares) for shares in itertools.product(*ranges) if sum(shares) == total]
    return min(found, default=None)


def made_up(chance: random.Random) -> list[Worker]:
    """A few workers, some of them limited, some costly, some alike."""
    costs = [(chance.choice([0.0, 0.1, chance.random(), 5.0]), chance.choice([0.25, 1.0, chance.uniform(0.05, 2.0)]))]
    workers = []
    for _ in range(chance.randint(1, 4)):
        fixed_s, sample_s = chance.choice([*costs, (chance.random(), chance.uniform(0.05, 2.0))])
        least = chance.choice([0, 0, 1, 2])
        workers.append(Worker(fixed_s, sample_s, least, chance.choice([None, None, least, least + 1, 5])))
    return workers


@pytest.mark.long
def test_it_is_as_good_as_the_best_of_all_ways_in_3000_random_instances() -> None:
    """With limits below and above, in tiles, or it says that there is no way."""
    chance = random.Random(16)
    refused = 0
    for _ in range(3000):
        workers, tile = made_up(chance), chance.choice([1, 1, 1, 2, 3])
        total = tile * chance.randint(1, 9 if tile == 1 else 4)
        best = best_s(workers, total, tile)
        if best is None:
            refused += 1
            with pytest.raises(SplitError):
                split(workers, total, tile=tile)
            continue
        shares = split(workers, total, tile=tile)
        assert sum(shares) == total
        assert all(share % tile == 0 for share in shares)
        assert all(w.least <= b <= (total if w.most is None else w.most) for w, b in zip(workers, shares, strict=True))
        assert step_s(workers, shares) == pytest.approx(best, rel=1e-12), (workers, total, tile)
    assert 100 < refused < 1500


def test_shares_go_by_speed() -> None:
    assert split([Worker(0.0, 1 / speed) for speed in (1, 1, 2, 4)], 256) == [32, 32, 64, 128]


def test_equal_workers_differ_by_one_at_most_and_the_first_have_more() -> None:
    assert split([Worker(0.1, 0.01, least=1)] * 5, 13) == [3, 3, 3, 2, 2]


def test_a_worker_that_only_costs_is_left_out() -> None:
    """Its fixed part alone is longer than the others take for all of it; unless it must take part."""
    workers = [Worker(0.0, 1.0), Worker(0.0, 1.0), Worker(60.0, 0.1)]
    assert split(workers, 20) == [10, 10, 0]
    assert split([*workers[:2], Worker(60.0, 0.1, least=1)], 20)[2] >= 1


def test_a_full_worker_leaves_the_rest_to_others() -> None:
    assert split([Worker(0.0, 1.0), Worker(0.0, 0.01, most=3)], 20) == [17, 3]


def test_a_cap_between_two_tiles_is_the_lower_one() -> None:
    assert split([Worker(0.0, 1.0), Worker(0.0, 0.01, most=15)], 64, tile=8) == [56, 8]


def test_what_must_be_taken_is_taken_in_whole_tiles() -> None:
    assert split([Worker(0.0, 1.0), Worker(0.0, 50.0, least=1)], 64, tile=8) == [56, 8]


def test_all_that_fits_is_shared_out() -> None:
    assert split([Worker(0.0, 1.0, most=3), Worker(9.0, 5.0, most=4), Worker(0.0, 0.1, most=1)], 8) == [3, 4, 1]


def test_a_world_of_one_takes_all() -> None:
    assert split([Worker(3.0, 2.0)], 7) == [7]


def test_a_permutation_of_the_workers_permutes_the_shares() -> None:
    chance = random.Random(2)
    workers = [Worker(chance.random(), chance.uniform(0.1, 1.0), 1, chance.choice([None, 40])) for _ in range(50)]
    order = chance.sample(range(50), 50)
    straight = split(workers, 1500)
    assert split([workers[place] for place in order], 1500) == [straight[place] for place in order]


@pytest.mark.long
def test_ten_thousand_workers_and_extreme_spreads_are_shared_out_exactly() -> None:
    """Speeds eight orders apart, fixed parts from none to hours, and caps: the sum is right, and no move is better."""
    chance = random.Random(3)
    workers = [
        Worker(
            chance.choice([0.0, 10 ** chance.uniform(-6, 4)]), 10 ** chance.uniform(-6, 2), 1, chance.choice([None, 9])
        )
        for _ in range(10_000)
    ]
    shares = split(workers, 2_000_000)
    assert sum(shares) == 2_000_000
    slowest = step_s([w for w, b in zip(workers, shares, strict=True) if b > 1], [b for b in shares if b > 1])
    spare = [
        w.fixed_s + w.sample_s * (b + 1) for w, b in zip(workers, shares, strict=True) if w.most is None or b < w.most
    ]
    assert min(spare) >= slowest


def test_the_global_batch_may_shrink_where_more_samples_a_second_are_done() -> None:
    """One rank twice slower of 16 with four micro-batches: a conserved batch waits for it, 1 % less does not."""
    workers = [Worker(0.0, 1.0, least=1)] * 15 + [Worker(0.0, 2.0, least=1)]
    conserved = split(workers, 64)
    assert (sum(conserved), step_s(workers, conserved)) == (64, 5.0)
    flexed = split(workers, 64, flex=0.04)
    assert (sum(flexed), step_s(workers, flexed)) == (62, 4.0)


def test_the_global_batch_shrinks_for_nothing_else() -> None:
    assert split([Worker(0.0, 1.0)] * 4, 64, flex=0.1) == [16] * 4


def test_the_global_batch_may_shrink_to_what_fits() -> None:
    workers = [Worker(0.0, 1.0, most=31)] * 2
    assert split(workers, 64, flex=0.05) == [31, 31]
    with pytest.raises(SplitError, match="2 workers can take at most 62 samples and the global batch is 64"):
        split(workers, 64, flex=0.01)


def test_too_many_for_the_batch_are_refused() -> None:
    with pytest.raises(
        SplitError, match="must take at least 8 samples and the global batch is 7: it takes a smaller least"
    ):
        split([Worker(0.0, 1.0, least=1)] * 8, 7)


def test_no_worker_at_all_is_refused() -> None:
    with pytest.raises(SplitError, match="0 workers can take at most 0"):
        split([], 4)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e300])
def test_what_is_no_time_is_refused(wrong: float) -> None:
    for worker in (Worker(wrong, 1.0), Worker(0.0, wrong)):
        with pytest.raises(SplitError, match=r"worker 1 takes .* measure it again, or leave it out"):
            split([Worker(0.0, 1.0), worker], 8)


def test_a_sample_in_no_time_is_refused() -> None:
    with pytest.raises(SplitError, match="worker 0 takes"):
        split([Worker(0.0, 0.0)], 8)


@pytest.mark.parametrize(("least", "most"), [(-1, None), (0, -1), (5, 4), (1, 7), (9, None)])
def test_what_cannot_be_taken_is_refused(least: int, most: int | None) -> None:
    """Also a cap below one tile, and a least above the batch."""
    with pytest.raises(SplitError, match=f"must take {least} and can take {most}"):
        split([Worker(0.0, 1.0), Worker(0.0, 1.0, least, most)], 8, tile=8)


@pytest.mark.parametrize("total", [0, -8, 2**41, True, 8.0])
def test_what_is_no_batch_is_refused(total: int) -> None:
    with pytest.raises(SplitError, match="global batch"):
        split([Worker(0.0, 1.0)], total)


@pytest.mark.parametrize("tile", [0, -1, True, 1.0])
def test_what_is_no_tile_is_refused(tile: int) -> None:
    with pytest.raises(SplitError, match="tile"):
        split([Worker(0.0, 1.0)], 8, tile=tile)


@pytest.mark.parametrize("flex", [-0.1, 1.0, math.nan])
def test_what_is_no_part_is_refused(flex: float) -> None:
    with pytest.raises(SplitError, match="flex"):
        split([Worker(0.0, 1.0)], 8, flex=flex)


def test_a_batch_that_is_no_multiple_of_the_tile_is_refused_with_both_neighbours() -> None:
    with pytest.raises(SplitError, match="250 is no multiple of the tile 8: take 248 or 256"):
        split([Worker(0.0, 1.0)], 250, tile=8)


def test_a_step_waits_for_the_slowest_that_takes_part() -> None:
    assert step_s([Worker(1.0, 0.5), Worker(7.0, 1.0)], [4, 0]) == 3.0
    assert step_s([Worker(1.0, 0.5)], [0]) == 0.0
