"""All that is watched of one GPU: single rows, looks, and what happens when another job gets it."""

import pytest

from streams.nodes.detectors import Rated
from streams.nodes.gpu_diagnosis import GpuDiagnosis, filling
from streams.nodes.memory_trend import MemoryTrend
from streams.nodes.node_config import NodeConfig
from streams.nodes.node_episodes import Tenant
from streams.nodes.tally import Tally

MINE, YOURS, NOBODY = Tenant("mine", (0,), ("GPU-0",)), Tenant("yours", (3,), ("GPU-0",)), Tenant(devices=("GPU-0",))
HOT = 0x40


@pytest.fixture
def gpu():
    """One GPU with the thresholds as they are."""
    return GpuDiagnosis("GPU-0", NodeConfig())


@pytest.fixture
def look(make_row):
    """(second, kind, state) of what is told of looks of one sample each."""

    def told(gpu, seconds, tenant=MINE, **values):
        out = []
        for at_s in seconds:
            tally = Tally()
            tally.add(make_row(float(at_s), **values))
            episodes = gpu.look(float(at_s), tally, Rated(), tenant)
            out += [(at_s, episode.measured.kind, episode.state) for episode in episodes]
        return out

    return told


def states(episodes):
    return [(episode.measured.kind, episode.state, episode.measured.tenant.job) for episode in episodes]


def test_a_gpu_that_is_hot_is_suspected_and_confirmed(gpu, look):
    """After half a minute and after two."""
    told = look(gpu, range(0, 130, 5), throttle_reasons=float(HOT))
    assert told[:2] == [(30, "device_fault", "suspected"), (120, "device_fault", "confirmed")]


def test_nothing_measured_is_nothing_told(gpu, look):
    """Looks of blanks, and looks of zeros of a GPU that nobody has."""
    assert look(gpu, range(0, 1300, 5)) == []
    assert look(gpu, range(1300, 2600, 5), tenant=NOBODY, utilization_ratio=0.0) == []


def test_an_idle_gpu_is_told_where_a_job_has_it(gpu, look):
    """0.0 is a value: no work for minutes on end."""
    told = look(gpu, range(0, 700, 5), utilization_ratio=0.0)
    assert told[:2] == [(300, "idle_device", "suspected"), (600, "idle_device", "confirmed")]


def test_an_error_that_proves_a_fault_is_told_at_once_and_is_over_when_it_was_calm(gpu, make_row):
    """XID 79: the GPU has fallen off the bus. It is over when the GPU has answered long enough without another."""
    (episode,) = gpu.row(make_row(100.0, answered=False, xid=79.0), None, MINE)
    assert (episode.measured.kind, episode.state) == ("device_fault", "confirmed")
    calm_s = gpu.config.fault_calm_s
    assert gpu.row(make_row(100.0 + calm_s - 1.0), None, MINE) == []
    assert gpu.row(make_row(100.0 + calm_s, answered=False), None, MINE) == []
    assert states(gpu.row(make_row(101.0 + calm_s), None, MINE)) == [("device_fault", "recovered", "mine")]


def test_a_clock_set_back_ends_no_fault(gpu, make_row):
    """No time has gone by."""
    gpu.row(make_row(10_000.0, xid=79.0), None, MINE)
    assert gpu.row(make_row(10.0), None, MINE) == []


def test_when_another_job_gets_it_a_fault_stays_and_the_rest_ends(gpu, look, make_row):
    """The new job is told of the fault as its own; what was said of the first is over, and says why."""
    look(gpu, range(0, 130, 5), throttle_reasons=float(HOT))
    gpu.row(make_row(130.0, xid=79.0), None, MINE)
    told = gpu.pass_on(131.0, MINE, YOURS)
    assert states(told) == [
        ("device_fault", "recovered", "mine"),
        ("device_fault", "recovered", "mine"),
        ("device_fault", "confirmed", "yours"),
    ]
    assert told[0].measured.ended == "mine no longer has it"


def test_when_nobody_gets_it_a_fault_stays_as_it_is(gpu, make_row):
    """It is not told twice."""
    gpu.row(make_row(130.0, xid=79.0), None, MINE)
    assert gpu.pass_on(131.0, MINE, NOBODY) == []
    assert GpuDiagnosis("GPU-1", NodeConfig()).pass_on(0.0, NOBODY, MINE) == []


def test_memory_of_another_job_is_another_trend(gpu, look):
    """Readings of before say nothing of what the new job does."""
    look(gpu, range(0, 60, 5), fb_used_bytes=95.0, fb_total_bytes=100.0)
    assert gpu.trend.points[0]
    gpu.pass_on(60.0, MINE, YOURS)
    assert gpu.trend.points == [[], []]


@pytest.mark.parametrize(("pace", "severity"), [(0.01, "warning"), (0.05, "critical")])
def test_a_memory_that_fills_is_graver_the_sooner_it_is_full(pace, severity):
    """Within five minutes, or later; the facts are the level and the seconds left."""
    trend = MemoryTrend(NodeConfig().memory_rise, 150.0)
    for second in range(200):
        trend.push(float(second), 91.0 + pace * second, 100.0)
    bad, facts = filling(trend, NodeConfig())
    assert bad
    assert [(fact.name, fact.unit) for fact in facts] == [("memory_used", "ratio"), ("full_in", "s")]
    assert facts[0].severity == severity
    assert filling(MemoryTrend(0.005, 150.0), NodeConfig()) == (False, [])


def test_restored_it_confirms_when_it_would_have(gpu, look):
    """State is data."""
    look(gpu, range(0, 60, 5), throttle_reasons=float(HOT))
    again = GpuDiagnosis("GPU-0", NodeConfig())
    again.load(gpu.state())
    assert look(again, range(60, 130, 5), throttle_reasons=float(HOT))[-1] == (120, "device_fault", "confirmed")
