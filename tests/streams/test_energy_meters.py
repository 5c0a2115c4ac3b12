"""Joules as counters: each counted once, by job and node, bounded, and gone with the node."""

import msgspec
import pytest

from paceline.events import DeviceWindow, HostWindow
from paceline.events.silence import SERIES_SILENT_S
from streams import energy_meters
from streams.energy_meters import MOST_JOBS, EnergyMeters
from streams.job_meters import JobMeters
from streams.keyed_state import Key


def device(number=0, joules=3000.0, node="n", **fields):
    told = {"energy_j": joules, "energy_source": "counter", "energy_by_job": {"a": joules}} | fields
    about = {"cluster": "c", "start_s": 10.0 * number, "length_s": 10.0, "node": node, "samples": 10}
    return DeviceWindow(**{**about, "device": "GPU-a", "mean": {}, "max": {}, **told})


def host(number=0, joules=900.0, node="n"):
    about = {"cluster": "c", "start_s": 10.0 * number, "length_s": 10.0, "node": node, "samples": 10}
    return HostWindow(**about, mean={}, max={}, cpu_energy_j=joules, dram_energy_j=100.0)


@pytest.fixture
def meters():
    return EnergyMeters()


def test_joules_count_up_by_job_and_node(meters):
    """A GPU's at once; a host's when its GPUs' next window shows that all have told whose they are."""
    for number in range(3):
        meters.hear(device(number), 0.0)
        meters.hear(device(number, node="m"), 0.0)
        meters.hear(host(number), 0.0)
    assert meters.values(0.0) == {("a", "n", "gpu"): 9000.0, ("a", "n", "host"): 2000.0, ("a", "m", "gpu"): 9000.0}


def test_what_is_nobodys_has_no_name(meters):
    """Idle GPUs, an idle host, and time without samples."""
    for number in range(3):
        meters.hear(device(number, energy_by_job=msgspec.UNSET, energy_gap_j=50.0), 0.0)
        meters.hear(host(number), 0.0)
    assert meters.values(0.0) == {("", "n", "gpu"): 9000.0, ("", "n", "host"): 2000.0, ("", "n", "unsampled"): 150.0}


def test_a_window_that_comes_again_counts_once(meters):
    """And one of another length not at all."""
    for window in (device(0), device(1), device(0), device(1), device(0, length_s=60.0)):
        meters.hear(window, 0.0)
    assert meters.values(0.0) == {("a", "n", "gpu"): 6000.0}


def test_a_silent_node_vanishes_and_takes_nobody_with_it(meters):
    """The series of other nodes stay as they are: none falls."""
    meters.hear(device(node="gone"), 0.0)
    meters.hear(device(), 200.0)
    assert len(meters.values(SERIES_SILENT_S - 1)) == 2
    assert meters.values(SERIES_SILENT_S) == {("a", "n", "gpu"): 3000.0}


def test_a_job_that_has_left_is_told_for_a_while(meters):
    """Until its last word was read; then the node's others are told without it."""
    meters.hear(device(0), 0.0)
    for number in range(1, 40):
        meters.hear(device(number, energy_by_job={"b": 3000.0}), 0.0)
        assert (("a", "n", "gpu") in meters.values(0.0)) == (10.0 * number <= 10.0 + SERIES_SILENT_S)


def test_nodes_and_jobs_are_bounded(meters, monkeypatch):
    """A node that names thousands of jobs, and thousands of nodes."""
    for number in range(3 * MOST_JOBS):
        meters.hear(device(number, energy_by_job={f"job-{number}": 1.0}), 0.0)
    assert len(meters.values(0.0)) <= MOST_JOBS + 1
    monkeypatch.setattr(energy_meters, "MOST_NODES", 10)
    for number in range(30):
        meters.hear(device(node=f"node-{number}"), 0.0)
    assert len({node for _, node, _ in meters.values(0.0)}) == 10


def test_a_worker_tells_it_beside_its_jobs():
    """What is given away is told no more."""
    jobs, key = JobMeters(), Key("node", "c", "n", -1)
    jobs.hear(key, device(), 0.0, 0.0)
    assert jobs.values(0.0, 0.0).energy_j == {("a", "n", "gpu"): 3000.0}
    jobs.clear()
    assert jobs.values(0.0, 0.0).energy_j == {}
