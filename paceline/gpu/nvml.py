"""NVIDIA's library: its errors in words, its devices, and how a rank's name leads to one of them.

Rule of this file: the only place that imports ``pynvml``, and only when it is asked to. Elsewhere NVML is an object
with pynvml's names, so a simulated one serves as well.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from paceline.gpu.driver import AbsentError, Found, Rated, Running, Versions
from paceline.gpu.queries import QUERIES, Query, UnanswerableError
from paceline.gpu.readings import scaled, whole
from paceline.gpu.uuids import GPU, INSTANCE
from paceline.install import install

WITHOUT_BINDING = "nvidia-ml-py is not installed"
_WORDS = {
    "NVML_ERROR_NOT_SUPPORTED": "not supported by this GPU",
    "NVML_ERROR_NO_PERMISSION": "no permission",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "not known to this driver",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": "not known to this driver",
    "NVML_ERROR_INVALID_ARGUMENT": "not known to this driver",
    "NVML_ERROR_GPU_IS_LOST": "GPU is lost",
    "NVML_ERROR_RESET_REQUIRED": "GPU needs a reset",
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver (libnvidia-ml.so.1 not found)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "NVIDIA driver not loaded",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "NVIDIA library and kernel module differ in version; reboot or reload it",
}
_LOST = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_UNINITIALIZED")
_PASSING = (
    *("NVML_ERROR_TIMEOUT", "NVML_ERROR_IN_USE", "NVML_ERROR_NO_DATA", "NVML_ERROR_NOT_READY"),
    *("NVML_ERROR_UNKNOWN", "NVML_ERROR_INSUFFICIENT_RESOURCES", "NVML_ERROR_MEMORY"),
)
UNREADABLE = "not readable: the driver's text is not UTF-8"


def text(answer: str | bytes) -> str:
    """A string of NVML's, which some drivers do not write in UTF-8.

    Raises:
        UnicodeDecodeError: it cannot be read; the binding may raise it, too.
    """
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _most_sm_clock(nvml: Any, device: Any) -> int | None:
    return whole(nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM))


#: What a device is rated at: the fields of DeviceDescribed.
RATED: Rated = {
    "name": lambda nvml, device: text(nvml.nvmlDeviceGetName(device)),
    "pci_bus_id": lambda nvml, device: text(nvml.nvmlDeviceGetPciInfo(device).busId),
    "memory_total_bytes": lambda nvml, device: whole(nvml.nvmlDeviceGetMemoryInfo(device).total),
    "power_limit_w": lambda nvml, device: scaled(nvml.nvmlDeviceGetEnforcedPowerLimit(device), 1e-3),
    "pcie_generation_max": lambda nvml, device: whole(nvml.nvmlDeviceGetMaxPcieLinkGeneration(device)),
    "pcie_width_max": lambda nvml, device: whole(nvml.nvmlDeviceGetMaxPcieLinkWidth(device)),
    "sm_clock_max_mhz": _most_sm_clock,
    "mig": lambda nvml, device: bool(nvml.nvmlDeviceGetMigMode(device)[0]),
}
VERSIONS: Versions = {
    "driver": lambda nvml: text(nvml.nvmlSystemGetDriverVersion()),
    "cuda": lambda nvml: _cuda(nvml.nvmlSystemGetCudaDriverVersion_v2()),
}


def _cuda(version: int) -> str:
    """13020 as people write it: 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


class Nvml:
    """NVML, or what has its names."""

    name = "NVML"
    queries: tuple[Query, ...] = QUERIES
    rated = RATED
    versions = VERSIONS
    untold: Mapping[str, str] = MappingProxyType({})
    files: tuple[str, ...] = ("/dev/nvidia",)

    def __init__(self, library: Any) -> None:
        self.library = library

    def open(self) -> None:
        """Connect."""
        self.library.nvmlInit()

    def close(self) -> None:
        """Give everything back."""
        self.library.nvmlShutdown()

    def count(self) -> int:
        """How many GPUs there are."""
        return int(self.library.nvmlDeviceGetCount())

    def handle(self, index: int) -> Any:
        """GPU ``index``."""
        return self.library.nvmlDeviceGetHandleByIndex(index)

    def uuid(self, handle: Any) -> str:
        """``GPU-…``."""
        return text(self.library.nvmlDeviceGetUUID(handle))

    def find(self, name: str) -> Found | None:
        """The device that a rank calls ``GPU-…``, ``MIG-…`` or ``cuda:N``; None where that is not sure.

        CUDA gives an instance of a GPU under MIG its own UUID without NVML's ``MIG-`` before it. It counts in an order
        of its own, and only what a process may see: a bare number is sure where there is one GPU alone.
        """
        nvml = self.library
        if name.startswith("cuda"):
            return Found(self.handle(0)) if self.count() == 1 else None
        if name.startswith(GPU):
            handle = self._by_uuid(name)
            if handle is not None:
                return Found(handle)
            name = INSTANCE + name.removeprefix(GPU)
        handle = self._by_uuid(name)
        return None if handle is None else Found(handle, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))

    def _by_uuid(self, uuid: str) -> Any:
        try:
            return self.library.nvmlDeviceGetHandleByUUID(uuid)
        except self.library.NVMLError as error:
            if error.value in (self.library.NVML_ERROR_NOT_FOUND, self.library.NVML_ERROR_INVALID_ARGUMENT):
                return None
            raise

    def remembering(self) -> tuple[Query, ...]:
        """None that everybody asks: GPM and XIDs are the collector's."""
        return ()

    def running(self, handle: Any) -> list[Running]:
        """The processes on a device; a driver older than the binding's call, such as R470, has the one before it."""
        nvml = self.library
        try:
            answered = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLLibraryMismatchError:
            answered = nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
        return [Running(process.pid, whole(process.usedGpuMemory)) for process in answered]

    def process_name(self, pid: int) -> str:
        """The last part of the path that NVML has for a process, or ""."""
        try:
            return text(self.library.nvmlSystemGetProcessName(pid)).rpartition("/")[2]
        except self.errors():
            return ""

    def errors(self) -> tuple[type[Exception], ...]:
        """A driver or binding that lacks a call may raise what is no NVMLError; strings may be none."""
        nvml = self.library
        return (nvml.NVMLError, nvml.NVMLLibraryMismatchError, AttributeError, UnanswerableError, UnicodeDecodeError)

    def reason(self, error: Exception) -> str:
        """Why there is no answer, in a few words."""
        if isinstance(error, AttributeError):
            return "not known to this version of nvidia-ml-py"
        if isinstance(error, UnicodeDecodeError):
            return UNREADABLE
        if isinstance(error, self.library.NVMLLibraryMismatchError):
            return "not known to this driver"
        code = getattr(error, "value", None)
        for name, words in _WORDS.items():
            if code is not None and code == getattr(self.library, name):
                return words
        return f"NVML: {error}" if code is not None else str(error)

    def is_lost(self, error: Exception) -> bool:
        """Whether ``error`` says that the whole device is gone, not only this call."""
        return getattr(error, "value", None) in [getattr(self.library, name) for name in _LOST]

    def is_passing(self, error: Exception) -> bool:
        """Whether the cause may pass by itself within seconds."""
        return getattr(error, "value", None) in [getattr(self.library, name) for name in _PASSING]


def real() -> Any:
    """The module ``pynvml``.

    Raises:
        ModuleNotFoundError: nvidia-ml-py is not installed.
    """
    import pynvml

    return pynvml


def load() -> Nvml:
    """NVML as it is installed, not open yet.

    Raises:
        AbsentError: nvidia-ml-py is not installed.
    """
    try:
        return Nvml(real())
    except ModuleNotFoundError as error:
        raise AbsentError(f"{WITHOUT_BINDING}; {install('collectors')}") from error
