"""What others use of this node's GPUs, on the simulated NVML."""

import time

import pynvml

from collectors.benchmark import gpu_use
from collectors.simulated import SimulatedNvml
from paceline.gpu.nvml import Nvml


def test_processes_are_counted_by_the_call_that_the_driver_has():
    """An old driver, such as R470, which the binding answers for with an error that is not NVML's own."""
    nvml = SimulatedNvml(1, now=time.monotonic)
    nvml.gpus[0].refuse["nvmlDeviceGetComputeRunningProcesses"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    nvml.gpus[0].processes = [(7, None), (8, None)]

    assert gpu_use.look([lambda: Nvml(nvml)])[nvml.gpus[0].uuid].processes == 2
