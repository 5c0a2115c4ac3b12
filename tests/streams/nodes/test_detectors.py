"""Throttling, links, idle GPUs: what takes a while to be sure of."""

import msgspec
import pytest

POWER_CAP, THERMAL, IDLE = 0x4, 0x40, 0x1


def test_a_gpu_slowed_by_heat_is_suspected_then_confirmed(make_node, make_description, judge):
    """The cause is throttling; the clock stands beside the card's own and the temperature beside its reading."""
    events = make_node(
        150, throttle_reasons=lambda s, g: THERMAL if g else 0, sm_clock_mhz=1200.0, temperature_celsius=96.0
    )
    found = judge([make_description(sm_clock_max_mhz=1980), *events])

    assert [(one.kind, one.state, one.cause) for one in found] == [
        ("device_fault", "suspected", "throttling"),
        ("device_fault", "confirmed", "throttling"),
    ]
    clock = next(item for item in found[-1].evidence if item.name == "sm_clock")
    assert (clock.value, clock.peers, found[-1].devices) == (1200.0, 1980.0, ["GPU-1"])


def test_throttling_that_ends_recovers_once(make_node, judge):
    """A minute of calm ends the episode, and it does not flap."""
    found = judge(make_node(400, throttle_reasons=lambda s, g: THERMAL if s < 150 and g == 0 else 0))

    assert [one.state for one in found] == ["suspected", "confirmed", "recovered"]
    assert len({one.id for one in found}) == 1


@pytest.mark.long
@pytest.mark.parametrize("mask", [0, IDLE, POWER_CAP, 0x2, 0x10, 0x100, None])
def test_what_is_usual_is_no_throttling(make_node, judge, mask):
    """The power cap under full load, idle clocks, application settings and what is not measured accuse nobody."""
    assert judge(make_node(300, throttle_reasons=mask)) == []


@pytest.mark.parametrize(
    ("mask", "word"),
    [
        (0x40 | 0x80 | 0x8, "hardware thermal slowdown"),
        (0x80 | 0x8, "external power brake"),
        (0x8 | 0x20, "hardware slowdown"),
        (0x20 | POWER_CAP, "software thermal slowdown"),
    ],
)
def test_of_reasons_that_come_together_the_gravest_is_told(make_node, judge, mask, word):
    """As in the verdict on a rank: one table gives word and order."""
    finding = judge(make_node(60, throttle_reasons=mask, gpus=1))[0]

    assert f": {word} in 100% of the samples" in finding.summary


def test_throttling_of_seconds_is_no_fault(make_node, judge):
    """Slowdowns in a fifth of the time are noise."""
    assert judge(make_node(300, throttle_reasons=lambda s, g: THERMAL if s % 10 < 2 else 0)) == []


def test_a_narrow_link_under_load_is_a_fault(make_node, make_description, judge):
    """Eight lanes of sixteen while the GPU works."""
    events = make_node(150, utilization_ratio=0.9, pcie_width=lambda s, g: 8 if g else 16, pcie_generation=5)
    found = judge([make_description(pcie_width_max=16, pcie_generation_max=5), *events])

    assert [(one.state, one.devices) for one in found] == [("suspected", ["GPU-1"]), ("confirmed", ["GPU-1"])]
    assert (found[0].evidence[0].name, found[0].evidence[0].peers) == ("pcie_width", 16.0)


def test_an_idle_link_that_trains_down_is_normal(make_node, make_description, judge):
    """Idle GPUs lower generation and width; working ones that rise to their own are no fault."""
    events = make_node(
        300,
        job=None,
        utilization_ratio=lambda s, g: 0.9 if s % 20 < 10 else 0.0,
        pcie_generation=lambda s, g: 5 if s % 20 < 10 else 1,
        pcie_width=16,
    )

    assert judge([make_description(pcie_width_max=16, pcie_generation_max=5), *events]) == []


def test_without_an_inventory_a_link_is_not_judged(make_node, judge):
    """What the card can do is not guessed."""
    assert judge(make_node(300, utilization_ratio=0.9, pcie_width=8, pcie_generation=3)) == []


def test_replays_that_go_on_are_a_fault(make_node, judge):
    """More than eight a minute, by DCGM's own limit; a few are normal."""
    found = judge(make_node(300, pcie_replays=lambda s, g: s if g else s // 30))

    assert [(one.state, one.devices) for one in found] == [("suspected", ["GPU-1"]), ("confirmed", ["GPU-1"])]


@pytest.mark.long
def test_a_gpu_held_and_idle_for_minutes_is_told_with_its_cost(make_node, judge):
    """Suspected after five minutes, confirmed after ten; the cost is the time it was held."""
    found = [
        one
        for one in judge(make_node(700, gpus=1, utilization_ratio=0.0, fb_used_bytes=2**33, fb_total_bytes=2**36))
        if one.kind == "idle_device"
    ]

    assert [one.state for one in found] == ["suspected", "confirmed"]
    assert found[-1].cost.gpu_hours == pytest.approx(600 / 3600, rel=0.02)
    assert (found[-1].cost.lost_s, found[-1].ranks) == (0.0, [0])


def test_an_idle_gpu_that_goes_to_work_recovers(make_node, judge):
    """Ten seconds of work end the episode."""
    found = judge(make_node(420, gpus=1, utilization_ratio=lambda s, g: 0.0 if s < 360 else 0.9))

    assert [one.state for one in found] == ["suspected", "recovered"]


@pytest.mark.long
def test_a_gpu_that_nobody_holds_may_be_idle(make_node, judge):
    """Idle and free is no waste of anybody's."""
    assert judge(make_node(900, job=None, utilization_ratio=0.0)) == []


@pytest.mark.long
def test_a_pause_of_minutes_is_no_idleness(make_node, judge):
    """A checkpoint or an evaluation on the CPU of four minutes now and then is not told."""
    assert judge(make_node(1500, gpus=1, utilization_ratio=lambda s, g: 0.0 if s % 300 < 240 else 0.9)) == []


@pytest.mark.long
def test_what_is_not_measured_is_not_idle(make_node, judge):
    """Under MIG there is no utilisation: nothing is said."""
    assert judge(make_node(900, utilization_ratio=None)) == []


def test_a_job_that_leaves_ends_its_episode(make_node, judge):
    """Once nobody has been on the GPU for a minute, the job's idle GPU is no longer its."""
    found = judge(make_node(500, gpus=1, job=lambda s: "job" if s < 400 else None, utilization_ratio=0.0))

    assert [(one.state, one.job) for one in found] == [("suspected", "job"), ("recovered", "job")]
    assert "no longer has it" in found[-1].summary


def test_a_restart_of_the_job_is_no_leaving(make_node, judge):
    """Processes that are away for half a minute change nothing."""
    found = judge(make_node(500, gpus=1, job=lambda s: None if 350 < s < 380 else "job", utilization_ratio=0.0))

    assert [one.state for one in found] == ["suspected"]


def test_samples_once_a_minute_are_judged_too(make_node, judge):
    """A slow collector gives the same verdict, later."""
    found = judge(make_node(20, every_s=60.0, throttle_reasons=THERMAL, gpus=1))

    assert [one.state for one in found] == ["suspected", "confirmed", "confirmed", "confirmed"][: len(found)]
    assert found


def test_a_gap_in_the_samples_is_no_evidence(make_node, judge):
    """Two looks an hour apart do not make an hour."""
    import msgspec

    events = [
        msgspec.structs.replace(event, t0_s=event.t0_s + (3600 if event.sequence >= 20 else 0))
        for event in make_node(40, throttle_reasons=THERMAL)
    ]

    assert judge(events) == []


def test_links_that_damage_much_are_a_fault(make_node, judge):
    """A hundred a second is too many by DCGM's health check; half of that, which it repairs as well, is not."""
    found = judge(make_node(300, nvlink_crc_errors=lambda s, g: s * (100 if g else 50)))

    assert [(one.kind, one.state, one.devices) for one in found] == [
        ("device_fault", "suspected", ["GPU-1"]),
        ("device_fault", "confirmed", ["GPU-1"]),
    ]
    damaged = next(item for item in found[-1].evidence if item.name == "nvlink_crc_errors")
    assert (damaged.value, damaged.peers, damaged.unit) == (100.0, 100.0, "a second")


def test_an_older_producer_tells_nothing_of_links(make_node, judge):
    """It leaves the columns out: nothing follows, and the others are judged as before."""
    events = [
        msgspec.structs.replace(event, nvlink_crc_errors=[], nvlink_errors=[], nvlink_rated_bytes_per_s=[])
        for event in make_node(150, throttle_reasons=THERMAL, gpus=1)
    ]

    assert {one.cause for one in judge(events)} == {"throttling"}
