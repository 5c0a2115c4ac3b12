"""The GPUs of ranks, on the simulated NVML."""

import threading

import pynvml
import pytest

from collectors.simulated import SimulatedNvml
from paceline.gpu.amd import AmdSmi
from paceline.gpu.nvml import Nvml
from paceline.sidecar.conditions import Conditions
from paceline.sidecar.gpu_readings import LOOK_AGAIN_S, OLDEST_S, GpuReadings
from tests.paceline.gpu.fake_amdsmi import FakeAmdSmi


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def nvml(clock):
    return SimulatedNvml(2, now=clock)


@pytest.fixture
def readings(nvml, clock):
    made = GpuReadings([lambda: Nvml(nvml)], clock)
    yield made
    made.close()


def asked(readings, device):
    """What ``device`` reads, once it has been asked for."""
    readings.drain(device)
    readings.read()
    return readings.drain(device)


def test_a_gpu_is_read_by_its_uuid(readings, nvml):
    """Clock, maximum, utilisation, temperature, memory and reasons of the GPU asked for."""
    nvml.gpus[1].state |= {"throttle": 0x40, "utilization": 42}
    found = asked(readings, nvml.gpus[1].uuid)

    assert (found["throttle_reasons"], found["sm_clock_mhz"], found["sm_clock_max_mhz"]) == (0x40, 1200.0, 1980.0)
    assert (found["utilization_ratio"], found["fb_total_bytes"]) == (0.42, 80 * 1024**3)
    assert found["temperature_celsius"] > 0
    assert isinstance(found["sm_clock_max_mhz"], float)  # A column of whole numbers would be another one.


def test_a_reason_seen_once_in_the_span_is_told(readings, nvml):
    """Throttling that came and went between two samples is in the mask; the sample after does not repeat it."""
    uuid = nvml.gpus[0].uuid
    masks = []
    readings.drain(uuid)
    for mask in (0, 0x4, 0x40):
        nvml.gpus[0].state["throttle"] = mask
        readings.read()
    masks.append(readings.drain(uuid)["throttle_reasons"])
    nvml.gpus[0].state["throttle"] = 0
    readings.read()
    masks.append(readings.drain(uuid)["throttle_reasons"])

    assert masks == [0x44, 0]


def test_an_old_reading_is_not_told(readings, nvml, clock):
    """A driver that has not answered for seconds leaves the columns empty."""
    uuid = nvml.gpus[0].uuid
    asked(readings, uuid)
    clock.now_s += OLDEST_S + 0.1

    assert readings.drain(uuid) is None


def test_what_a_card_refuses_is_missing_alone(readings, nvml):
    """One refused call costs its column."""
    nvml.gpus[0].refuse["nvmlDeviceGetTemperature"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    found = asked(readings, nvml.gpus[0].uuid)

    assert "temperature_celsius" not in found
    assert found["sm_clock_mhz"] == 1755.0


def test_a_lost_gpu_comes_back_when_it_answers(readings, nvml, clock):
    """While a GPU is lost it has no reading; it is looked for again after a minute."""
    uuid = nvml.gpus[0].uuid
    asked(readings, uuid)
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    clock.now_s += LOOK_AGAIN_S
    assert asked(readings, uuid) is None
    nvml.gpus[0].lost = None
    clock.now_s += LOOK_AGAIN_S

    assert asked(readings, uuid) is not None


def test_an_unknown_gpu_is_looked_for_rarely(readings, nvml, clock):
    """A UUID that the driver does not know costs two calls a minute: it may be an instance's."""
    calls = []

    def unknown(uuid):
        calls.append(uuid)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    nvml.nvmlDeviceGetHandleByUUID = unknown
    for _ in range(5):
        asked(readings, "GPU-none")
        clock.now_s += 1.0

    assert calls == ["GPU-none", "MIG-none"]


@pytest.mark.parametrize(("count", "known"), [(1, True), (2, False)])
def test_a_bare_number_is_sure_with_one_gpu_alone(clock, count, known):
    """CUDA's own numbering is not NVML's: ``cuda:0`` is read only where there is one GPU."""
    nvml = SimulatedNvml(count, now=clock)

    assert (asked(GpuReadings([lambda: Nvml(nvml)], clock), "cuda:0") is not None) is known


def test_a_driver_that_comes_late_is_found(nvml, clock, readings):
    """Without a driver there is no reading; once it is there, there is."""
    nvml.init_error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert asked(readings, nvml.gpus[0].uuid) is None
    nvml.init_error = None
    clock.now_s += LOOK_AGAIN_S

    assert asked(readings, nvml.gpus[0].uuid) is not None


def test_the_blocking_call_is_never_made(readings, nvml):
    """The call that blocks 20 ms is not among the questions."""
    asked(readings, nvml.gpus[0].uuid)

    assert "nvmlDeviceGetPcieThroughput" not in {call for call, _ in nvml.calls}


def test_a_driver_that_hangs_holds_nobody_up(nvml, tmp_path):
    """While a call into the driver does not return, samples come, without the GPU's columns."""
    release, entered = threading.Event(), threading.Event()

    def hang(uuid):
        entered.set()
        release.wait()
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    nvml.nvmlDeviceGetHandleByUUID = hang
    conditions = Conditions(GpuReadings([lambda: Nvml(nvml)]), tmp_path)
    conditions.sample({0: (1, "GPU-x")}, 1000.0, 1000.0)
    try:
        assert entered.wait()
        found = conditions.sample({0: (1, "GPU-x")}, 1001.0, 1001.0)
    finally:
        release.set()
    conditions.close()

    assert found[0].throttle_reasons is None


@pytest.mark.long
def test_what_nobody_foresaw_does_not_end_the_reading(nvml, until, caplog):
    """It is told, and read again: the GPU of a run of days is not lost for one odd answer."""
    uuid, ask, odd = nvml.gpus[0].uuid, nvml.nvmlDeviceGetUtilizationRates, [RuntimeError("out of the blue")]

    def once_odd(gpu):
        if odd:
            raise odd.pop()
        return ask(gpu)

    nvml.nvmlDeviceGetUtilizationRates = once_odd
    readings = GpuReadings([lambda: Nvml(nvml)])
    readings.drain(uuid)
    readings.start()
    try:
        assert until(lambda: readings.drain(uuid))["utilization_ratio"] is not None
    finally:
        readings.close()
    assert [record.getMessage() for record in caplog.records] == ["the reading of GPUs failed and is started again"]


def test_the_columns_of_a_rank_are_its_gpus(readings, nvml, tmp_path):
    """Each rank is told with the GPU it named; a rank on the CPU has none."""
    nvml.gpus[0].state |= {"throttle": 0x8}
    ranks = {0: (1, nvml.gpus[0].uuid), 1: (1, nvml.gpus[1].uuid), 2: (1, "cpu")}
    for _, device in ranks.values():
        readings.drain(device)
    readings.read()
    readings.start = lambda: None
    found = Conditions(readings, tmp_path).sample(ranks, 1000.0, 1000.0)

    assert [one.throttle_reasons for one in found] == [0x8, 0, None]
    assert found[0].fb_used_bytes == nvml.gpus[0].state["used_bytes"]


# --- AMD's ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def smi():
    return FakeAmdSmi(2)


@pytest.fixture
def amds(nvml, smi, clock):
    """Beside NVIDIA's, which this node has, too."""
    made = GpuReadings([lambda: Nvml(nvml), lambda: AmdSmi(smi)], clock)
    yield made
    made.close()


def test_a_rank_on_rocm_has_conditions(amds, smi):
    """By the name that PyTorch has for its GPU; the first reading has no reasons yet, the next has."""
    name = "GPU-38616637-3035-3235-3936-383331363163"
    amds.drain(name)
    amds.read()
    smi.cards[0].metrics["socket_thm_residency_acc"] += 5
    amds.read()
    found = amds.drain(name)

    assert (found["throttle_reasons"], found["sm_clock_mhz"], found["sm_clock_max_mhz"]) == (0x20, 1305.0, 2100)
    assert (found["utilization_ratio"], found["fb_total_bytes"]) == (0.42, 192 * 1024**3)
    assert found["temperature_celsius"] == 61.0


def test_a_reason_is_not_missed_by_another_ranks_question(amds, smi):
    """Each device remembers what it was asked before for itself."""
    names = ["GPU-8af705259683161c", "GPU-8af705259683161d"]
    for name in names:
        amds.drain(name)
    amds.read()
    smi.cards[1].metrics["ppt_residency_acc"] += 5
    amds.read()

    assert [amds.drain(name)["throttle_reasons"] for name in names] == [0, 0x4]


def test_nvidias_gpus_beside_amds_are_read_all_the_same(amds, nvml):
    """Whichever library knows the name is asked."""
    assert asked(amds, nvml.gpus[1].uuid)["fb_total_bytes"] == 80 * 1024**3


@pytest.mark.parametrize(("nvidias", "amds", "known"), [(1, 0, True), (0, 1, True), (1, 1, False), (0, 2, False)])
def test_a_bare_number_is_sure_with_one_gpu_of_any_maker(clock, nvidias, amds, known):
    """A rank on ROCm says ``cuda:0`` as one on CUDA does."""
    loads = [lambda: Nvml(SimulatedNvml(nvidias, now=clock)), lambda: AmdSmi(FakeAmdSmi(amds))]

    assert (asked(GpuReadings(loads, clock), "cuda:0") is not None) is known
