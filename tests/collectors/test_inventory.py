import pynvml

from collectors.gpu import Gpus
from collectors.inventory import describe
from collectors.simulated import SimulatedNvml
from paceline.events import NodeDescribed
from paceline.gpu.nvml import Nvml

PRODUCER = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n"}


def test_the_inventory_names_what_the_node_has(gpus):
    """Devices with their ratings, driver and CUDA as people write them, and the host."""
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)
    device = node.devices[1]

    assert (node.cuda, node.time_s, len(node.devices)) == ("13.2", 5.0, 2)
    assert (device.index, device.power_limit_w, device.pcie_width_max, device.mig) == (1, 700.0, 16, False)
    assert device.pci_bus_id == "00000000:02:00.0"
    assert node.cpu_count >= 1


def test_a_rating_that_is_refused_has_a_reason(gpus, nvml):
    """A refused rating is None for that GPU alone, with the reason under its name."""
    nvml.gpus[1].refuse["nvmlDeviceGetEnforcedPowerLimit"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)

    assert [device.power_limit_w for device in node.devices] == [700.0, None]
    assert node.not_measured == {"power_limit_w[1]": "not supported by this GPU"}


def test_a_node_without_a_driver_says_so(clock):
    """No driver: no devices, and the reason in their place."""
    gpus = Gpus(lambda: Nvml(SimulatedNvml(0, now=clock, init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)))
    gpus.look(clock.now_s)
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)

    assert (node.devices, node.driver) == ([], None)
    assert node.not_measured["devices"] == "no NVIDIA driver (libnvidia-ml.so.1 not found)"


def test_a_device_that_does_not_open_is_in_the_inventory(nvml, clock):
    """A GPU that NVML counts and does not open is not silently missing."""
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus = Gpus(lambda: Nvml(nvml))
    gpus.look(clock.now_s)

    assert describe(gpus, 5.0)["not_measured"]["device[0]"] == "GPU is lost"
    gpus.close()


def test_a_cpu_without_a_name(gpus, tmp_path):
    """Arm kernels name no model: None, with a reason."""
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    found = describe(gpus, 5.0, proc=tmp_path)

    assert (found["cpu_model"], found["not_measured"]["cpu_model"]) == (None, "/proc/cpuinfo does not name it")
