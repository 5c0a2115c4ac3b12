"""A simulated NVML: GPUs that are not there, with faults on demand, behind pynvml's own names, structs and errors.

Rule of this file: what a caller can tell from the real module is a bug here. It serves the tests, and
``paceline collect --simulate N``, which tries dashboards out on a machine without GPUs; every such GPU says
"Simulated" in its name.
"""

# ruff: noqa: N802, D102 - pynvml's names
import ctypes
import math
import os
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from paceline.gpu.nvml import real

pynvml = real()
GIB = 1024**3


class SimulatedGpu:
    """One GPU: its state, and its faults, both free to change at any time.

    ``refuse`` maps a call's or a field's name to the NVML error code it answers with; ``lost`` answers every call with
    that code; ``xids`` are delivered once each.
    """

    def __init__(self, index: int, **state: Any) -> None:
        self.index = self.minor = index
        self.uuid = f"GPU-51ed{index:04x}-0000-4000-8000-00000000{index:04x}"
        self.name = "Simulated GPU"
        self.refuse: dict[str, int] = {}
        self.lost: int | None = None
        self.xids: list[int] = []
        self.processes: list[tuple[int, int | None]] = []
        self.mig = False
        #: Instances under MIG: by place, None where none is.
        self.instances: list[SimulatedInstance | None] = []
        self.links = 18
        self.links_up = 18
        self.gpm = True
        #: Since when its driver is loaded, in seconds of the simulation.
        self.loaded_s = 0.0
        self.state: dict[str, Any] = dict(_IDLE) | state

    def busy(self, at_s: float) -> float:
        """How busy it is at ``at_s``: a slow wave, out of step between GPUs."""
        return 0.75 + 0.2 * math.sin(at_s / 7.0 + self.index)

    def power_mw(self, at_s: float) -> float:
        """Its power at ``at_s``."""
        return float(self.state.get("power_mw", 100_000 + 550_000 * self.busy(at_s)))

    def energy_mj(self, at_s: float) -> float:
        """The integral of its power since the driver was loaded."""
        span_s = at_s - self.loaded_s
        if "power_mw" in self.state:
            return float(self.state["power_mw"] * span_s)
        wave = 7.0 * (math.cos(self.loaded_s / 7.0 + self.index) - math.cos(at_s / 7.0 + self.index))
        return 100_000 * span_s + 550_000 * (0.75 * span_s + 0.2 * wave)


_IDLE: dict[str, Any] = {
    "total_bytes": 80 * GIB,
    "reserved_bytes": GIB // 2,
    "used_bytes": 48 * GIB,
    "power_limit_mw": 700_000,
    "memory_temperature": 58,
    "throttle": 0,
    "generation": 5,
    "width": 16,
    "replays": 0,
    "ecc": (0, 0),
    "retired": (0, 0),
    "remapped": (0, 0),
    "nvlink_crc": 0,
    "nvlink_recoveries": 0,
}


class SimulatedInstance:
    """An instance of ``gpu`` under MIG, of so many of its seven slices."""

    def __init__(self, gpu: SimulatedGpu, number: int, slices: int = 1, compute_slices: int | None = None) -> None:
        self.gpu = gpu
        self.index, self.number = gpu.index, number
        self.uuid = f"MIG-3160{gpu.index:04x}-{number:04x}-4000-8000-00000000{gpu.index:04x}"
        self.slices = slices
        self.compute_slices = slices if compute_slices is None else compute_slices
        self.total_bytes = slices * 10 * GIB
        self.used_bytes = 3 * GIB
        self.processes: list[tuple[int, int | None]] = []


class SimulatedNvml:
    """An NVML with ``gpus``; ``init_error`` is the code that ``nvmlInit`` answers with, as where no driver is."""

    def __init__(self, gpus: int, *, now: Callable[[], float], init_error: int | None = None) -> None:
        self.gpus = [SimulatedGpu(index) for index in range(gpus)]
        self.init_error = init_error
        self.initialized = False
        #: The calls made, with the device asked; the oldest go.
        self.calls: deque[tuple[str, int]] = deque(maxlen=100_000)
        self._gpm_samples: dict[int, tuple[SimulatedGpu, float]] = {}
        self._now = now
        self._start = now()

    def __getattr__(self, name: str) -> Any:
        """Constants, structs and errors are pynvml's own; a function that is not simulated is unknown to the driver."""
        attribute = getattr(pynvml, name)
        if name.startswith("nvml") and callable(attribute):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return attribute

    def _ask(self, call: str, gpu: Any) -> Any:
        self.calls.append((call, gpu.index))
        if isinstance(gpu, SimulatedInstance):
            # "with some restrictions" (nvml.h): what is the GPU's alone is not supported of an instance.
            if call not in _OF_AN_INSTANCE:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._ask(call, gpu.gpu)
            return gpu
        if not self.initialized:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if gpu.lost is not None:
            raise pynvml.NVMLError(gpu.lost)
        if call in gpu.refuse:
            raise pynvml.NVMLError(gpu.refuse[call])
        return gpu

    def _elapsed_s(self) -> float:
        return self._now() - self._start

    def load_driver(self) -> None:
        """The driver is loaded anew, now: its counters start again."""
        for gpu in self.gpus:
            gpu.loaded_s = self._elapsed_s()

    # --- the library --------------------------------------------------------------------------------------------------

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)
        self.initialized = True

    def nvmlShutdown(self) -> None:
        self.initialized = False

    def nvmlSystemGetDriverVersion(self) -> str:
        return "999.00 (simulated)"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13020

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> SimulatedGpu:
        gpu = self.gpus[index]
        self._ask("nvmlDeviceGetHandleByIndex", gpu)
        return gpu

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> "SimulatedGpu | SimulatedInstance":
        for gpu in self.gpus:
            for one in (gpu, *gpu.instances):
                if one is not None and one.uuid == uuid:
                    self._ask("nvmlDeviceGetHandleByUUID", gpu)
                    return one
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    # --- what a device is ---------------------------------------------------------------------------------------------

    def nvmlDeviceGetUUID(self, gpu: SimulatedGpu) -> str:
        return str(self._ask("nvmlDeviceGetUUID", gpu).uuid)

    def nvmlDeviceGetName(self, gpu: SimulatedGpu) -> str:
        whole = self._ask("nvmlDeviceGetName", gpu)
        return f"{whole.gpu.name} MIG" if isinstance(whole, SimulatedInstance) else str(whole.name)

    def nvmlDeviceGetPciInfo(self, gpu: SimulatedGpu) -> Any:
        self._ask("nvmlDeviceGetPciInfo", gpu)
        return SimpleNamespace(busId=f"00000000:{gpu.index + 1:02X}:00.0")

    def nvmlDeviceGetMinorNumber(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetMinorNumber", gpu).minor)

    def nvmlDeviceGetMigMode(self, gpu: SimulatedGpu) -> list[int]:
        self._ask("nvmlDeviceGetMigMode", gpu)
        return [int(gpu.mig), int(gpu.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: SimulatedGpu) -> int:
        """Zero where MIG is off, else how many there can be: seven."""
        return 7 if self._ask("nvmlDeviceGetMaxMigDeviceCount", gpu).mig else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: SimulatedGpu, index: int) -> SimulatedInstance:
        found = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu).instances[index : index + 1]
        if not found or found[0] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return found[0]  # type: ignore[no-any-return]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, instance: SimulatedInstance) -> SimulatedGpu:
        return instance.gpu

    def nvmlDeviceGetGpuInstanceId(self, instance: SimulatedInstance) -> int:
        return int(self._ask("nvmlDeviceGetGpuInstanceId", instance).number)

    def nvmlDeviceGetComputeInstanceId(self, instance: SimulatedInstance) -> int:
        self._ask("nvmlDeviceGetComputeInstanceId", instance)
        return 0

    def nvmlDeviceGetAttributes_v2(self, instance: SimulatedInstance) -> Any:
        self._ask("nvmlDeviceGetAttributes_v2", instance)
        answer = pynvml.c_nvmlDeviceAttributes()
        answer.computeInstanceSliceCount = instance.compute_slices
        answer.gpuInstanceSliceCount = instance.slices
        # NVML leaves out what it keeps for itself: a 10gb instance has some 9.8 GiB.
        answer.memorySizeMB = instance.total_bytes // 1024**2 - 144
        return answer

    def nvmlDeviceGetNvLinkState(self, gpu: SimulatedGpu, link: int) -> int:
        self._ask("nvmlDeviceGetNvLinkState", gpu)
        if link >= gpu.links:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT if gpu.links else pynvml.NVML_ERROR_NOT_SUPPORTED)
        return int(link < gpu.links_up)

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: SimulatedGpu, link: int, counter: int) -> int:
        self._ask("nvmlDeviceGetNvLinkErrorCounter", gpu)
        crc = counter in (pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, pynvml.NVML_NVLINK_ERROR_DL_CRC_DATA)
        # All of the first link, and half of it each of the two kinds of counters.
        return int(gpu.state["nvlink_crc" if crc else "nvlink_recoveries"]) // 2 if link == 0 else 0

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu).state["generation"])

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetMaxPcieLinkWidth", gpu).state["width"])

    def nvmlDeviceGetMaxClockInfo(self, gpu: SimulatedGpu, kind: int) -> int:
        self._ask("nvmlDeviceGetMaxClockInfo", gpu)
        return 1980 if kind == pynvml.NVML_CLOCK_SM else 2619

    # --- what a device does -------------------------------------------------------------------------------------------

    def nvmlDeviceGetUtilizationRates(self, gpu: SimulatedGpu) -> Any:
        self._ask("nvmlDeviceGetUtilizationRates", gpu)
        if gpu.mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        answer = pynvml.c_nvmlUtilization_t()
        busy = gpu.busy(self._elapsed_s())
        answer.gpu, answer.memory = gpu.state.get("utilization", int(busy * 100)), int(busy * 50)
        return answer

    def nvmlDeviceGetMemoryInfo(self, gpu: SimulatedGpu, version: int | None = None) -> Any:
        self._ask("nvmlDeviceGetMemoryInfo_v2" if version else "nvmlDeviceGetMemoryInfo", gpu)
        answer = pynvml.c_nvmlMemory_v2_t() if version else pynvml.c_nvmlMemory_t()
        if isinstance(gpu, SimulatedInstance):
            answer.total, answer.used = gpu.total_bytes, gpu.used_bytes
            return answer
        answer.total, answer.used = gpu.state["total_bytes"], gpu.state["used_bytes"]
        if not version:
            answer.used += gpu.state["reserved_bytes"]
        return answer

    def nvmlDeviceGetPowerUsage(self, gpu: SimulatedGpu) -> int:
        self._ask("nvmlDeviceGetPowerUsage", gpu)
        return int(gpu.power_mw(self._elapsed_s()))

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetEnforcedPowerLimit", gpu).state["power_limit_mw"])

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: SimulatedGpu) -> int:
        self._ask("nvmlDeviceGetTotalEnergyConsumption", gpu)
        return int(gpu.energy_mj(self._elapsed_s()))

    def nvmlDeviceGetTemperature(self, gpu: SimulatedGpu, sensor: int) -> int:
        self._ask("nvmlDeviceGetTemperature", gpu)
        return int(40 + 35 * gpu.busy(self._elapsed_s()))

    def nvmlDeviceGetClockInfo(self, gpu: SimulatedGpu, kind: int) -> int:
        self._ask("nvmlDeviceGetClockInfo", gpu)
        if kind == pynvml.NVML_CLOCK_SM:
            return 1200 if gpu.state["throttle"] else 1755
        return 2619

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetCurrentClocksEventReasons", gpu).state["throttle"])

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu).state["throttle"])

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu).state["generation"])

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetCurrPcieLinkWidth", gpu).state["width"])

    def nvmlDeviceGetPcieReplayCounter(self, gpu: SimulatedGpu) -> int:
        return int(self._ask("nvmlDeviceGetPcieReplayCounter", gpu).state["replays"])

    def nvmlDeviceGetPcieThroughput(self, gpu: SimulatedGpu, counter: int) -> int:
        self._ask("nvmlDeviceGetPcieThroughput", gpu)
        return 2_000_000 if counter == pynvml.NVML_PCIE_UTIL_RX_BYTES else 500_000

    def nvmlDeviceGetTotalEccErrors(self, gpu: SimulatedGpu, kind: int, counter: int) -> int:
        return int(self._ask("nvmlDeviceGetTotalEccErrors", gpu).state["ecc"][kind])

    def nvmlDeviceGetRemappedRows(self, gpu: SimulatedGpu) -> tuple[int, ...]:
        return (*self._ask("nvmlDeviceGetRemappedRows", gpu).state["remapped"], 0, 0)

    def nvmlDeviceGetFieldValues(self, gpu: SimulatedGpu, ids: list[Any]) -> list[Any]:
        self._ask("nvmlDeviceGetFieldValues", gpu)
        return [self._field(gpu, *(item if isinstance(item, tuple) else (item, 0))) for item in ids]

    def _field(self, gpu: SimulatedGpu, field_id: int, scope: int) -> Any:
        name = next(name for name in _FIELDS if getattr(pynvml, name) == field_id)
        answer = pynvml.c_nvmlFieldValue_t()
        answer.fieldId, answer.valueType = field_id, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        answer.nvmlReturn = gpu.refuse.get(name, 0)
        first = name not in _OF_A_LINK or scope == 0  # What is asked link by link is all on the first link.
        answer.value.ullVal = int(_FIELDS[name](gpu, self._elapsed_s())) if first else 0
        return answer

    @pynvml.throwOnVersionMismatch  # type: ignore[untyped-decorator]
    def nvmlDeviceGetComputeRunningProcesses(self, gpu: SimulatedGpu) -> list[Any]:
        return self._processes("nvmlDeviceGetComputeRunningProcesses", gpu)

    def nvmlDeviceGetComputeRunningProcesses_v2(self, gpu: SimulatedGpu) -> list[Any]:
        return self._processes("nvmlDeviceGetComputeRunningProcesses_v2", gpu)

    def _processes(self, call: str, gpu: SimulatedGpu) -> list[Any]:
        self._ask(call, gpu)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.processes]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        if not os.path.exists(f"/proc/{pid}"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return "/usr/bin/python3"

    # --- events -------------------------------------------------------------------------------------------------------

    def nvmlEventSetCreate(self) -> list[SimulatedGpu]:
        return []

    def nvmlDeviceRegisterEvents(self, gpu: SimulatedGpu, kinds: int, events: list[SimulatedGpu]) -> None:
        events.append(self._ask("nvmlDeviceRegisterEvents", gpu))

    def nvmlEventSetWait(self, events: list[SimulatedGpu], timeout_ms: int) -> Any:
        for gpu in events:
            if gpu.xids:
                kind = pynvml.nvmlEventTypeXidCriticalError
                return SimpleNamespace(device=gpu, eventType=kind, eventData=gpu.xids.pop(0))
        raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)

    def nvmlEventSetFree(self, events: list[SimulatedGpu]) -> None:
        events.clear()

    # --- GPM: counters over the interval between two samples ----------------------------------------------------------

    def nvmlGpmQueryDeviceSupport(self, gpu: SimulatedGpu) -> Any:
        return SimpleNamespace(isSupportedDevice=int(self._ask("nvmlGpmQueryDeviceSupport", gpu).gpm))

    def nvmlGpmSampleAlloc(self) -> Any:
        return ctypes.pointer(pynvml.struct_c_nvmlGpmSample_t())

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self._gpm_samples.pop(ctypes.addressof(sample.contents), None)

    def nvmlGpmSampleGet(self, gpu: SimulatedGpu, sample: Any) -> Any:
        self._ask("nvmlGpmSampleGet", gpu)
        self._gpm_samples[ctypes.addressof(sample.contents)] = (gpu, self._elapsed_s())
        return sample

    def nvmlGpmMetricsGet(self, request: Any) -> Any:
        gpu, at_s = self._gpm_samples[ctypes.addressof(request.sample2.contents)]
        for metric in request.metrics[: request.numMetrics]:
            metric.nvmlReturn, metric.value = 0, 100 * gpu.busy(at_s) * _GPM[metric.metricId]
        return request


_GPM = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: 0.9,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 0.6,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 0.5,
}
_OF_A_LINK = {"NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"}
#: What an instance under MIG answers itself.
_OF_AN_INSTANCE = {
    *("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"),
    *("nvmlDeviceGetAttributes_v2", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"),
    *("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"),
}
_FIELDS: dict[str, Callable[[SimulatedGpu, float], float]] = {
    "NVML_FI_DEV_MEMORY_TEMP": lambda gpu, at_s: gpu.state["memory_temperature"],
    "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": lambda gpu, at_s: gpu.state.get("pcie_rx", 2e9 * at_s),
    "NVML_FI_DEV_PCIE_COUNT_TX_BYTES": lambda gpu, at_s: gpu.state.get("pcie_tx", 5e8 * at_s),
    "NVML_FI_DEV_NVLINK_LINK_COUNT": lambda gpu, at_s: gpu.links,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": lambda gpu, at_s: 4e7 * at_s,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": lambda gpu, at_s: 4e7 * at_s,
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": lambda gpu, at_s: gpu.state["nvlink_crc"],
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": lambda gpu, at_s: 0,
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": lambda gpu, at_s: 0,
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": lambda gpu, at_s: gpu.state["nvlink_recoveries"],
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS": lambda gpu, at_s: gpu.state["nvlink_recoveries"],
    "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON": lambda gpu, at_s: 26_562,
    "NVML_FI_DEV_RETIRED_SBE": lambda gpu, at_s: gpu.state["retired"][0],
    "NVML_FI_DEV_RETIRED_DBE": lambda gpu, at_s: gpu.state["retired"][1],
}
