"""Collectives of one group to ticks of lateness: the longest wait of the group less the own."""

import numpy as np
import pytest

from streams.ingest.coverage import CoverageTracker
from streams.jobs.arrivals import ArrivalRows, Arrivals
from streams.snapshots import pack, unpack


def made(size=3, tick_s=0.5, patience_s=10.0):
    return Arrivals(size, tick_s, patience_s, CoverageTracker())


@pytest.fixture
def arrivals():
    """A group of three, in ticks of half a second."""
    return made()


def rows(*calls, token=1):
    """Each call: (rank, number, start, wait); its step is its number."""
    rank, seq, start, wait = (np.array(column) for column in zip(*calls, strict=True))
    return ArrivalRows(rank, seq, seq, start.astype(float), wait.astype(float), np.full(rank.size, token))


def calls(numbers, ranks=3, late=2, late_s=0.04, start=lambda number: 0.1 * number):
    """A synchronous group in which ``late`` comes last; it alone does not wait."""
    return [
        (rank, number, start(number) + late_s * (rank == late), 0.0 if rank == late else late_s)
        for number in numbers
        for rank in range(ranks)
    ]


def borders(ticks):
    return [(tick.first_step, tick.last_step) for tick in ticks]


def test_the_rank_that_waits_least_is_late(arrivals):
    """By the longest wait of the group; the first tick is the warm-up."""
    tick, *_ = ticks = arrivals.update(rows(*calls(range(20))))
    assert borders(ticks) == [(5, 9), (10, 14)]
    late = {arrivals.rank_of(column): value for column, value in enumerate(tick.own.tolist())}
    assert late == pytest.approx({0: 0.0, 1: 0.0, 2: 0.04})
    assert tick.waited[2] == pytest.approx(0.04)


def test_rows_in_any_order_make_the_same_ticks(arrivals):
    """Backwards in one batch, and forwards one by one."""
    every = calls(range(30))
    singly = [tick for one in every for tick in arrivals.update(rows(one))]
    backwards = made().update(rows(*every[::-1]))
    assert borders(singly) == borders(backwards) != []
    assert [sorted(tick.own.tolist()) for tick in singly] == [sorted(tick.own.tolist()) for tick in backwards]


def test_repeated_collectives_are_noted_and_not_counted_twice(arrivals):
    """A message that comes twice makes no rank later."""
    every = calls(range(30))
    once = made().update(rows(*every))
    assert borders(arrivals.update(rows(*every, *every))) == borders(once)
    assert arrivals.update(rows(*every)) == []
    assert arrivals.coverage.odd["collectives repeated or after they were judged"] == 2 * len(every)


def test_nothing_is_judged_before_all_members_have_come(arrivals):
    """Two of three could be waiting for the third."""
    assert arrivals.update(rows(*[call for call in calls(range(30)) if call[0] != 1])) == []
    assert arrivals.update(rows(*[call for call in calls(range(30)) if call[0] == 1])) != []


def test_a_member_that_falls_silent_is_waited_for_no_longer_than_patience(arrivals):
    """Then the others are judged without it, and it is noted."""
    arrivals.update(rows(*calls(range(10))))
    alive = [call for call in calls(range(10, 200)) if call[0] != 1]
    assert arrivals.update(rows(*alive)) != []
    assert arrivals.coverage.odd["members of a group that fell silent"] >= 1


def test_a_clock_set_back_ends_no_tick_and_stops_none(arrivals):
    """Ten seconds back in the middle: times go on from where they were, and no lateness is made up."""
    ticks = arrivals.update(rows(*calls(range(300), start=lambda number: 0.1 * number - 10.0 * (number >= 50))))
    assert len(ticks) >= 20
    assert all(np.nanmax(tick.own) == pytest.approx(0.04) for tick in ticks)
    assert all(tick.span_s >= 0.0 for tick in ticks)


@pytest.mark.parametrize("back_s", [10.5, 3600.0])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_clock_set_back_far_is_followed(back_s, size):
    """All but the tick in which it was set is judged, in any batching, also where it is set twice."""
    every = calls(range(100), start=lambda number: 0.1 * number - back_s * ((number >= 33) + (number >= 71)))
    arrivals = made()
    ticks = [tick for at in range(0, len(every), size) for tick in arrivals.update(rows(*every[at : at + size]))]
    assert borders(ticks)[:5] == [(5, 9), (10, 14), (15, 19), (20, 24), (25, 29)]
    assert len(ticks) >= 15
    assert all(0.4 < tick.span_s < 0.7 for tick in ticks)
    own = [{arrivals.rank_of(column): value for column, value in enumerate(tick.own.tolist())} for tick in ticks]
    assert own == pytest.approx([{0: 0.0, 1: 0.0, 2: 0.04}] * len(ticks))


def test_clocks_of_ranks_that_differ_change_no_lateness(arrivals):
    """Durations of ranks are compared, never their times of day."""
    every = calls(range(30))
    skewed = [(rank, number, start + 3600.0 * rank, wait) for rank, number, start, wait in every]
    ticks, usual = arrivals.update(rows(*skewed)), made().update(rows(*every))
    assert [tick.own.tolist() for tick in ticks] == [tick.own.tolist() for tick in usual]


def test_a_number_far_ahead_is_noted_and_takes_no_room(arrivals):
    """One absurd number of a collective must not grow the table without end."""
    arrivals.update(rows(*calls(range(5))))
    arrivals.update(rows((0, 2**40, 0.5, 0.0)))
    assert arrivals.start.size <= 65_536
    assert arrivals.coverage.odd == {"collectives too far ahead of the group": 1}


def test_a_member_alone_is_never_late():
    """A group of one waits for nobody."""
    ticks = made(size=1).update(rows(*calls(range(30), ranks=1)))
    assert all(not (tick.own > 0).any() for tick in ticks)
    assert all(np.isnan(tick.peers).all() for tick in ticks)


def test_a_group_that_never_waits_is_never_late(arrivals):
    """0.0 seconds of waiting are a value."""
    ticks = arrivals.update(rows(*calls(range(30), late_s=0.0)))
    assert ticks
    assert all(tick.own.tolist() == [0.0, 0.0, 0.0] for tick in ticks)


def test_restored_in_a_tick_the_next_ones_are_the_same(arrivals):
    """State is data, also of collectives that wait for a member."""
    arrivals.update(rows(*calls(range(12)), (0, 12, 1.2, 0.04)))
    again = made()
    again.load(unpack(1, pack(1, arrivals.state())))
    rest = rows(*calls(range(12, 40))[1:])
    ticks, others = arrivals.update(rest), again.update(rest)
    assert [tick.own.tolist() for tick in ticks] == [tick.own.tolist() for tick in others] != []
