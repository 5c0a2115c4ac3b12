"""AMD's library: its errors in words, its devices, and how a rank's name leads to one of them.

Rule of this file: the only place that imports ``amdsmi``, and only when it is asked to. The package loads ROCm's
libamd_smi.so as it is imported; without one it fails and writes to standard output, where a recording may go, so the
library is looked for first.
"""

import importlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from paceline.gpu import amd_queries
from paceline.gpu.amd_queries import Throttling, clock_mhz, counted, generation, number
from paceline.gpu.driver import AbsentError, Found, Rated, Running, Versions
from paceline.gpu.queries import Query, UnanswerableError
from paceline.gpu.readings import whole
from paceline.gpu.uuids import canonical, of_serial

_WORDS = {
    "AMDSMI_STATUS_NOT_SUPPORTED": "not supported by this GPU",
    "AMDSMI_STATUS_NOT_YET_IMPLEMENTED": "not supported by this GPU",
    "AMDSMI_STATUS_NO_PERM": "no permission",
    "AMDSMI_STATUS_FILE_NOT_FOUND": "not reported by this GPU's driver",
    "AMDSMI_STATUS_DRIVER_NOT_LOADED": "AMD driver (amdgpu) not loaded",
    "AMDSMI_STATUS_NOT_FOUND": "GPU is lost",
    "AMDSMI_STATUS_NOT_INIT": "AMD SMI is not initialised",
}
_LOST = ("AMDSMI_STATUS_NOT_FOUND", "AMDSMI_STATUS_NOT_INIT", "AMDSMI_STATUS_DRIVER_NOT_LOADED")
_PASSING = tuple(
    f"AMDSMI_STATUS_{name}" for name in ("RETRY", "TIMEOUT", "BUSY", "INTERRUPT", "OUT_OF_RESOURCES", "NO_DATA", "IO")
)
_NO_ANSWER = "N/A"
_LIBRARY = "libamd_smi.so"
_USUAL = (Path("/opt/rocm/lib"),)
#: What the loader knows of, by name.
_LOADER = Path("/etc/ld.so.cache")


def _text(answer: Any) -> str | None:
    return answer if isinstance(answer, str) and answer not in ("", _NO_ANSWER) else None


def _name(amdsmi: Any, device: Any) -> str | None:
    return _text(amdsmi.amdsmi_get_gpu_asic_info(device).get("market_name"))


def _most_sm_clock(amdsmi: Any, device: Any) -> int | None:
    clock = clock_mhz(amdsmi, device, "GFX", "max_clk")
    return None if clock is None else whole(int(clock))


#: What a device is rated at: the fields of DeviceDescribed.
RATED: Rated = {
    "name": _name,
    "pci_bus_id": lambda amdsmi, device: _text(amdsmi.amdsmi_get_gpu_device_bdf(device)),
    "memory_total_bytes": amd_queries.memory_total,
    "power_limit_w": amd_queries.power_limit_w,
    "pcie_generation_max": lambda amdsmi, device: generation(
        number(amdsmi.amdsmi_get_pcie_info(device)["pcie_static"]["max_pcie_speed"])
    ),
    "pcie_width_max": lambda amdsmi, device: counted(
        number(amdsmi.amdsmi_get_pcie_info(device)["pcie_static"]["max_pcie_width"])
    ),
    "sm_clock_max_mhz": _most_sm_clock,
}


def _driver_version(amdsmi: Any) -> str | None:
    devices = amdsmi.amdsmi_get_processor_handles()
    told = _text(amdsmi.amdsmi_get_gpu_driver_info(devices[0]).get("driver_version")) if devices else None
    return None if told is None else f"amdgpu {told}"


#: What a GPU may be called by, the surest first: HIP's name, the chip's serial number, AMD SMI's own.
_NAMES: tuple[Callable[[Any, Any], str | None], ...] = (
    lambda amdsmi, device: canonical(str(amdsmi.amdsmi_get_gpu_enumeration_info(device)["hip_uuid"])),
    lambda amdsmi, device: of_serial(str(amdsmi.amdsmi_get_gpu_asic_info(device)["asic_serial"])),
    lambda amdsmi, device: canonical(f"GPU-{amdsmi.amdsmi_get_gpu_device_uuid(device)}"),
)
VERSIONS: Versions = {"driver": _driver_version}


class AmdSmi:
    """AMD SMI, or what has the names of ``amdsmi``."""

    name = "AMD SMI"
    queries: tuple[Query, ...] = amd_queries.QUERIES
    rated = RATED
    versions = VERSIONS
    untold: Mapping[str, str] = MappingProxyType(amd_queries.UNTOLD)
    #: Computing goes by the one, and every card has one of the other.
    files: tuple[str, ...] = ("/dev/kfd", "/dev/dri/render")

    def __init__(self, library: Any) -> None:
        self.library = library
        self._handles: list[Any] = []
        #: For every GPU: the name that is told, and all that it may be called by.
        self._names: list[str] = []
        self._ids: list[set[str]] = []

    def open(self) -> None:
        """Connect, and learn what the GPUs are called."""
        self.library.amdsmi_init()
        try:
            self._handles = list(self.library.amdsmi_get_processor_handles())
        except self.errors():
            self.library.amdsmi_shut_down()
            raise
        self._ids = [set(self._called(handle)) for handle in self._handles]
        best = [next(iter(self._called(handle)), f"AMD-{index}") for index, handle in enumerate(self._handles)]
        # The parts of a partitioned GPU share its serial number: their places on the bus tell them apart.
        shared = Counter(best)
        places = [name if shared[name] == 1 else self._place(handle) or name for name, handle in self._pairs(best)]
        self._names = places

    def _pairs(self, names: list[str]) -> Iterator[tuple[str, Any]]:
        return zip(names, self._handles, strict=True)

    def _called(self, handle: Any) -> Iterator[str]:
        """What a GPU may be called by, the surest first."""
        for ask in _NAMES:
            try:
                name = ask(self.library, handle)
            except self.errors():
                continue
            if name:
                yield name

    def _place(self, handle: Any) -> str | None:
        try:
            told = _text(self.library.amdsmi_get_gpu_device_bdf(handle))
        except self.errors():
            return None
        return None if told is None else f"GPU-{told}"

    def close(self) -> None:
        """Give everything back."""
        self.library.amdsmi_shut_down()

    def count(self) -> int:
        """How many GPUs there are."""
        return len(self._handles)

    def handle(self, index: int) -> Any:
        """GPU ``index``."""
        return self._handles[index]

    def uuid(self, handle: Any) -> str:
        """``GPU-`` and the 16 digits by which ROCm knows it, as rocminfo shows them."""
        return self._names[next(at for at, one in enumerate(self._handles) if one is handle)]

    def find(self, name: str) -> Found | None:
        """The GPU that a rank calls ``GPU-…`` or ``cuda:N``; None where that is not sure.

        ROCm counts only what a process may see, in an order that is not AMD SMI's: a bare number is sure where there is
        one GPU alone, and a name where one GPU has it: the parts of a partitioned one share theirs.
        """
        wanted = None if name.startswith("cuda") else canonical(name)
        if wanted is None:
            return Found(self._handles[0]) if len(self._handles) == 1 else None
        found = [at for at, ids in enumerate(self._ids) if wanted in ids or wanted == self._names[at]]
        return Found(self._handles[found[0]]) if len(found) == 1 else None

    def remembering(self) -> tuple[Query, ...]:
        """Why the clock is held down, by counters that grow."""
        return (Query(Throttling.COLUMNS, (Throttling().ask,)),)

    def running(self, handle: Any) -> list[Running]:
        """The processes on a device, with the memory of the card that each has."""
        found = []
        for process in self.library.amdsmi_get_gpu_process_list(handle):
            pid = counted(process["pid"])
            if pid:
                used = counted(process["memory_usage"]["vram_mem"])
                found.append(Running(pid, used, (_text(process["name"]) or "").rpartition("/")[2]))
        return found

    def process_name(self, pid: int) -> str:
        """Names come with the processes."""
        return ""

    def errors(self) -> tuple[type[Exception], ...]:
        """A library that lacks a call raises AttributeError, one that answers in another form KeyError or TypeError."""
        return (self.library.AmdSmiException, AttributeError, KeyError, TypeError, UnanswerableError)

    def reason(self, error: Exception) -> str:
        """Why there is no answer, in a few words."""
        if isinstance(error, AttributeError | KeyError | TypeError):
            return "not known to this version of AMD SMI"
        code = getattr(error, "err_code", None)
        if code is None:
            return " ".join(str(error).split())
        for name, words in _WORDS.items():
            if code == self._status(name):
                return words
        return f"AMD SMI: {' '.join(str(getattr(error, 'err_info', error)).split())}"

    def _status(self, name: str) -> Any:
        return getattr(self.library.amdsmi_wrapper, name, None)

    def is_lost(self, error: Exception) -> bool:
        """Whether ``error`` says that the whole device is gone, not only this call."""
        return self._is_one_of(error, _LOST)

    def is_passing(self, error: Exception) -> bool:
        """Whether the cause may pass by itself within seconds."""
        return self._is_one_of(error, _PASSING)

    def _is_one_of(self, error: Exception, names: tuple[str, ...]) -> bool:
        code = getattr(error, "err_code", None)
        return code is not None and code in [self._status(name) for name in names]


def load() -> AmdSmi:
    """AMD SMI as it is installed, not open yet.

    Raises:
        AbsentError: the Python package or ROCm's library is not there, or they do not fit each other.
    """
    spec = importlib.util.find_spec("amdsmi")
    if spec is None:
        raise AbsentError("no AMD SMI (the Python package amdsmi is not installed)")
    if not _library_is_there(Path(spec.origin).parent if spec.origin else None):
        raise AbsentError("no AMD SMI (ROCm's libamd_smi.so not found)")
    try:
        return AmdSmi(importlib.import_module("amdsmi"))
    except (ImportError, KeyError, OSError, AttributeError) as error:
        raise AbsentError(f"AMD SMI does not load: {' '.join(str(error).split())[:200]}") from error


def _library_is_there(package: Path | None) -> bool:
    """Whether the package can find its library: where ROCm is, beside itself, or where the loader looks.

    Nothing is loaded for this: a second copy of the library, beside the one that the package takes, would break both.
    """
    rocm = os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH")
    folders = [Path(rocm) / "lib"] if rocm else []
    folders += [package] if package else []
    folders += [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    if any(any(folder.glob(f"{_LIBRARY}*")) for folder in (*folders, *_USUAL)):
        return True
    try:
        return _LIBRARY.encode() in _LOADER.read_bytes()
    except OSError:
        return False
