"""Instances of a GPU under MIG, on the simulated NVML."""

import pynvml
import pytest

from collectors.gpu import RECONNECT_S, Gpus
from collectors.inventory import describe
from collectors.processes import ProcessOwners, processes
from collectors.simulated import GIB, SimulatedInstance
from paceline.events import NodeDescribed
from paceline.gpu.nvml import Nvml
from paceline.gpu.sample_rows import DEVICE_COLUMNS
from paceline.sidecar.gpu_readings import GpuReadings

PRODUCER = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n"}


@pytest.fixture
def split(nvml):
    """The first GPU under MIG: instances in its first and third place."""
    gpu = nvml.gpus[0]
    gpu.mig = True
    gpu.instances = [SimulatedInstance(gpu, 0), None, SimulatedInstance(gpu, 2, slices=3, compute_slices=2)]
    return gpu


@pytest.fixture
def found(nvml, split, clock):
    gpus = Gpus(lambda: Nvml(nvml))
    gpus.look(clock.now_s)
    yield gpus
    gpus.close()


def test_an_instance_is_a_device_behind_the_gpus(found, nvml, split):
    """Places without an instance are none; the numbers of the GPUs stay theirs."""
    assert found.uuids == [nvml.gpus[0].uuid, nvml.gpus[1].uuid, split.instances[0].uuid, split.instances[2].uuid]
    assert [device.index for device in found.devices] == [0, 1, 2, 3]
    assert {device.parent for device in found.devices[2:]} == {split.uuid}


def test_an_instance_has_its_own_memory_and_nothing_else(found, split, clock):
    """Power, temperature and clocks are the GPU's, in the GPU's row; utilisation is nobody's."""
    rows = dict(found.sample(clock.now_s))
    instance, whole = rows[split.instances[0].uuid], rows[split.uuid]

    assert {column for column, value in instance.items() if value is not None} == {"fb_used_bytes", "fb_total_bytes"}
    assert (instance["fb_used_bytes"], instance["fb_total_bytes"]) == (3 * GIB, 10 * GIB)
    assert (whole["power_w"] is None, whole["utilization_ratio"]) == (False, None)
    why = found.not_measured()
    others = set(DEVICE_COLUMNS) - {"fb_used_bytes", "fb_total_bytes"}
    assert {why[f"{column}[2]"] for column in others} == {f"measured for the whole GPU, {split.uuid}"}


def test_an_instance_is_asked_only_what_is_its_own(found, nvml, clock):
    """What NVML refuses of an instance is not asked each second."""
    nvml.calls.clear()
    found.sample(clock.now_s)
    asked = [call for call, index in nvml.calls if index == 0]

    assert asked.count("nvmlDeviceGetPowerUsage") == 1
    # Of the GPU, and of each of two instances, which asks its GPU in turn.
    assert asked.count("nvmlDeviceGetMemoryInfo_v2") == 1 + 2 * 2


def test_instances_come_and_go(found, split, clock):
    """Who makes an instance anew finds it within a minute; one that is gone leaves the list."""
    gone = split.instances[0].uuid
    split.instances = [None, SimulatedInstance(split, 5), split.instances[2]]
    clock.now_s += RECONNECT_S

    assert found.look(clock.now_s) is True
    assert gone not in found.uuids
    assert split.instances[1].uuid in found.uuids
    clock.now_s += RECONNECT_S
    assert found.look(clock.now_s) is False


def test_an_instance_that_is_made_again_is_measured_again(found, nvml, split, clock):
    """In the same place it has the same UUID: no change to report, but the handle before is invalid."""
    gone, real = split.instances[0], nvml.nvmlDeviceGetMemoryInfo

    def memory(handle, version=None):
        if handle is gone:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return real(handle, version)

    nvml.nvmlDeviceGetMemoryInfo = memory
    split.instances[0] = SimulatedInstance(split, 0)
    assert dict(found.sample(clock.now_s))[gone.uuid]["fb_used_bytes"] is None
    clock.now_s += RECONNECT_S

    assert found.look(clock.now_s) is False
    assert dict(found.sample(clock.now_s))[gone.uuid]["fb_used_bytes"] == 3 * GIB


def test_an_instance_that_is_destroyed_meanwhile_is_not_measured(found, nvml, split, clock):
    """Its handle is invalid from then on: a reason, no error, and its neighbour goes on."""
    real = nvml.nvmlDeviceGetMemoryInfo

    def destroyed(handle, version=None):
        if handle is split.instances[0]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return real(handle, version)

    nvml.nvmlDeviceGetMemoryInfo = destroyed
    rows = dict(found.sample(clock.now_s))

    assert rows[split.instances[0].uuid]["fb_used_bytes"] is None
    assert rows[split.instances[2].uuid]["fb_used_bytes"] == 3 * GIB
    assert "fb_used_bytes[2]" in found.not_measured()


def test_the_inventory_names_parent_and_profile(found, split):
    """As NVIDIA writes it, with the compute instance's share where that is not all of it."""
    node = NodeDescribed(**describe(found, 5.0), **PRODUCER)

    assert [(one.uuid, one.parent, one.profile) for one in node.devices[2:]] == [
        (split.instances[0].uuid, split.uuid, "1g.10gb"),
        (split.instances[2].uuid, split.uuid, "2c.3g.30gb"),
    ]
    assert node.devices[0].mig is True
    assert (node.devices[0].parent, node.devices[0].profile) == (None, None)
    assert not [key for key in node.not_measured if key.endswith(("[2]", "[3]"))]


def test_a_process_is_told_of_its_instance(found, split):
    """Not of the whole GPU again."""
    split.processes = split.instances[0].processes = [(4711, GIB)]
    running, why = processes(found.driver, found.devices, ProcessOwners())

    assert [(one.device, one.pid, one.used_bytes) for one in running] == [(2, 4711, GIB)]
    assert why == {}


@pytest.mark.parametrize("prefix", ["MIG-", "GPU-"], ids=["as NVML writes it", "as CUDA hands it out"])
def test_a_rank_on_an_instance_finds_its_conditions(nvml, split, clock, prefix):
    """Memory of the instance; clock, reasons and temperature of the GPU that it is a part of."""
    split.state["throttle"] = 0x40
    name = prefix + split.instances[0].uuid.removeprefix("MIG-")
    readings = GpuReadings([lambda: Nvml(nvml)], clock)
    readings.drain(name)
    readings.read()
    told = readings.drain(name)
    readings.close()

    assert (told["fb_used_bytes"], told["fb_total_bytes"]) == (3 * GIB, 10 * GIB)
    assert (told["throttle_reasons"], told["sm_clock_mhz"], told["sm_clock_max_mhz"]) == (0x40, 1200.0, 1980)
    assert told.get("utilization_ratio") is None
