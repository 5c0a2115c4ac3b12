import pynvml
import pytest

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


def bad(*_):
    """What a driver was seen to write, as the binding hands it on, and as an older binding does."""
    return b"\xf8\x95\xa0\x81\xe0".decode()


@pytest.mark.parametrize("answer", [bad, lambda *_: b"\xf8\x95"], ids=["raises", "bytes"])
@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetName", "name[0]"),
        ("nvmlSystemGetDriverVersion", "driver"),
        ("nvmlDeviceGetPciInfo", "pci_bus_id[0]"),
        ("nvmlDeviceGetUUID", "uuid[0]"),
    ],
)
def test_a_string_that_is_not_utf8_costs_itself_alone(call, field, answer, nvml, clock, monkeypatch):
    """The field is not readable; every other one of this GPU, and all other GPUs, are reported."""
    right = getattr(nvml, call)

    class Pci:
        def __getattr__(self, name):
            return answer()

    def ask(gpu=None):
        if gpu is not None and gpu is not nvml.gpus[0]:
            return right(gpu)
        return Pci() if call == "nvmlDeviceGetPciInfo" else answer()

    monkeypatch.setattr(nvml, call, ask, raising=False)
    gpus = Gpus(lambda: Nvml(nvml))
    gpus.look(clock.now_s)
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)

    assert len(node.devices) == 2
    assert node.not_measured[field].startswith("not readable")
    assert [device.power_limit_w for device in node.devices] == [700.0, 700.0]
    assert len({device.uuid for device in node.devices}) == 2
    assert [row["power_w"] is not None for _, row in gpus.sample(clock.now_s)] == [True, True]
    gpus.close()


def test_a_rating_that_cannot_be_is_not_measured(gpus, nvml):
    """A total of 0 bytes, a limit of 2^31 mW."""
    nvml.gpus[0].state["memory_total"] = 0
    nvml.nvmlDeviceGetEnforcedPowerLimit = lambda gpu: 2**31
    node = NodeDescribed(**describe(gpus, 5.0), **PRODUCER)

    assert node.devices[0].power_limit_w is None
    assert "which cannot be" in node.not_measured["power_limit_w[0]"]
