import msgspec
import numpy as np
import pytest

import ui.machines
from paceline import events, wire
from ui.machines import Machines


def devices(node="gpu-1", uuids=("GPU-a", "GPU-b"), **told):
    columns = {name: [None] * len(uuids) for name in wire.sample_columns(events.DeviceSamples)}
    columns |= {"device": list(range(len(uuids))), "time_s": [0.0] * len(uuids), **told}
    head = {"cluster": "c", "producer": node, "sequence": 0, "node": node, "t0_s": 0.0}
    return events.DeviceSamples(**head, uuids=list(uuids), **columns)


def host(node="gpu-1", **told):
    columns = {name: [None] for name in wire.sample_columns(events.HostSamples)}
    columns |= {"time_s": [0.0], "cpu_ratio_per_core": [[]], **told}
    return events.HostSamples(cluster="c", producer=node, sequence=0, node=node, t0_s=0.0, **columns)


def test_the_newest_of_every_gpu_and_host_is_shown():
    """Columns by metric, GPUs in the order of their nodes."""
    machines = Machines()
    machines.sample_devices(devices("gpu-2", ("GPU-c",), power_w=[3.0]), 5.0)
    machines.sample_devices(devices(power_w=[1.0, 2.0], fb_used_bytes=[1, None], fb_total_bytes=[4, 4]), 6.0)
    machines.sample_host(host(cpu_ratio=[0.25]), 7.0)
    view = machines.view()
    assert view.nodes == ("gpu-1", "gpu-2")
    assert view.uuids == ("GPU-a", "GPU-b", "GPU-c")
    assert view.gpu["power_w"].tolist() == [1.0, 2.0, 3.0]
    assert view.gpu["memory_ratio"][0] == 0.25
    assert np.isnan(view.gpu["memory_ratio"][1:]).all()
    assert view.node_s.tolist() == [7.0, 5.0]
    assert view.host["cpu_ratio"][0] == 0.25
    assert np.isnan(view.host["cpu_ratio"][1])


def test_of_several_rows_of_a_gpu_the_last_counts():
    """A message holds a second of samples."""
    event = devices(power_w=[1.0, 2.0])
    rows = {name: getattr(event, name) * 2 for name in wire.sample_columns(events.DeviceSamples)}
    machines = Machines()
    machines.sample_devices(msgspec.structs.replace(event, **{**rows, "power_w": [1.0, 2.0, 3.0, 4.0]}), 5.0)
    assert machines.view().gpu["power_w"].tolist() == [3.0, 4.0]


def test_a_node_whose_gpus_are_changed_starts_them_anew():
    """Another card in the slot has no history, and the node's other numbers stay."""
    machines = Machines()
    machines.sample_devices(devices(power_w=[1.0, 2.0]), 5.0)
    machines.sample_devices(devices(uuids=("GPU-z",), power_w=[9.0]), 15.0)
    view = machines.view()
    assert (view.uuids, view.gpu["power_w"].tolist()) == (("GPU-z",), [9.0])
    history = machines.gpu_history([machines.gpu_row("gpu-1", "GPU-z", "", 0)])
    assert np.isfinite(history.at_s).sum() == 1


def test_a_rank_finds_its_gpu_by_process_uuid_or_number():
    """A process of the rank goes before its device's name; what is unknown finds none."""
    process = events.DeviceProcess(device=1, pid=7, name="python", job="llm", rank=3)
    machines = Machines()
    machines.sample_devices(msgspec.structs.replace(devices(power_w=[1.0, 2.0]), processes=[process]), 5.0)
    first, second = machines.gpu_row("gpu-1", "GPU-a", "", 0), machines.gpu_row("gpu-1", "GPU-b", "", 0)
    assert machines.gpu_row("gpu-1", "cuda:0", "llm", 3) == second
    assert machines.gpu_row("gpu-1", "cuda:0", "llm", 4) == first
    unknown = [("gpu-9", "cuda:0"), ("gpu-1", "cuda:9"), ("gpu-1", "cpu"), ("gpu-1", "cuda:x"), ("gpu-1", "")]
    assert [machines.gpu_row(node, device, "", 0) for node, device in unknown] == [None] * 5


def test_a_device_beyond_those_that_are_named_is_passed_over():
    """A row of GPU 5 of 2 belongs to nobody."""
    machines = Machines()
    machines.sample_devices(devices(device=[0, 5], power_w=[1.0, 2.0]), 5.0)
    assert machines.view().gpu["power_w"].tolist()[:1] == [1.0]


@pytest.mark.parametrize("most", [1, 3])
def test_the_node_that_is_longest_unheard_makes_room(monkeypatch, most):
    """Ever new nodes take no more room than there is."""
    monkeypatch.setattr(ui.machines, "NODES", most)
    machines = Machines()
    for number in range(10):
        machines.sample_devices(devices(f"gpu-{number}", power_w=[float(number), 0.0]), float(number))
        machines.sample_host(host(f"gpu-{number}", cpu_ratio=[number / 10]), float(number))
    view = machines.view()
    assert view.nodes == tuple(f"gpu-{number}" for number in range(10 - most, 10))
    assert view.gpu["power_w"][::2].tolist() == [float(number) for number in range(10 - most, 10)]
    assert np.allclose(view.host["cpu_ratio"], [number / 10 for number in range(10 - most, 10)])


def test_a_clock_that_is_set_right_is_believed():
    """A node from tomorrow is not fresh until tomorrow."""
    machines = Machines()
    machines.sample_host(host(), 90_000.0)
    machines.sample_host(host(), 10.0)
    assert machines.view().node_s.tolist() == [10.0]


def test_columns_that_an_older_producer_leaves_out_are_not_measured():
    """Empty columns are no rows of nothing."""
    machines = Machines()
    machines.sample_devices(devices(nvlink_rated_bytes_per_s=[]), 5.0)
    assert np.isnan(machines.view().gpu["nvlink_rated_bytes_per_s"]).all()
