"""Messages of collectives as the one batch that the detectors see: sound rows, and numbers that mean one thing."""

import math

import msgspec
import pytest

from paceline import wire
from paceline.events import RANK_LIMIT
from streams.ingest.collective_batch import collective_batch
from streams.ingest.coverage import CoverageTracker
from tests.timings import changed, listed, speaking


@pytest.fixture
def coverage():
    """Nothing noted yet."""
    return CoverageTracker()


@pytest.fixture
def message(make_calls):
    """Two ranks, two collectives."""
    return make_calls([(0, 0, 1.0, 0.1), (1, 0, 1.05, 0.05), (0, 1, 2.0, 0.0), (1, 1, 2.0, 0.3)], members=2)


def test_rows_keep_their_order_and_become_absolute(message, coverage):
    """Starts are on the node's clock."""
    calls = collective_batch([msgspec.structs.replace(message, t0_s=100.0)], coverage).calls
    assert calls.rank.tolist() == [0, 1, 0, 1]
    assert calls.start_s.tolist() == [101.0, 101.05, 102.0, 102.0]
    assert coverage.odd == {}


def test_one_name_has_one_number_in_all_messages(message, coverage):
    """Two messages number the same groups and operations otherwise; the batch numbers them once."""
    named = {"groups": ["tp", "dp"], "group_sizes": [2, 4], "operations": ["all_reduce", "barrier"]}
    turned = {"groups": ["dp", "tp"], "group_sizes": [4, 2], "operations": ["barrier", "all_reduce"]}
    first = changed(message, **named, group=[0, 0, 1, 1], operation=[0, 0, 1, 1])
    second = changed(message, **turned, group=[1, 1, 0, 0], operation=[1, 1, 0, 0])
    batch = collective_batch([first, second], coverage)
    assert (batch.groups, batch.group_sizes, batch.operations) == (["tp", "dp"], [2, 4], ["all_reduce", "barrier"])
    assert batch.calls.group.tolist() == batch.calls.operation.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_phases_are_told_only_where_every_message_tells_them(message, coverage):
    """One node without phases is judged by lateness."""
    without = speaking(changed(message, phases=False), [2, 3], 4)
    assert not collective_batch([message, without], coverage).phases
    assert collective_batch([message, message], coverage).phases


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("rank", RANK_LIMIT),
        ("rank", -1),
        ("seq", -1),
        ("group", 1),
        ("group", -1),
        ("operation", 1),
        ("wait_s", -0.1),
        ("wait_s", math.nan),
        ("wait_s", 1e6),
        ("duration_s", -0.1),
        ("duration_s", math.inf),
        ("start_s", math.nan),
    ],
)
def test_what_cannot_be_is_noted_and_left_out(message, coverage, column, value):
    """The other rows stay."""
    values = [value, *listed(getattr(message, column))[1:]]
    batch = collective_batch([changed(message, **{column: values})], coverage)
    assert batch.calls.rank.tolist() == [1, 0, 1]
    assert coverage.odd == {"collectives with impossible numbers": 1}


def test_the_largest_rank_of_an_event_is_one(message, coverage):
    """What the wire takes is judged: here there is no other limit."""
    values = [RANK_LIMIT - 1, *listed(message.rank)[1:]]
    batch = collective_batch([changed(message, rank=values)], coverage)
    assert batch.calls.rank.tolist() == [RANK_LIMIT - 1, 1, 0, 1]
    assert coverage.odd == {}


def test_no_wait_is_a_value(message, coverage):
    """0.0 seconds of waiting are the last rank's."""
    assert collective_batch([message], coverage).calls.wait_s.tolist() == [0.1, 0.05, 0.0, 0.3]


def test_each_rank_spans_from_its_first_start_to_its_last_end(message, coverage):
    """In any order of the rows."""
    spans = collective_batch([message], coverage).spans
    assert spans.ranks.tolist() == [0, 1]
    assert spans.first_s.tolist() == [1.0, 1.05]
    assert spans.last_s == pytest.approx([2.0, 2.3])
    assert spans.waited_s == pytest.approx([0.1, 0.35])


def test_a_message_without_rows_is_an_empty_batch(make_calls, coverage):
    """Also beside one that has some."""
    empty = make_calls([], members=2)
    assert collective_batch([empty], coverage).calls.rank.size == 0
    assert collective_batch([empty, make_calls([(0, 0, 1.0, 0.1)], members=2)], coverage).calls.rank.tolist() == [0]


def test_a_message_is_not_changed(message, coverage):
    """What others read of it stays."""
    before = wire.encode(message)
    collective_batch([message, message], coverage)
    assert wire.encode(message) == before


def test_ranks_in_any_order_span_the_same(make_calls, coverage):
    """And a rank that comes twice spans both."""
    rows = [(0, 0, 1.0, 0.1), (1, 0, 1.05, 0.05), (2, 0, 1.1, 0.0)]
    spans = [collective_batch([make_calls(some, members=3)], coverage).spans for some in (rows, rows[::-1], rows * 2)]
    assert [one.ranks.tolist() for one in spans] == [[0, 1, 2]] * 3
    assert [one.waited_s.tolist() for one in spans] == [[0.1, 0.05, 0.0], [0.1, 0.05, 0.0], [0.2, 0.1, 0.0]]


def test_sums_are_the_same_beside_calls(make_calls, make_summed, coverage):
    """Their words have the numbers of the batch, and what cannot be is noted."""
    summed = make_summed((3, 0, 1, 2, 8, 0.5, 0.75), (3, 0, 0, 2, 8, -1.0, 0.75))
    alone = collective_batch([summed], coverage)
    assert coverage.odd == {"collectives with impossible numbers": 1}
    calls = make_calls([(0, 0, 1.0, 0.1)], members=2, group="dp", operation="broadcast")
    both = collective_batch([calls, summed], coverage)
    assert coverage.odd == {"collectives with impossible numbers": 2}
    for batch in (alone, both):
        (group,), (operation,) = batch.sums.group.tolist(), batch.sums.operation.tolist()
        assert (batch.groups[group], batch.group_sizes[group]) == ("world", 8)
        assert batch.operations[operation] == "barrier"
    assert alone.last_step == both.last_step == 3
