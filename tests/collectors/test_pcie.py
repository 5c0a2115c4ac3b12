import pynvml
import pytest

from collectors.pcie import OLDEST_S, Throughput
from paceline.gpu.nvml import Nvml

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


def test_without_counters_the_throughput_is_measured_beside(sample, nvml, gpus, until):
    """A card without PCIe byte counters is measured by the blocking call, in another thread."""
    nvml.gpus[0].refuse["NVML_FI_DEV_PCIE_COUNT_RX_BYTES"] = NOT_SUPPORTED
    until(lambda: sample(0.0)[0]["pcie_rx_bytes_per_s"] == 2e9)

    assert sample(0.0)[0]["pcie_tx_bytes_per_s"] == 5e8
    assert not [column for column in gpus.not_measured() if column.startswith("pcie_rx")]


def test_without_either_it_is_not_measured(sample, nvml, gpus, until):
    """Where both ways are refused the reason is the last one's, and the blocking call is not tried each second."""
    nvml.gpus[0].refuse |= {
        "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": NOT_SUPPORTED,
        "nvmlDeviceGetPcieThroughput": pynvml.NVML_ERROR_NO_PERMISSION,
    }
    sample()
    until(lambda: sample(0.0) and "pcie_rx_bytes_per_s[0]" in gpus.not_measured())

    assert sample(0.0)[0]["pcie_rx_bytes_per_s"] is None
    assert gpus.not_measured()["pcie_rx_bytes_per_s[0]"] == "no permission"


def test_an_old_reading_is_no_value(nvml, clock, until):
    """A reading that the thread has not renewed for seconds is not passed off as the present."""
    nvml.nvmlInit()
    throughput = Throughput(Nvml(nvml), clock)
    until(lambda: throughput.latest(0, nvml.gpus[0])[0] == (2e9, 5e8))
    throughput.close()
    clock.now_s += OLDEST_S + 1

    assert throughput.latest(0, nvml.gpus[0])[0] == (None, None)


@pytest.mark.slow
def test_a_thread_that_fails_is_told_and_reads_on(nvml, clock, until):
    """What nobody foresaw in a driver's answer ends nothing: the reason is told, and the next answer counts."""
    nvml.nvmlInit()
    sound, nvml.nvmlDeviceGetPcieThroughput = nvml.nvmlDeviceGetPcieThroughput, lambda device, kind: "much"
    throughput = Throughput(Nvml(nvml), clock)
    try:
        told = until(lambda: throughput.latest(0, nvml.gpus[0])[1])
        assert told.startswith("the reading of PCIe throughput failed (")
        nvml.nvmlDeviceGetPcieThroughput = sound
        until(lambda: throughput.latest(0, nvml.gpus[0]) == ((2e9, 5e8), None))
    finally:
        throughput.close()
