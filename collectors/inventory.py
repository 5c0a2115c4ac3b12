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
from paceline.gpu.driver import Driver
from paceline.gpu.limits import possible

from . import mig
from .cpu_model import cpu_model
from .device import Device
from .gpu import Gpus
from .mig import MigInstance


def describe(gpus: Gpus, time_s: float, proc: Path = Path("/proc")) -> dict[str, Any]:
    """The inventory of this node, with the GPUs that are open now: NodeDescribed's fields but the producer's."""
    why = gpus.missing if gpus.absent is None else {"devices": gpus.absent}
    told = describe_host(time_s, why, proc)
    driver = gpus.driver
    if driver is None:
        return told | {"devices": []}
    versions = {name: _ask(driver, call, name, why) for name, call in driver.versions.items()}
    return told | versions | {"devices": [_device(driver, device, why) for device in gpus.devices]}


def describe_host(time_s: float, why: dict[str, str], proc: Path = Path("/proc")) -> dict[str, Any]:
    """The inventory without GPUs; ``why`` says what is not measured, and is added to."""
    model = cpu_model(proc / "cpuinfo")
    if model is None:
        why["cpu_model"] = "/proc/cpuinfo does not name it"
    return {
        "time_s": time_s,
        "cpu_model": model,
        "cpu_count": os.cpu_count() or 1,
        "memory_total_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "not_measured": why,
    }


def _ask(driver: Driver, call: Callable[..., Any], name: str, why: dict[str, str], *handle: Any) -> Any:
    """The answer; None with the reason noted in ``why`` where there is none."""
    try:
        told = call(driver.library, *handle)
        if isinstance(told, bool | str) or possible(name.partition("[")[0], told):
            return told
        why[name] = f"the driver gives {told:g}, which cannot be"
        return None
    except driver.errors() as error:
        why[name] = driver.reason(error)
        return None


def _device(driver: Driver, device: Device | MigInstance, why: dict[str, str]) -> DeviceDescribed:
    rated = driver.rated if isinstance(device, Device) else mig.RATED
    told = {name: _ask(driver, call, f"{name}[{device.index}]", why, device.handle) for name, call in rated.items()}
    name = told.pop("name", None) or "unknown GPU"
    return DeviceDescribed(index=device.index, uuid=device.uuid, name=name, parent=device.parent, **told)
