"""The meter: the true joules, whatever the counter does, and nothing told of what nobody saw."""

import math
import random

import pytest

from paceline.energy.meter import BACK_S, GAP_S, LAG_S, STILL_S, USUAL_MOST_W, EnergyMeter

LIMIT_W = 700.0


def told(rows, limit_w=LIMIT_W):
    """What a meter says of (time, counter, power) rows."""
    meter = EnergyMeter()
    return [drawn for row in rows if (drawn := meter.update(*row, limit_w)) is not None]


def joules(drawn, source=None):
    return sum(one.joules for one in drawn if source in (None, one.source))


def power_at(second):
    return 400.0 + 250.0 * math.sin(second / 9.0)


def truth_j(seconds):
    """The integral of ``power_at`` from 0."""
    return 400.0 * seconds + 250.0 * 9.0 * (1.0 - math.cos(seconds / 9.0))


def run(seconds=600, reset=(), every_s=1.0, counter=True, power=True):
    """Rows of a GPU whose driver is loaded anew at the seconds ``reset``."""
    rows = []
    for number in range(int(seconds / every_s) + 1):
        second = number * every_s
        since = max([0.0, *(at for at in reset if at <= second)])
        counted = truth_j(second) - truth_j(since) + (5e6 if since == 0.0 else 0.0)
        rows.append((second, counted if counter else None, power_at(second) if power else None))
    return rows


def test_the_counter_is_told_as_it_is():
    """Without anything odd the sum is the counter's difference, and it is said that it is the counter's."""
    found = told(run())
    assert joules(found) == pytest.approx(truth_j(600), rel=1e-9)
    assert {one.source for one in found} == {"counter"}


def test_intervals_follow_each_other():
    """Each begins where the one before ended, so that they can be laid onto windows."""
    found = told(run(seconds=60))
    assert [one.since_s for one in found[1:]] == [one.until_s for one in found[:-1]]


@pytest.mark.parametrize("reset", [(100.5,), (100.5, 110.5, 400.2), (3.0,)])
def test_a_driver_that_is_loaded_anew_costs_less_than_a_percent(reset):
    """The interval of a reset is power x time, and said so."""
    found = told(run(reset=reset))
    assert joules(found) == pytest.approx(truth_j(600), rel=0.01)
    assert len([one for one in found if one.source == "power"]) == len(reset)


def test_without_power_a_reset_counts_from_0():
    """Too little rather than too much: what was drawn before the reset is lost, and nothing is made up."""
    found = told(run(reset=(100.5,), power=False))
    assert joules(found) == pytest.approx(truth_j(600) - (truth_j(100.5) - truth_j(100)), rel=1e-6)


def test_power_alone_is_power_times_time():
    """It is called by its name."""
    found = told(run(counter=False))
    assert joules(found) == pytest.approx(truth_j(600), rel=0.01)
    assert {one.source for one in found} == {"power"}


def test_neither_is_nothing():
    """No counter and no power: nothing is told, not 0."""
    assert told(run(counter=False, power=False)) == []


def test_0_watts_are_measured():
    """0.0 is a value."""
    found = told([(0.0, None, 0.0), (1.0, None, 0.0)])
    assert [(one.joules, one.source) for one in found] == [(0.0, "power")]


def test_a_counter_that_is_missing_for_a_while_is_counted_once():
    """Power stands in for it, and is taken off when the counter is back."""
    rows = [(at, None if 100 < at < 140 else counted, power) for at, counted, power in run()]
    assert joules(told(rows)) == pytest.approx(truth_j(600), rel=1e-9)


def test_a_counter_that_comes_later_takes_over():
    """Power is told until it is there, and the counter from then on: nothing is taken off."""
    rows = [(at, None if at < 100 else counted, power) for at, counted, power in run(seconds=300)]
    found = told(rows)
    assert joules(found) == pytest.approx(truth_j(300), rel=1e-3)
    assert joules(found, "counter") == pytest.approx(truth_j(300) - truth_j(100), rel=1e-9)


def test_samples_that_are_missing_lose_nothing():
    """The counter tells of the time between, as long as it is no gap."""
    rows = [row for row in run() if not 100 < row[0] < 200]
    assert joules(told(rows)) == pytest.approx(truth_j(600), rel=1e-9)
    assert not any(one.gap for one in told(rows))


def test_rows_without_a_number_lose_nothing():
    """A row in which nothing was measured leaves its time to the next one."""
    rows = [(at, None, None) if 100 < at < 200 else row for row in run() for at in row[:1]]
    assert joules(told(rows)) == pytest.approx(truth_j(600), rel=1e-9)


def test_duplicates_and_disorder_count_once():
    """A row again, and rows of before, change nothing."""
    rows = run()
    again = [one for place, row in enumerate(rows) for one in (row, row, rows[max(place - 7, 0)])]
    assert told(again) == told(rows)


def test_a_gap_is_told_apart():
    """What the counter grew by while nobody looked is a word of its own, and all else is as ever."""
    rows = [row for row in run(seconds=7200) if not 100 < row[0] < 3700]
    gaps = [one for one in told(rows) if one.gap]
    assert [(one.since_s, one.until_s) for one in gaps] == [(100.0, 3700.0)]
    assert joules(gaps) == pytest.approx(truth_j(3700) - truth_j(100), rel=1e-9)
    assert joules(told(rows)) == pytest.approx(truth_j(7200), rel=1e-9)


def test_power_over_a_gap_is_not_known():
    """Power x hours would be an invention."""
    rows = [row for row in run(seconds=7200, counter=False) if not 100 < row[0] < 3700]
    assert joules(told(rows)) == pytest.approx(truth_j(7200) - truth_j(3700) + truth_j(100), rel=0.01)


def test_a_counter_renewed_every_half_minute_is_told_evenly():
    """As exporters do: power stands in between, and the sum is the counter's all the same."""
    rows = [(at, truth_j(at - at % 30), power_at(at)) for at in range(0, 601, 5)]
    found = told(rows)
    assert joules(found) == pytest.approx(truth_j(600), rel=1e-9)
    assert {one.source for one in found} == {"counter"}
    assert max(one.joules for one in found) < 5 * LIMIT_W * 1.1


def test_a_counter_that_stands_still_is_replaced_by_power():
    """A dead counter: power x time from the first second, called so once it is certain."""
    found = told([(at, min(counted, 5e6 + truth_j(100)), power) for at, counted, power in run()])
    assert joules(found) == pytest.approx(truth_j(600), rel=0.01)
    assert {one.source for one in found if one.until_s > 100 + STILL_S} == {"power"}


def test_a_dead_counter_without_power_tells_nothing():
    """A GPU always takes some: a counter that never moves is no measurement of 0."""
    found = told([(float(at), 5e6, None) for at in range(600)])
    assert joules(found) == 0.0
    assert max(one.until_s for one in found) < STILL_S


@pytest.mark.parametrize("caught_up", [True, False])
def test_a_counter_that_comes_back_to_life_counts_nothing_twice(caught_up):
    """Whether it shows the time in which it was dead, or goes on from where it stood."""
    rows = []
    for at, counted, power in run():
        lost = truth_j(300) - truth_j(100)
        dead = min(counted, 5e6 + truth_j(100))
        rows.append((at, dead if at <= 300 else counted - (0.0 if caught_up else lost), power))
    assert joules(told(rows)) == pytest.approx(truth_j(600), rel=0.01)


@pytest.mark.parametrize("wrong", [1e12, 5e6 + 1e6, 9e14])
def test_an_impossible_jump_is_not_believed(wrong):
    """One damaged reading, up and down again: both are power x time."""
    rows = [(at, wrong if at == 100 else counted, power) for at, counted, power in run(seconds=200)]
    assert joules(told(rows)) == pytest.approx(truth_j(200), rel=0.01)


@pytest.mark.parametrize("wrong", [1e12, 5e6 + 1e6])
def test_an_impossible_jump_without_power_is_left_out(wrong):
    """Nothing is told of that second, and no more than is possible of the one after."""
    rows = [(at, wrong if at == 100 else counted, None) for at, counted, _ in run(seconds=200)]
    assert joules(told(rows)) == pytest.approx(truth_j(200), abs=4 * 1.5 * LIMIT_W)


@pytest.mark.long
def test_what_one_interval_can_tell_is_bounded():
    """Whatever a sender says: no interval has more than the highest power x time, and x what a counter may be late."""
    chance = random.Random(7)
    odd = [None, -1.0, math.nan, math.inf, 0.0, 1e300, 1e14]
    meter, at_s = EnergyMeter(), 0.0
    for _ in range(20_000):
        at_s += chance.choice([0.01, 1.0, 1.0, 60.0, -5.0, 2 * GAP_S])
        counter = chance.choice([*odd, chance.uniform(0, 1e7), chance.uniform(0, 1e5)])
        drawn = meter.update(at_s, counter, chance.choice([*odd, 300.0]), chance.choice([LIMIT_W, None, -3.0, 1e30]))
        if drawn is not None:
            assert drawn.until_s > drawn.since_s
            assert 0.0 <= drawn.joules <= USUAL_MOST_W * (drawn.until_s - drawn.since_s + STILL_S + LAG_S)


def test_a_clock_set_back_is_followed():
    """After a minute of samples from before, they are the time."""
    rows = run(seconds=300)
    back = [(at - 7200.0, counted + truth_j(300), power) for at, counted, power in run(seconds=300)]
    found = told([*rows, *back])
    assert joules([one for one in found if one.since_s < 0]) == pytest.approx(truth_j(300) - truth_j(BACK_S), rel=0.02)


@pytest.mark.parametrize("back_s", [2.0, 30.0, 60.0])
def test_a_clock_set_back_by_less_costs_no_joules(back_s):
    """Samples are left out until it is where it was; then the counter has their joules, and they are the counter's."""
    found = told([(at - back_s if at > 300 else at, counted, power) for at, counted, power in run()])
    assert joules(found) == pytest.approx(truth_j(600), rel=1e-9)
    assert {one.source for one in found} == {"counter"}


def test_a_spool_that_comes_late_is_no_clock_set_back():
    """Half a minute of samples from before, between those of now, changes nothing."""
    rows = run(seconds=300)
    late = [(at - 100.0, counted - 1e5, power) for at, counted, power in rows[:30]]
    assert told([*rows[:200], *late, *rows[200:]]) == told(rows)


def test_a_small_fall_is_rounding():
    """A counter that an exporter rounds may fall a little: nothing is lost or counted twice."""
    rows = [(at, counted - (0.4 if at % 2 else 0.0), power) for at, counted, power in run(every_s=0.05, seconds=30)]
    assert joules(told(rows)) == pytest.approx(truth_j(30), rel=1e-3)
