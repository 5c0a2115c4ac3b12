"""Whatever arrives: no crash, and nothing accused by what cannot be."""

import math
import random

import msgspec
import pytest

ODD = [None, 0, -1, 1, 2**31, 2**53, 2**63, 1e300, -1e300, math.nan, math.inf, 0.5, 100.0]
COLUMNS = (
    *("utilization_ratio", "fb_used_bytes", "fb_total_bytes", "throttle_reasons", "pcie_generation", "pcie_width"),
    *(
        "pcie_replays",
        "nvlink_crc_errors",
        "nvlink_errors",
        "ecc_corrected",
        "ecc_uncorrected",
        "retired_pages",
        "remapped_rows",
        "xid",
        "sm_clock_mhz",
    ),
    *("temperature_celsius", "sm_active_ratio"),
)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_random_values_do_no_harm(make_node, make_description, judge, seed):
    """Every column filled with anything: findings may come, errors may not, and each can be restored and told."""
    from paceline import topics, wire
    from streams.nodes.node_diagnosis import NodeDiagnosis

    dice = random.Random(seed)
    columns = {name: lambda second, gpu: dice.choice(ODD) for name in COLUMNS}
    machine = NodeDiagnosis()
    found = judge([make_description(pcie_width_max=16), *make_node(200, **columns)], machine)

    assert all(wire.encode(one) for one in found)
    assert all(wire.decode(topics.FINDING, wire.encode(one)) == one for one in found)
    assert NodeDiagnosis.restore(machine.snapshot()).snapshot() == machine.snapshot()


@pytest.mark.parametrize("odd", [math.nan, math.inf, -1e9, 1e300])
def test_impossible_times_are_dropped(make_node, judge, odd):
    """A row at no possible time judges nothing and disturbs no other."""
    events = make_node(150, throttle_reasons=0x40)
    odd_ones = [msgspec.structs.replace(event, producer="odd", t0_s=odd) for event in events[:5]]

    assert judge([*events[:50], *odd_ones, *events[50:]]) == judge(events)


def test_a_clock_set_back_does_not_confirm(make_node, judge):
    """Twenty seconds of heat, told ten times over with clocks set back, are twenty seconds."""
    short = make_node(20, throttle_reasons=0x40)
    events = [
        msgspec.structs.replace(event, sequence=turn * 20 + event.sequence) for turn in range(10) for event in short
    ]

    assert judge(events) == []


def test_an_unnamed_device_is_passed_over(make_node, judge):
    """An index outside of the names."""
    events = [msgspec.structs.replace(event, device=[7, 9]) for event in make_node(50, xid=79)]

    assert judge(events) == []


@pytest.mark.long
def test_thousands_of_gpus_are_not_believed(make_node, judge):
    """A node's GPUs are bounded; the rest is noted, not kept."""
    from streams.nodes.node_config import MOST_DEVICES
    from streams.nodes.node_diagnosis import NodeDiagnosis

    machine = NodeDiagnosis()
    judge(make_node(2, gpus=1000, job=None, utilization_ratio=0.5), machine)

    assert len(machine.gpus) == MOST_DEVICES


def test_a_gpu_shared_by_jobs_belongs_to_the_one_with_more_memory(make_node, judge):
    """Under time-slicing the finding names one job and its ranks alone."""
    from paceline.events import DeviceProcess

    shared = [
        DeviceProcess(device=0, pid=1, name="a", used_bytes=10, job="small", rank=5),
        DeviceProcess(device=0, pid=2, name="b", used_bytes=99, job="large", rank=3),
    ]
    events = [msgspec.structs.replace(event, processes=shared) for event in make_node(5, gpus=1, xid=79)]

    assert [(one.job, one.ranks) for one in judge(events)] == [("large", [3])]
