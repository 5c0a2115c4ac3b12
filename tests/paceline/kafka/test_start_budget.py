"""How much of what topics hold a start reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.kafka.start_budget import StartBudget, StartReading, shares

COUNTS = st.dictionaries(st.text(max_size=3), st.integers(0, 10_000_000), max_size=20)


def read_all(budget: StartBudget, sizes: list[int], each_s: float) -> list[int]:
    """What a reader reads of messages of these sizes, a hundred at a time."""
    reading, read, place = StartReading(budget), [], 0
    while True:
        left = len(sizes) - place
        place += left - reading.allows(left)
        if not (some := sizes[place : place + 100]):
            return read
        reading.read(len(some), sum(some), each_s * len(some))
        read += some
        place += len(some)


@pytest.mark.parametrize(
    ("budget", "each_s", "most"),
    [
        (StartBudget(2_000, 10**9, 1e9), 0.0, 2_000),
        (StartBudget(10**9, 200_000, 1e9), 0.0, 2_000),
        (StartBudget(10**9, 10**9, 20.0), 0.01, 2_000),
        (StartBudget(10**9, 10**9, 1e9), 0.01, 50_000),
    ],
)
def test_each_bound_holds(budget: StartBudget, each_s: float, most: int):
    """Of fifty thousand messages of a hundred bytes, whichever bound is the narrowest."""
    read = read_all(budget, [100] * 50_000, each_s)
    assert 0.9 * most <= len(read) <= most + 100


def test_what_grows_while_it_is_read_still_ends():
    """Small ones first, large ones behind: what is beyond the bound is one reading at most."""
    read = read_all(StartBudget(10**9, 1_000_000, 1e9), [10] * 5_000 + [10_000] * 5_000, 0.0)
    assert sum(read) <= 1_000_000 + 100 * 10_000
    assert sum(size == 10_000 for size in read) > 50


def test_waiting_for_slow_brokers_costs_nothing():
    """Nothing was read yet, so there is nothing to judge by."""
    reading = StartReading(StartBudget(1_000, 1_000, 1.0))
    reading.read(0, 0, 3_600.0)
    assert reading.allows(500) == 500


@pytest.mark.slow
@given(COUNTS, st.integers(0, 20_000_000))
def test_a_flood_costs_the_others_nothing(remaining: dict[str, int], most: int):
    """No partition has more than it holds, all together no more than there is, and nobody lacks where there is room."""
    shared = shares(remaining, most)
    assert shared.keys() == remaining.keys()
    assert all(0 <= shared[one] <= remaining[one] for one in remaining)
    assert sum(shared.values()) == min(most, sum(remaining.values()))
    fair = most // max(1, len(remaining))
    assert all(shared[one] >= min(remaining[one], fair) for one in remaining)
