"""Memory that fills up: the trend by itself, and as it is told of GPUs and of the host."""

import math
import random

import pytest

from streams.nodes.memory_trend import MemoryTrend

GIB = 2**30


def trend_of(used, seconds=200, every_s=1.0, total=100.0, trend=None, start_s=0.0):
    """The trend of readings ``used(second)`` of a memory of 100."""
    trend = trend or MemoryTrend(rise=0.005, gap_s=150.0)
    for number in range(int(seconds / every_s)):
        trend.push(start_s + number * every_s, used(number * every_s), total)
    return trend


def test_a_line_is_a_risk_with_its_pace_and_the_seconds_left():
    """From 90 by 0.02 a second: after 200 s it is at 93.98, full in five minutes."""
    risk = trend_of(lambda second: 90 + 0.02 * second).risk(0.9)
    assert risk.ratio == pytest.approx(0.9398)
    assert risk.bytes_per_s == pytest.approx(0.02)
    assert risk.full_in_s == pytest.approx(301)
    assert risk.over_s == 120.0


@pytest.mark.parametrize(("seconds", "there"), [(90, False), (91, True)])
def test_it_takes_a_minute_and_a_half(seconds, there):
    """The first reading at which there is a risk."""
    assert (trend_of(lambda second: 91 + 0.02 * second, seconds).risk(0.9) is not None) is there


def test_how_often_it_is_read_changes_no_pace():
    """Once a second or every ten."""
    risks = [trend_of(lambda second: 91 + 0.02 * second, every_s=every_s).risk(0.9) for every_s in (1.0, 10.0)]
    assert risks[0].bytes_per_s == pytest.approx(risks[1].bytes_per_s)


def test_below_the_level_no_pace_is_a_risk():
    """Half full and rising."""
    assert trend_of(lambda second: 40 + 0.1 * second).risk(0.9) is None


def test_full_is_full_now():
    """0.0 seconds left is a value."""
    assert trend_of(lambda second: 91 + 0.05 * second, 181).risk(0.9).full_in_s == 0.0


def test_nothing_read_and_a_memory_of_nothing_are_no_risk():
    """Also where a reading is no number."""
    assert MemoryTrend(0.005, 150.0).risk(0.0) is None
    assert trend_of(lambda second: second, total=0.0).risk(0.9) is None
    assert trend_of(lambda second: math.nan).risk(0.9) is None


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_begins_a_new_trend(jump_s):
    """Set back or far ahead: what was before says nothing of what is now."""
    trend = trend_of(lambda second: 91 + 0.02 * second)
    trend.push(200.0 + jump_s, 95.0, 100.0)
    assert [len(points) for points in trend.points] == [1, 1]
    assert trend.risk(0.9) is None


def test_the_same_reading_again_is_no_rise():
    """A time that comes twice moves nothing."""
    risk = trend_of(lambda second: 91 + 0.02 * second).risk(0.9)
    trend = trend_of(lambda second: 91 + 0.02 * second)
    trend.push(199.0, 91 + 0.02 * 199, 100.0)
    assert trend.risk(0.9).full_in_s == pytest.approx(risk.full_in_s)


def test_another_size_is_another_memory():
    """A card that was swapped, or a unit that was mistaken."""
    trend = trend_of(lambda second: 91 + 0.02 * second)
    trend.push(200.0, 95.0, 101.0)
    assert len(trend.points[0]) == 1


def test_points_are_bounded_and_come_back():
    """Two spans of readings, of any age; restored, it goes on."""
    trend, again = trend_of(lambda second: 50 + 0.02 * second, 2221), MemoryTrend(0.005, 150.0)
    assert [len(points) for points in trend.points] == [121, 31]
    again.load(trend.state())
    assert trend.risk(0.9) is not None
    assert again.risk(0.9) == trend.risk(0.9)


def run(make_node, judge, used, seconds=400, **more):
    events = make_node(seconds, gpus=1, fb_used_bytes=used, fb_total_bytes=80 * GIB, **more)
    return [one for one in judge(events) if one.kind == "out_of_memory_risk"]


def test_a_gpu_that_fills_up_is_told_with_the_time_left(make_node, judge):
    """Above 90 % and rising: suspected, confirmed, with the seconds until it is full."""
    found = run(make_node, judge, lambda s, g: int((70 + s * 0.02) * GIB), 300)

    assert [one.state for one in found][:2] == ["suspected", "confirmed"]
    assert found[0].cause == "memory_pressure"
    left = next(item for item in found[-1].evidence if item.name == "full_in")
    assert 0 < left.value < 400


@pytest.mark.long
def test_a_leak_of_hours_is_found(make_node, judge):
    """Rising by half a percent in ten minutes is below the noise of two minutes and shows over half an hour."""
    found = run(make_node, judge, lambda s, g: int((73 + s * 0.001) * GIB), 1500)

    assert found
    assert found[0].state == "suspected"


@pytest.mark.long
def test_full_and_steady_is_no_risk(make_node, judge):
    """Frameworks keep what they once had: 97 % for hours is how it is meant."""
    dice = random.Random(1)
    noisy = [int((77.6 + 0.05 * dice.random()) * GIB) for _ in range(1500)]

    assert run(make_node, judge, lambda s, g: noisy[s], 1500) == []


@pytest.mark.long
def test_the_start_of_a_training_is_no_risk(make_node, judge):
    """Memory that rises to 95 % in the first minute and stays there."""
    assert run(make_node, judge, lambda s, g: int(min(s * 2.0, 76.0) * GIB), 600) == []


@pytest.mark.long
def test_one_large_allocation_is_no_trend(make_node, judge):
    """A step from 91 to 95 % is a step."""
    assert run(make_node, judge, lambda s, g: int((73 if s < 200 else 76) * GIB), 600) == []


@pytest.mark.long
def test_up_and_down_is_no_trend(make_node, judge):
    """A sawtooth above 90 % is an allocator at work."""
    assert run(make_node, judge, lambda s, g: int((73 + (s % 30) / 10) * GIB), 900) == []


@pytest.mark.long
def test_impossible_memory_is_not_judged(make_node, judge):
    """Used above total, a total of 0, and blanks."""
    for total in (0, 10, None, -1):
        events = make_node(300, gpus=1, fb_used_bytes=lambda s, g: s * GIB, fb_total_bytes=total)
        assert judge(events) == []


def test_a_host_that_fills_up_is_told_for_the_one_job_on_it(make_node, make_host, judge):
    """The kernel ends processes when a host is full: the job on it is warned, and no GPU is named."""
    machine_events = [*make_node(5), *make_host(300, lambda s: int((235 + s * 0.05) * GIB), swap=GIB)]
    found = judge(machine_events)

    assert [one.state for one in found][:2] == ["suspected", "confirmed"]
    assert (found[0].job, found[0].ranks, found[0].devices) == ("job", [0, 1], [])
    assert "swap_used" in {item.name for item in found[0].evidence}
