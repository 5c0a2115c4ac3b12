import logging
import sys

import pynvml

from collectors.gpu import RECONNECT_S, Gpus
from collectors.simulated import SimulatedNvml
from paceline.gpu.nvml import WITHOUT_BINDING, Nvml, load

NO_LIBRARY = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND


def test_no_driver_is_no_error(clock, caplog):
    """Without a driver there are no rows, one warning that says so, and no second one."""
    gpus = Gpus(lambda: Nvml(SimulatedNvml(0, now=clock, init_error=NO_LIBRARY)))
    for _ in range(3):
        gpus.look(clock.now_s)
        assert gpus.sample(clock.now_s) == []
        clock.now_s += RECONNECT_S

    assert gpus.absent == "no NVIDIA driver (libnvidia-ml.so.1 not found)"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_real_binding_without_a_driver(clock, monkeypatch):
    """The real pynvml, where the driver's library is not found, is a reason and no error; this machine may have one."""

    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", missing)
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    gpus = Gpus(load)
    gpus.look(clock.now_s)
    assert gpus.absent == "no NVIDIA driver (libnvidia-ml.so.1 not found)"
    assert gpus.not_measured() == {}


def test_without_the_binding_the_reason_says_how_to_get_it(clock, monkeypatch):
    """A missing nvidia-ml-py is named, with the command that brings it."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpus = Gpus(load)
    gpus.look(clock.now_s)

    assert gpus.absent.startswith(f"{WITHOUT_BINDING}; pip install ")


def test_a_driver_that_comes_later_is_found(clock):
    """A driver that loads after the agent has started is found at the next look, and that is a change."""
    nvml = SimulatedNvml(2, now=clock, init_error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    gpus = Gpus(lambda: Nvml(nvml))
    before = gpus.look(clock.now_s)
    nvml.init_error = None
    clock.now_s += RECONNECT_S

    assert (before, gpus.look(clock.now_s), len(gpus.sample(clock.now_s))) == (True, True, 2)
    gpus.close()


def test_a_healthy_node_is_not_looked_at_again(gpus, nvml, clock):
    """Once all devices are open, later looks change nothing and cost one call a GPU: whether MIG is on by now."""
    made = len(nvml.calls)
    clock.now_s += RECONNECT_S

    assert gpus.look(clock.now_s) is False
    assert list(nvml.calls)[made:] == [("nvmlDeviceGetMigMode", index) for index in range(2)]


def test_a_device_that_does_not_open_is_named_and_tried_again(nvml, clock, caplog):
    """A GPU that is lost at the start is named as such, warned of once, and opened when it is back."""
    nvml.gpus[1].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus = Gpus(lambda: Nvml(nvml))
    gpus.look(clock.now_s)
    reasons = gpus.not_measured()
    clock.now_s += RECONNECT_S
    gpus.look(clock.now_s)
    nvml.gpus[1].lost = None
    clock.now_s += RECONNECT_S

    assert reasons == {"device[1]": "GPU is lost"}
    assert gpus.look(clock.now_s) is True
    assert gpus.uuids == [gpu.uuid for gpu in nvml.gpus]
    assert len(caplog.records) == 1
    gpus.close()


def test_gpus_stand_in_the_drivers_order_whenever_they_opened(nvml, clock):
    """A reader counts them: the first one, opened last, is the first."""
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus = Gpus(lambda: Nvml(nvml))
    gpus.look(clock.now_s)
    nvml.gpus[0].lost = None
    clock.now_s += RECONNECT_S
    gpus.look(clock.now_s)

    assert gpus.uuids == [gpu.uuid for gpu in nvml.gpus]
    gpus.close()


def test_a_reloaded_driver_is_found_again(nvml, gpus, sample, clock):
    """Where every device is lost (a driver reload), the library is opened anew and rows come again."""
    for gpu in nvml.gpus:
        gpu.lost = pynvml.NVML_ERROR_GPU_IS_LOST
    sample()
    for gpu in nvml.gpus:
        gpu.lost = None
    clock.now_s += RECONNECT_S
    gpus.look(clock.now_s)
    sample()

    assert None not in sample()[0].values()


def test_a_loss_and_a_return_are_logged_once_each(nvml, sample, caplog):
    """A GPU that is lost and comes back gives two log lines, however long it was away."""
    sample()
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    for _ in range(5):
        sample()
    nvml.gpus[0].lost = None
    sample(60.0)
    sample()

    assert [record.getMessage().rpartition(") ")[2] for record in caplog.records] == ["lost: GPU is lost", "is back"]


def test_a_node_without_gpus_has_no_reason(clock):
    """A driver that finds no GPU is not a fault."""
    gpus = Gpus(lambda: Nvml(SimulatedNvml(0, now=clock)))
    gpus.look(clock.now_s)

    assert (gpus.absent, gpus.uuids, gpus.not_measured()) == (None, [], {})
    gpus.close()


def test_gpus_of_a_driver_that_had_none_are_found(clock, caplog):
    """Whichever driver gets them; until then later looks change nothing and log nothing."""
    caplog.set_level(logging.INFO)
    first, second = SimulatedNvml(0, now=clock), SimulatedNvml(0, now=clock)
    gpus = Gpus(lambda: Nvml(first), lambda: Nvml(second))
    changed = []
    for _ in range(4):
        changed.append(gpus.look(clock.now_s))
        clock.now_s += RECONNECT_S
    second.gpus = SimulatedNvml(2, now=clock).gpus

    assert (changed, gpus.look(clock.now_s)) == ([True, False, False, False], True)
    assert gpus.uuids == [gpu.uuid for gpu in second.gpus]
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["0 GPUs", "2 GPUs"]
    gpus.close()


def test_a_driver_that_goes_away_is_a_change(nvml, gpus, sample, clock):
    """Once: with it go the devices, and the reason is there from that look on."""
    for gpu in nvml.gpus:
        gpu.lost = pynvml.NVML_ERROR_GPU_IS_LOST
    sample()
    nvml.init_error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    clock.now_s += RECONNECT_S

    assert (gpus.look(clock.now_s), gpus.uuids, gpus.absent) == (True, [], "NVIDIA driver not loaded")
    clock.now_s += RECONNECT_S
    assert gpus.look(clock.now_s) is False
