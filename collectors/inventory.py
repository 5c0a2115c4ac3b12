"""The node's hardware inventory: what it has, as rated, not what it does.

Rule of this file: a part that does not tell is None with a reason.
"""

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from paceline.events import DeviceDescribed
from paceline.gpu.driver import errors, reason
from paceline.gpu.readings import Value, scaled, whole

from .device import Device
from .gpu import Gpus


def describe(gpus: Gpus, time_s: float, proc: Path = Path("/proc")) -> dict[str, Any]:
    """The inventory of this node, with the GPUs that are open now: NodeDescribed's fields but the producer's."""
    why = gpus.missing if gpus.absent is None else {"devices": gpus.absent}
    ask = _Asker(gpus.nvml, why)
    return describe_host(time_s, why, proc) | {
        "driver": ask.text("driver", lambda nvml: nvml.nvmlSystemGetDriverVersion()),
        "cuda": ask.text("cuda", lambda nvml: _cuda(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        "devices": [_device(ask, device) for device in gpus.devices],
    }


def describe_host(time_s: float, why: dict[str, str], proc: Path = Path("/proc")) -> dict[str, Any]:
    """The inventory without GPUs; ``why`` says what is not measured, and is added to."""
    cpu_model = _cpu_model(proc / "cpuinfo")
    if cpu_model is None:
        why["cpu_model"] = "/proc/cpuinfo does not name it"
    return {
        "time_s": time_s,
        "cpu_model": cpu_model,
        "cpu_count": os.cpu_count() or 1,
        "memory_total_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "not_measured": why,
    }


class _Asker:
    """Asks NVML and notes why there is no answer."""

    def __init__(self, nvml: Any, why: dict[str, str]) -> None:
        self._nvml = nvml
        self._why = why

    def _ask(self, name: str, call: Callable[[Any], Any]) -> Any:
        if self._nvml is None:
            return None
        try:
            return call(self._nvml)
        except errors(self._nvml) as error:
            self._why[name] = reason(self._nvml, error)
            return None

    def text(self, name: str, call: Callable[[Any], Any]) -> str | None:
        answer = self._ask(name, call)
        return None if answer is None else str(answer)

    def count(self, name: str, call: Callable[[Any], Any]) -> int | None:
        return whole(self._ask(name, call))

    def measure(self, name: str, call: Callable[[Any], Any], factor: float) -> float | None:
        return scaled(self._ask(name, call), factor)

    def yes(self, name: str, call: Callable[[Any], Any]) -> bool | None:
        answer: Value = self._ask(name, call)
        return None if answer is None else bool(answer)


def _device(ask: _Asker, device: Device) -> DeviceDescribed:
    handle, at = device.handle, f"[{device.index}]"
    return DeviceDescribed(
        index=device.index,
        uuid=device.uuid,
        name=ask.text(f"name{at}", lambda nvml: nvml.nvmlDeviceGetName(handle)) or "unknown GPU",
        pci_bus_id=ask.text(f"pci_bus_id{at}", lambda nvml: nvml.nvmlDeviceGetPciInfo(handle).busId),
        memory_total_bytes=ask.count(
            f"memory_total_bytes{at}", lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle).total
        ),
        power_limit_w=ask.measure(
            f"power_limit_w{at}", lambda nvml: nvml.nvmlDeviceGetEnforcedPowerLimit(handle), 1e-3
        ),
        pcie_generation_max=ask.count(
            f"pcie_generation_max{at}", lambda nvml: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
        ),
        pcie_width_max=ask.count(f"pcie_width_max{at}", lambda nvml: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        sm_clock_max_mhz=ask.count(
            f"sm_clock_max_mhz{at}", lambda nvml: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        ),
        mig=ask.yes(f"mig{at}", lambda nvml: nvml.nvmlDeviceGetMigMode(handle)[0]),
    )


def _cuda(version: int) -> str:
    """13020 as people write it: 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _cpu_model(path: Path) -> str | None:
    """The first ``model name`` of /proc/cpuinfo; Arm kernels do not write one."""
    try:
        with path.open(errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        return None
    return None
