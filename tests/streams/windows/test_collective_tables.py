"""What collectives come to by operation and size: each once, however many nodes tell of it."""

import msgspec
import pytest

from paceline.events import CollectiveLine
from streams.ingest.collective_batch import collective_batch
from streams.ingest.coverage import CoverageTracker
from streams.windows import collective_tables
from streams.windows.collective_tables import CollectiveTables, merged, told

MIB = 1 << 20


@pytest.fixture
def tables():
    """Nothing told yet."""
    return CollectiveTables()


@pytest.fixture
def sums(make_summed):
    """A node's message."""
    return make_summed


def tell(tables, *messages):
    tables.update(collective_batch(messages, CoverageTracker()))
    return tables


def test_what_two_nodes_tell_of_one_collective_counts_once(tables, sums):
    """With the shortest wait and time of any member."""
    tell(tables, sums((3, 0, 0, 2, 4 * MIB, 0.5, 0.75)), sums((3, 0, 0, 2, 4 * MIB, 0.25, 0.875)))
    assert told(tables.take(3)) == [
        CollectiveLine(
            operation="all_reduce", least_bytes=2 * MIB, calls=2, bytes=4 * MIB, wait_s=0.25, duration_s=0.75
        )
    ]


def test_groups_and_steps_add_up_and_sizes_stand_apart(tables, sums):
    """A line an operation and size, the most bytes first; no bytes are a size of their own."""
    rows = [(3, 0, 0, 1, MIB, 0.5, 0.5), (3, 1, 0, 1, MIB, 0.5, 0.5), (4, 0, 0, 1, MIB, 0.5, 0.5)]
    tell(tables, sums(*rows, (4, 0, 0, 1, 8 * MIB, 1.0, 1.0), (4, 0, 1, 3, 0, 0.0, 0.0), groups=("dp", "tp")))
    lines = told(tables.take(4))
    assert [(line.operation, line.least_bytes, line.calls, line.wait_s) for line in lines] == [
        ("all_reduce", 8 * MIB, 1, 1.0),
        ("all_reduce", MIB, 3, 1.5),
        ("barrier", 0, 3, 0.0),
    ]


def test_a_step_is_told_once_and_not_before_its_time(tables, sums):
    """What comes after its window is left out, as rows of phases are."""
    tell(tables, sums((3, 0, 0, 1, MIB, 0.5, 0.5), (4, 0, 0, 1, MIB, 0.5, 0.5)))
    assert [line.calls for line in told(tables.take(3))] == [1]
    tell(tables, sums((2, 0, 0, 1, MIB, 0.5, 0.5), (3, 0, 0, 1, MIB, 0.5, 0.5)))
    assert [line.calls for line in told(tables.take(4))] == [1]
    assert told(tables.take(9)) == []


def test_lines_of_windows_that_become_one_add_up():
    """A minute is its seconds."""
    left, right = [("all_reduce", 20, 2, 2 * MIB, 0.5, 0.75)], [("all_reduce", 20, 1, MIB, 0.25, 0.25)]
    assert merged(left, right) == [("all_reduce", 20, 3, 3 * MIB, 0.75, 1.0)]
    assert merged(left, []) == merged([], left) == left


@pytest.mark.parametrize(
    "row",
    [
        (3, 9, 0, 1, MIB, 0.5, 0.5),
        (3, 0, 9, 1, MIB, 0.5, 0.5),
        (3, 0, 0, 0, MIB, 0.5, 0.5),
        (3, 0, 0, 1, MIB, -0.5, 0.5),
        (3, 0, 0, 1, MIB, float("nan"), 0.5),
        (3, 0, 0, 1, MIB, 0.5, 1e9),
        (-1, 0, 0, 1, MIB, 0.5, 0.5),
    ],
)
def test_what_cannot_be_is_left_out(tables, row, sums):
    """A number of no group, no calls, no time."""
    tell(tables, sums(row, (3, 0, 0, 1, MIB, 0.5, 0.5)))
    assert [line.calls for line in told(tables.take(3))] == [1]


def test_lines_and_what_is_held_are_bounded(tables, monkeypatch, sums):
    """Names and steps come from outside."""
    words = [f"op-{number}" for number in range(100)]
    tell(tables, sums(*((3, 0, at, 1, MIB + at, 0.5, 0.5) for at in range(100)), operations=words))
    assert len(told(tables.take(3))) == collective_tables.MOST_LINES
    monkeypatch.setattr(collective_tables, "MOST_HELD", 10)
    tell(tables, sums(*((step, 0, 0, 1, MIB, 0.5, 0.5) for step in range(4, 100))))
    assert sorted(tables.steps) == list(range(90, 100))


def test_restored_it_goes_on(tables, sums):
    """State is data."""
    again = CollectiveTables()
    tell(tables, sums((3, 0, 0, 1, MIB, 0.5, 0.5), (4, 0, 0, 1, MIB, 0.5, 0.5))).take(3)
    again.load(msgspec.msgpack.decode(msgspec.msgpack.encode(tables.state())))
    assert told(again.take(4)) == told(tables.take(4)) != []
    assert again.held == tables.held == 0
