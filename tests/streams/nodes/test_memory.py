"""Memory that fills up, of GPUs and of the host."""

import random

GIB = 2**30


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


def test_a_leak_of_hours_is_found(make_node, judge):
    """Rising by half a percent in ten minutes is below the noise of two minutes and shows over half an hour."""
    found = run(make_node, judge, lambda s, g: int((73 + s * 0.001) * GIB), 1500)

    assert found
    assert found[0].state == "suspected"


def test_full_and_steady_is_no_risk(make_node, judge):
    """Frameworks keep what they once had: 97 % for hours is how it is meant."""
    dice = random.Random(1)
    noisy = [int((77.6 + 0.05 * dice.random()) * GIB) for _ in range(1500)]

    assert run(make_node, judge, lambda s, g: noisy[s], 1500) == []


def test_the_start_of_a_training_is_no_risk(make_node, judge):
    """Memory that rises to 95 % in the first minute and stays there."""
    assert run(make_node, judge, lambda s, g: int(min(s * 2.0, 76.0) * GIB), 600) == []


def test_one_large_allocation_is_no_trend(make_node, judge):
    """A step from 91 to 95 % is a step."""
    assert run(make_node, judge, lambda s, g: int((73 if s < 200 else 76) * GIB), 600) == []


def test_up_and_down_is_no_trend(make_node, judge):
    """A sawtooth above 90 % is an allocator at work."""
    assert run(make_node, judge, lambda s, g: int((73 + (s % 30) / 10) * GIB), 900) == []


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
