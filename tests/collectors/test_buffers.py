"""What a look at the GPUs leaves to be published: their rows, or that none of them opens."""

import time
from types import SimpleNamespace

import pynvml
import pytest

from collectors import buffers
from collectors.buffers import GpuBuffer
from collectors.gpu import RECONNECT_S, Gpus
from collectors.processes import ProcessOwners
from collectors.simulated import SimulatedNvml
from paceline import wire
from paceline.gpu.nvml import Nvml
from paceline.topics import DEVICE

WHO = {"cluster": "c", "node": "n", "producer": "p", "sequence": 0}


@pytest.fixture
def looked(clock):
    """A function: a buffer after one look at so many GPUs, of which some were lost before it was there."""
    made = []

    def look(gpus, lost):
        nvml = SimulatedNvml(gpus, now=clock)
        for gpu in nvml.gpus[:lost]:
            gpu.lost = pynvml.NVML_ERROR_GPU_IS_LOST
        made.append(GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners()))
        made[-1].sample()
        return made[-1]

    yield look
    for buffer in made:
        buffer.close()


def test_gpus_of_which_none_opens_are_told_without_rows(looked):
    """Once a look, as of that look: the reasons are all that there is to say."""
    began_s = time.time()
    buffer = looked(gpus=2, lost=2)
    cut = buffer.cut(**WHO)
    event = wire.decode(DEVICE, wire.encode(cut))

    assert (event.uuids, event.time_s) == ([], [])
    assert event.not_measured == {"device[0]": "GPU is lost", "device[1]": "GPU is lost"}
    assert began_s <= event.t0_s <= time.time()
    assert buffer.cut(**WHO) is None


def test_rows_go_out_with_the_reasons_of_the_others(looked):
    """Where one opens, its rows carry what is said of those that do not."""
    event = looked(gpus=2, lost=1).cut(**WHO)

    assert (len(event.uuids), len(event.time_s), list(event.not_measured)[:1]) == (1, 1, ["device[0]"])


def test_a_node_without_gpus_says_nothing_of_them(looked):
    """There is nobody to be told of."""
    assert looked(gpus=0, lost=0).cut(**WHO) is None


def test_a_driver_that_lists_no_processes_costs_no_row(nvml, gpus):
    """A driver without any call for them: every sample is a row, an XID is in one of them, and the reason is there."""
    for gpu in nvml.gpus:
        for version in ("", "_v2"):
            gpu.refuse[f"nvmlDeviceGetComputeRunningProcesses{version}"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    nvml.gpus[0].xids.append(79)
    buffer = GpuBuffer(gpus, ProcessOwners())
    for _ in range(10):
        buffer.sample()
    event = buffer.cut(**WHO)

    assert (len(event.time_s), sum(event.xid)) == (20, 79)
    assert event.not_measured["processes[0]"] == "not known to this driver"


def test_a_driver_that_goes_away_is_in_the_next_inventory(nvml, gpus, clock, monkeypatch):
    """With the reason; processes that were seen on its GPUs a moment ago go with them."""
    monkeypatch.setattr(buffers, "time", SimpleNamespace(monotonic=clock, time=time.time))
    nvml.gpus[0].processes = [(4711, None)]
    buffer = GpuBuffer(gpus, ProcessOwners())
    clock.now_s += RECONNECT_S - 2.0
    buffer.sample()
    assert [one.pid for one in buffer.cut(**WHO).processes] == [4711]
    assert len(buffer.inventory()["devices"]) == 2
    for gpu in nvml.gpus:
        gpu.lost = pynvml.NVML_ERROR_GPU_IS_LOST
    nvml.init_error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    for _ in range(2):
        clock.now_s += 1.0
        buffer.sample()

    inventory = buffer.inventory()
    assert (inventory["devices"], inventory["not_measured"]["devices"]) == ([], "NVIDIA driver not loaded")
    assert buffer.holders().processes == frozenset()
