"""However many samples may be left out, the work is bounded, and the answer as good as any but for n/m."""

import random

import pytest

from paceline.balance import left_out
from paceline.balance.split import Worker, split, step_s
from paceline.balance.worker import LEAST_SAMPLE_S, MOST_S, MOST_SAMPLES, SplitError
from tests.work_done import counted


def samples_a_second(workers: list[Worker], shares: list[int]) -> float:
    return sum(shares) / step_s(workers, shares)


def made_up(chance: random.Random, total: int) -> list[Worker]:
    """Some ranks with fixed parts, caps and leasts, of speeds near each other or decades apart."""
    spread = chance.choice([0.3, 0.3, 3.0])
    workers = []
    for _ in range(chance.randint(1, 8)):
        least = chance.choice([0, 1, 1, chance.randint(0, max(total // 20, 1))])
        most = chance.choice([None, None, least + chance.randint(0, total)])
        fixed_s = chance.choice([0.0, 0.0, 10 ** chance.uniform(-2, 3)])
        workers.append(Worker(fixed_s, 10 ** chance.uniform(-spread, spread), least, most))
    return workers


def both_ways(monkeypatch, workers: list[Worker], total: int, tile: int, flex: float) -> tuple[list[int], list[int]]:
    """The shares with all numbers tried, and with only 16 of them tried."""
    slow = split(workers, total, tile=tile, flex=flex)
    with monkeypatch.context() as patched:
        patched.setattr(left_out, "MOST_TRIED", 16)
        return slow, split(workers, total, tile=tile, flex=flex)


@pytest.mark.long
def test_trying_few_is_as_good_as_trying_all_but_for_whole_tiles(monkeypatch) -> None:
    """In 400 random instances: within n/m of the best, never worse than leaving nothing out, and mostly the same."""
    chance, same, tried = random.Random(39), 0, 0
    for _ in range(400):
        tile = chance.choice([1, 1, 8])
        total, flex = tile * chance.randint(100, 1500), chance.choice([0.05, 0.2, 0.5, 0.9, 0.999])
        workers = made_up(chance, total)
        try:
            slow, fast = both_ways(monkeypatch, workers, total, tile, flex)
        except SplitError:
            continue
        tried += 1
        same += slow == fast
        assert total - int(total * flex) - tile < sum(fast) <= total
        assert all(w.least <= b <= (total if w.most is None else w.most) for w, b in zip(workers, fast, strict=True))
        best, few = samples_a_second(workers, slow), samples_a_second(workers, fast)
        assert few <= best * (1 + 1e-12)
        assert few >= best * (1 - len(workers) * tile / min(sum(slow), sum(fast))), (workers, total, tile, flex)
        if min(sum(w.most or total for w in workers), total) == total:
            assert few >= samples_a_second(workers, split(workers, total, tile=tile)) * (1 - 1e-9)
    assert tried > 200
    assert same > 0.6 * tried


def test_where_all_can_be_tried_all_are() -> None:
    """Also one more than that is no step in the answer, where nothing is gained by leaving anything out."""
    rows = [Worker(0.0, 1.0, 1), Worker(0.0, 0.5, 1)]
    for total in (left_out.MOST_TRIED, left_out.MOST_TRIED + 1, left_out.MOST_TRIED * 30):
        shares = split(rows, total * 3, flex=1 / 3)
        assert shares == [total, 2 * total]


def test_a_large_batch_shrinks_for_a_slow_rank_as_a_small_one_does() -> None:
    """A rank with a long fixed part is as full as its least; in a batch of 64, and in one of 2^36."""
    small = split([Worker(0.0, 1.0, 1, 40), Worker(0.0, 9.0, 1)], 64, flex=0.5)
    large = split([Worker(0.0, 1.0, 1, 40 * 2**30), Worker(0.0, 9.0, 1)], 2**36, flex=0.5)
    assert small == [36, 4]
    assert large[0] / large[1] == pytest.approx(9.0, rel=1e-6)


def extreme(chance: random.Random, total: int) -> list[Worker]:
    """Numbers from end to end of what a worker can be."""
    workers = []
    for _ in range(chance.choice([1, 2, 3, 8, 64])):
        least = chance.choice([0, 1, int(2 ** chance.uniform(0, 34))])
        most = chance.choice([None, least, least + int(2 ** chance.uniform(0, 40))])
        fixed_s = chance.choice([0.0, MOST_S, 10 ** chance.uniform(-12, 6)])
        sample_s = chance.choice([LEAST_SAMPLE_S, MOST_S, 10 ** chance.uniform(-9, 6)])
        workers.append(Worker(fixed_s, sample_s, least, most if most is None else min(most, total)))
    return workers


#: Steps of Python that a split takes at most: so many for the samples, and a rank; on one core of 2026 0.05 s.
MOST_STEPS, STEPS_A_RANK = 150_000, 5_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_work_is_bounded_whatever_the_numbers(seed: int) -> None:
    """Batches to 2^40, and everything that a worker can say."""
    chance, shared = random.Random(seed), 0
    for _ in range(150):
        total = chance.choice([MOST_SAMPLES, int(2 ** chance.uniform(10, 40))])
        workers = extreme(chance, total)
        flex = chance.choice([0.0, 0.5, 0.999, 1 - 1e-12])
        with counted(MOST_STEPS + STEPS_A_RANK * len(workers)):
            try:
                shares = split(workers, total, flex=flex)
            except SplitError:
                continue
        shared += 1
        assert total - int(total * flex) <= sum(shares) <= total
    assert shared > 30


@pytest.mark.parametrize("flex", [0.0, 0.5, 0.999, 1 - 1e-12])
def test_a_batch_of_2_to_the_40_takes_no_longer_than_one_of_a_million(flex: float) -> None:
    """The two ranks of a job that stopped a worker: one is 100 times slower."""
    with counted(MOST_STEPS):
        shares = split([Worker(0.0, 1.0, 1), Worker(0.0, 100.0, 1)], MOST_SAMPLES, flex=flex)
    assert sum(shares) <= MOST_SAMPLES
    assert shares[0] / shares[1] == pytest.approx(100.0, rel=0.01)


def test_ranks_that_fill_up_one_after_the_other_are_found_in_few_rounds() -> None:
    """Each secant gets past one of them: the bracket is halved then, and what is missing is less than a tile a rank."""
    workers = [Worker(0.0, 1e-9 * 1.15**rank, 1, int(2**38 * 1.1**-rank) + 1) for rank in range(200)]
    room = sum(worker.most or 0 for worker in workers)
    for part in (0.5, 0.9, 0.99, 0.9999):
        with counted(MOST_STEPS + STEPS_A_RANK * len(workers)):
            shares = split(workers, min(int(room * part), MOST_SAMPLES))
        assert sum(shares) == min(int(room * part), MOST_SAMPLES)
