"""Joules in windows: as many as were drawn, laid onto windows by time, and on the account of who used the GPU."""

import math

import msgspec
import pytest

from paceline.events import DeviceDescribed, DeviceProcess, DeviceSamples, NodeDescribed
from paceline.wire import sample_columns
from streams.windows.node_windows import DeviceWindows, HostWindows

T0_S = 1_700_000_000.0


def said(decision, events):
    return [found for event in events for found in decision.update(event)]


def of(found, device, length_s=10.0):
    return [one for one in found if (one.device, one.length_s) == (device, length_s)]


def told(windows, name="energy_j"):
    return sum(value for one in windows if (value := getattr(one, name)) is not msgspec.UNSET)


def process(device, job, used=None, pid=1):
    return DeviceProcess(device=device, pid=pid, name="python", used_bytes=used, job=job)


def node(*parts):
    """An inventory with instances under MIG: (instance, GPU)."""
    devices = [DeviceDescribed(index=at, uuid=uuid, name="G", parent=parent) for at, (uuid, parent) in enumerate(parts)]
    about = {"cpu_model": None, "cpu_count": 1, "memory_total_bytes": 1, "kernel": "", "time_s": T0_S}
    return NodeDescribed(cluster="c", producer="collector", sequence=0, node="node-0", devices=devices, **about)


def counting(events, watts=(300.0, 500.0), **changes):
    """Counters that go with ``watts``."""
    return [
        msgspec.structs.replace(event, energy_j=[1e6 + w * second for w in watts], **changes)
        for second, event in enumerate(events)
    ]


def test_a_window_has_the_joules_of_its_time(make_device_samples):
    """Samples stand a quarter of a second after the boundary: each window has its own 10 s all the same."""
    found = said(DeviceWindows(), counting(make_device_samples(62)))
    assert [one.energy_j for one in of(found, "GPU-a")[1:]] == [3000.0] * 5
    assert of(found, "GPU-a")[0].energy_j == pytest.approx(300.0 * 9.75)
    assert {one.energy_source for one in found} == {"counter"}


def test_short_and_long_windows_have_the_same_joules(make_metered_samples):
    """Six of 10 s are one of a minute, whatever the counter did."""
    found = said(DeviceWindows(), make_metered_samples(130))
    for device in ("GPU-a", "GPU-b"):
        minutes = of(found, device, 60.0)
        for minute in minutes:
            short = [one for one in of(found, device) if 0 <= one.start_s - minute.start_s < 60]
            assert told(short) == pytest.approx(minute.energy_j, abs=1.0)
        assert len(minutes) == 2


def test_the_batching_changes_nothing(make_device_samples):
    """Rows of ten seconds in one message, as rows of a second each."""
    events = counting(make_device_samples(100))
    joined = []
    for number in range(0, 100, 10):
        ten = events[number : number + 10]
        rows = {
            name: [value for one in ten for value in getattr(one, name)]
            for name in msgspec.structs.asdict(ten[0])
            if isinstance(getattr(ten[0], name), list) and name not in ("uuids", "processes") and getattr(ten[0], name)
        }
        rows["time_s"] = [one.t0_s - ten[0].t0_s + 0.25 for one in ten for _ in range(2)]
        joined.append(msgspec.structs.replace(ten[0], sequence=number // 10, **rows))
    assert [one.energy_j for one in said(DeviceWindows(), joined)] == [
        one.energy_j for one in said(DeviceWindows(), events)
    ][: len(said(DeviceWindows(), joined))]


def test_a_reset_is_called_power(make_metered_samples):
    """The window in which a driver was loaded anew has some of each; its sum is right."""
    found = of(said(DeviceWindows(), make_metered_samples(62, reset_s=31)), "GPU-a")
    assert [one.energy_source for one in found[1:]] == ["counter", "counter", "mixed", "counter", "counter"]
    assert [one.energy_j for one in found[1:]] == [3000.0] * 5


def test_power_alone_is_said(make_device_samples):
    """A card without a counter."""
    found = of(said(DeviceWindows(), make_device_samples(32, power_w=[250.0, None])), "GPU-a")
    assert [(one.energy_j, one.energy_source) for one in found[1:]] == [(2500.0, "power")] * 2


def test_neither_is_left_out(make_device_samples):
    """A card that tells neither has no joules, not 0 of them."""
    found = said(DeviceWindows(), make_device_samples(32, power_w=[250.0, None], utilization_ratio=[0.5, 0.5]))
    assert all(one.energy_j is msgspec.UNSET and one.energy_source is msgspec.UNSET for one in of(found, "GPU-b"))
    assert of(found, "GPU-b")


def test_a_gap_is_on_nobodys_account(make_device_samples):
    """The collector is away for an hour; who is there afterwards pays for what is measured of it alone."""
    events = counting(make_device_samples(3700), processes=[process(0, "late")])
    found = of(said(DeviceWindows(), [*events[:30], *events[3600:]]), "GPU-a")
    first = next(one for one in found if one.start_s >= T0_S + 3600)
    assert first.energy_gap_j == 300.0 * (3600 - 29)
    assert told(found, "energy_gap_j") == first.energy_gap_j
    assert max(one.energy_j for one in found) <= 3000.0
    assert max(sum(one.energy_by_job.values()) for one in found) <= 3000.0


def test_a_tenant_has_all_of_its_gpu(make_device_samples):
    """One job on a GPU: its energy is the job's; nobody on the other: nobody's."""
    found = said(
        DeviceWindows(), counting(make_device_samples(32), processes=[process(0, "a", 10), process(0, "a", 5)])
    )
    assert {tuple(one.energy_by_job.items()) for one in of(found, "GPU-a")[1:]} == {(("a", 3000.0),)}
    assert {one.energy_split for one in found} == {msgspec.UNSET}
    assert all(one.energy_by_job is msgspec.UNSET and one.energy_j for one in of(found, "GPU-b"))


@pytest.mark.parametrize(
    ("processes", "shares", "split"),
    [
        ([process(0, "a", 30), process(0, "b", 10)], {"a": 0.75, "b": 0.25}, "memory"),
        ([process(0, "a", None), process(0, "b", 10)], {"a": 0.5, "b": 0.5}, "even"),
        ([process(0, "a", 0), process(0, "b", 0)], {"a": 0.5, "b": 0.5}, "even"),
        ([process(0, "a", -5), process(0, "b", 10)], {"a": 0.5, "b": 0.5}, "even"),
        ([process(0, "a", 30), process(0, None, 10)], {"a": 0.75}, "memory"),
        ([process(0, "a", 1000), process(0, None, 10)], {"a": 1.0}, msgspec.UNSET),
        ([process(0, "a", 30), process(0, None, None)], {"a": 1.0}, msgspec.UNSET),
        ([process(0, None, 30)], {}, msgspec.UNSET),
        ([process(7, "a", 30)], {}, msgspec.UNSET),
    ],
)
def test_a_shared_gpu_is_split_and_it_is_said_how(make_device_samples, processes, shares, split):
    """By memory where all tell theirs, else evenly; processes of no job are nobody's, unless they hold next to none."""
    found = of(said(DeviceWindows(), counting(make_device_samples(32), processes=processes)), "GPU-a")
    by_job = {} if found[1].energy_by_job is msgspec.UNSET else found[1].energy_by_job
    assert by_job == {job: pytest.approx(3000.0 * share) for job, share in shares.items()}
    assert found[1].energy_split == split


def on_mig(event, counted_j, processes):
    """A GPU and two instances of it, of which the GPU tells its energy and the instances their memory."""
    empty = {name: [None] * 3 for name in sample_columns(DeviceSamples)}
    own = {
        "device": [0, 1, 2],
        "time_s": [0.25] * 3,
        "fb_used_bytes": [None, 5, 6],
        "energy_j": [counted_j, None, None],
    }
    return msgspec.structs.replace(event, uuids=["GPU-a", "MIG-1", "MIG-2"], processes=processes, **(empty | own))


def test_instances_under_mig_share_their_gpus_energy(make_device_samples):
    """Power is the whole GPU's: the jobs on its instances share it, and instances have no energy of their own."""
    users = [process(1, "a", 10), process(2, "b", 30)]
    events = [on_mig(one, 1e6 + 300.0 * second, users) for second, one in enumerate(make_device_samples(32))]
    found = said(DeviceWindows(), [node(("GPU-a", None), ("MIG-1", "GPU-a"), ("MIG-2", "GPU-a")), *events])
    whole = of(found, "GPU-a")[1]
    assert (whole.energy_by_job, whole.energy_split) == ({"a": 750.0, "b": 2250.0}, "memory")
    assert {one.energy_j for one in found if one.device != "GPU-a"} == {msgspec.UNSET}
    assert of(found, "MIG-1")[1].job == "a"


def test_a_job_that_is_away_for_a_moment_keeps_its_gpu(make_device_samples):
    """Who restarts has no processes for some seconds; for a minute the GPU stays the job's, then it is nobody's."""
    events = counting(make_device_samples(200), processes=[process(0, "a", 10)])
    gone = [
        msgspec.structs.replace(event, processes=[]) if second >= 50 else event for second, event in enumerate(events)
    ]
    found = of(said(DeviceWindows(), gone), "GPU-a")
    assert sum(one.energy_by_job["a"] for one in found if one.energy_by_job is not msgspec.UNSET) == pytest.approx(
        300.0 * 110, abs=600
    )


def test_processes_that_are_not_told_leave_it_as_it_was(make_device_samples):
    """A driver that refuses for a while: the users are those of before."""
    events = counting(make_device_samples(62), processes=[process(0, "a", 10)])
    refused = {"processes": [], "not_measured": {"processes": "no right to ask"}}
    gone = [msgspec.structs.replace(one, **refused) if second >= 20 else one for second, one in enumerate(events)]
    assert all(one.energy_by_job == {"a": 3000.0} for one in of(said(DeviceWindows(), gone), "GPU-a")[1:])


@pytest.mark.long
def test_many_jobs_on_one_gpu_are_bounded(make_device_samples):
    """A sender that names a thousand jobs fills no window with them."""
    crowd = [process(0, f"job-{number}", 1, pid=number) for number in range(1000)]
    found = of(said(DeviceWindows(), counting(make_device_samples(32), processes=crowd)), "GPU-a")
    assert max(len(one.energy_by_job) for one in found) <= 64


@pytest.mark.parametrize("odd", [math.nan, -5.0, 1e29, None])
def test_odd_counters_leave_power(make_device_samples, odd):
    """What is no count of joules is none; power is there."""
    found = of(said(DeviceWindows(), make_device_samples(32, energy_j=[odd, None], power_w=[200.0, None])), "GPU-a")
    assert [(one.energy_j, one.energy_source) for one in found[1:]] == [(2000.0, "power")] * 2


def test_a_host_has_the_joules_of_its_processors_and_memory(make_host_samples):
    """A collector that restarts counts from 0: its first interval is lost, nothing is counted twice."""
    events = [
        msgspec.structs.replace(event, cpu_energy_j=[120.0 * (second % 45)], dram_energy_j=[None])
        for second, event in enumerate(make_host_samples(75, cpu_ratio=[0.5]))
    ]
    found = [one for one in said(HostWindows(), events) if one.length_s == 10.0]
    assert [one.cpu_energy_j for one in found[1:]] == [1200.0, 1200.0, 1200.0, 1080.0, 1200.0, 1200.0]
    assert {one.dram_energy_j for one in found} == {msgspec.UNSET}


def test_an_older_collector_tells_no_energy_of_its_host(make_host_samples):
    """The columns are empty then, and nothing else is missing."""
    events = make_host_samples(32, cpu_ratio=[0.5])
    older = [msgspec.structs.replace(event, cpu_energy_j=[], dram_energy_j=[]) for event in events]
    found = said(HostWindows(), older)
    assert found
    assert {one.cpu_energy_j for one in found} == {msgspec.UNSET}
