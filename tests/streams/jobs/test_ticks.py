"""Steps to ticks: their borders, and what a tick says of each rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.events import OP_INDEX
from streams.ingest.steps import Step
from streams.jobs.cohorts import Cohorts
from streams.jobs.ticks import PARTS, Ticks
from tests.streams.jobs.conftest import step


@pytest.fixture
def ticks():
    """Ticks of a quarter of a second."""
    return Ticks(0.25, Cohorts())


def even(make_step, number, ranks=3):
    return make_step(number, forward=[0.1] * ranks)


def test_a_tick_ends_with_the_step_that_makes_it_long_enough(ticks, make_step):
    """Steps of 0.1 s: three of them are a tick of at least 0.25 s, and the next begins with the fourth."""
    made = [ticks.update(even(make_step, number)) for number in range(6)]
    borders = [(tick.first_step, tick.last_step, tick.steps) for tick in made if tick]
    assert borders == [(0, 2, 3), (3, 5, 3)]
    assert made[2].span_s == pytest.approx(0.3)


def test_a_tick_is_the_mean_of_its_steps(ticks, make_step):
    """Seconds are of a step, however many the tick has."""
    tick = [ticks.update(make_step(n, forward=[0.1, 0.1, 0.1 + 0.03 * (n == 1)])) for n in range(3)][-1]
    assert tick.own == pytest.approx([0.1, 0.1, 0.11])
    assert tick.excess == pytest.approx([-0.05, -0.05, 0.1])
    assert tick.part_ratio("forward")[2] == pytest.approx(0.1)


def test_waiting_is_no_work(make_tick):
    """The rank that works longest waits least; its peers waited for it."""
    tick = make_tick(0, forward=[0.1, 0.1, 0.2], communication=[0.1, 0.1, 0.0])
    assert tick.own == pytest.approx([0.1, 0.1, 0.2])
    assert tick.waited == pytest.approx([-0.05, -0.05, 0.1])
    assert tick.base[2] == pytest.approx(0.1)


@pytest.mark.parametrize(("transfer_s", "open_s", "wait_s"), [(0.01, 0.2, 0.21), (0.01, 0.002, 0.01), (0.0, 0.2, 0.0)])
def test_a_step_that_stands_open_beside_transfers_is_waiting(ticks, make_step, transfer_s, open_s, wait_s):
    """Where a rank has transfers, more than 2 % of its step that no row tells of; without any, nothing is known."""
    step = make_step(0, forward=[0.3, 0.3], communication=[transfer_s] * 2)
    step.seconds[-1] += [open_s, 0.0]
    tick = ticks.update(step)
    assert tick.wait == pytest.approx([wait_s, transfer_s])
    assert tick.own == pytest.approx([0.3, 0.3])


def test_only_waiting_for_a_processor_beyond_the_peers_rate_counts(make_tick):
    """Twice the work with twice the waiting is no starvation; the same work with twice the waiting is."""
    longer = make_tick(0, forward=[0.1, 0.1, 0.2], cpu_wait=[0.02, 0.02, 0.04])
    starved = make_tick(0, forward=[0.1, 0.1, 0.12], cpu_wait=[0.02, 0.02, 0.04])
    assert longer.part_ratio("cpu_wait")[2] == pytest.approx(0.0, abs=1e-9)
    assert starved.part_ratio("cpu_wait")[2] == pytest.approx(0.02 / 0.1)


def test_a_rank_heard_in_less_than_half_of_the_steps_is_not_compared(ticks, make_step):
    """Its mean would be of other steps than its peers'; in half of them it is."""
    for number in range(3):
        step = even(make_step, number)
        step.seconds[:, 2] = np.nan if number else 0.9
        tick = ticks.update(step)
    assert np.isnan(tick.own[2])
    assert tick.own[:2] == pytest.approx([0.1, 0.1])


def test_a_step_that_nobody_was_heard_in_ends_no_tick(ticks, make_step):
    """It has no length."""
    step = even(make_step, 0)
    step.seconds[:] = np.nan
    assert [ticks.update(step) for _ in range(20)] == [None] * 20


def test_a_rank_alone_is_compared_with_nobody(make_tick):
    """Its peers are NaN, so no bar is passed; 0.0 seconds are a value."""
    tick = make_tick(0, forward=[0.1], data=[0.0])
    assert np.isnan(tick.peers).all()
    assert tick.own.tolist() == [0.1]
    assert not (tick.excess > 0).any()


def test_a_rank_that_joins_in_the_middle_of_a_tick_widens_it(ticks, make_step):
    """Heard in two of three steps, it is compared by its own mean."""
    for number in range(3):
        tick = ticks.update(even(make_step, number, ranks=2 if number == 0 else 3))
    assert tick.own == pytest.approx([0.1, 0.1, 0.1])


def test_an_absurd_step_number_moves_no_border(ticks, make_step):
    """Borders are cut by seconds; the number is told as it came."""
    step = even(make_step, 0)
    made = [ticks.update(Step(number, step.seconds, step.ends_s)) for number in (0, 2**40, 1)]
    assert (made[2].first_step, made[2].last_step, made[2].steps) == (0, 1, 3)


def test_restored_in_a_tick_it_ends_where_it_would_have(ticks, make_step):
    """State is data."""
    ticks.update(even(make_step, 0))
    again = Ticks(0.25, Cohorts())
    again.load(ticks.state())
    assert [again.update(even(make_step, number)) is not None for number in (1, 2)] == [False, True]


def test_a_peer_that_never_has_a_processor_makes_no_others_waiting_negative(make_tick):
    """Its rate of waiting has no bound: no rank waits less than not at all."""
    tick = make_tick(0, forward=[0.25, 0.25, 0.1], cpu_wait=[0.25, 0.24999, 0.01])
    starved = tick.part_ratio("cpu_wait") * tick.base
    assert starved.min() >= -0.25
    assert (starved <= [0.25, 0.24999, 0.01]).all()


@pytest.mark.long
@given(
    own=st.lists(st.floats(1e-6, 10.0), min_size=2, max_size=6),
    waited=st.lists(st.floats(0.0, 1e6), min_size=6, max_size=6),
)
def test_what_lies_inside_the_work_is_never_more_than_it(own, waited):
    """Whatever a rank says that it waited for a processor, each part is in its work."""
    phases = {"forward": own, "cpu_wait": waited[: len(own)], "gc": waited[-len(own) :]}
    made = Ticks(0.0, Cohorts()).update(step(0, **phases))
    for name in ("cpu_wait", "gc"):
        inside = made.seconds[OP_INDEX[name]]
        assert ((inside >= 0) & (inside <= made.own)).all()
        excess = made.parts[PARTS.index(name)]
        assert (np.abs(excess) <= max(own) + 1e-9).all()


def test_what_is_measured_of_waiting_is_kept(make_step):
    """State is data: also whether all waiting is measured."""
    ticks, again = Ticks(0.25, Cohorts()), Ticks(0.25, Cohorts())
    ticks.waits_measured = True
    again.load(ticks.state())
    made = [again.update(even(make_step, number)) for number in range(3)]
    assert made[-1].waits_measured
