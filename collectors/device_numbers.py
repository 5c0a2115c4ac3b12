"""The numbers by which Kubernetes knows a device, and only its driver tells: asked once for an inventory.

Rule of this file: a number that is not told is None, never an error.
"""

from collections.abc import Sequence

from paceline.events import DeviceDescribed
from paceline.gpu.driver import Driver

from .device import Device
from .device_names import DeviceName, of_inventory
from .mig import MigInstance


def numbered(
    driver: Driver, devices: Sequence[Device | MigInstance], described: Sequence[DeviceDescribed]
) -> list[DeviceName]:
    """The names of ``devices``, which the inventory has ``described``, with their numbers."""
    handles = {device.uuid: device.handle for device in devices}
    return [_numbered(driver, handles[name.uuid], name) for name in of_inventory(described) if name.uuid in handles]


def _numbered(driver: Driver, handle: object, name: DeviceName) -> DeviceName:
    if name.parent is None:
        return name._replace(minor=_number(driver, "nvmlDeviceGetMinorNumber", handle))
    return name._replace(
        gpu_instance=_number(driver, "nvmlDeviceGetGpuInstanceId", handle),
        compute_instance=_number(driver, "nvmlDeviceGetComputeInstanceId", handle),
    )


def _number(driver: Driver, call: str, handle: object) -> int | None:
    """The answer; None where the driver, or another maker's, has none."""
    try:
        return int(getattr(driver.library, call)(handle))
    except driver.errors():
        return None
