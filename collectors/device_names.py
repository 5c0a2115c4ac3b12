"""What Kubernetes may call a device of this node, beside the UUID that rows and messages have.

Rule of this file: pure. What is not told is None, and then the device is not found by that name.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paceline.events import DeviceDescribed


class DeviceName(NamedTuple):
    """One device. ``number`` is its index, ``minor`` that of its file, /dev/nvidiaN; ``gpu_instance`` and
    ``compute_instance`` are the driver's numbers of an instance under MIG within ``parent``."""

    uuid: str
    number: int
    pci_bus_id: str | None = None
    parent: str | None = None
    profile: str | None = None
    minor: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class Holders(NamedTuple):
    """What the pods that hold devices are found by: the devices' names, which processes are there now, and (device, UID
    of the pod) of those that are in one."""

    names: Sequence[DeviceName] = ()
    processes: frozenset[tuple[str, int, str]] = frozenset()
    uids: tuple[tuple[str, str], ...] = ()


def of_inventory(described: Sequence[DeviceDescribed]) -> list[DeviceName]:
    """The names that an inventory tells by itself.

    >>> [name.pci_bus_id for name in of_inventory([DeviceDescribed(index=0, uuid="GPU-a", name="x", pci_bus_id="y")])]
    ['y']
    """
    return [DeviceName(one.uuid, one.index, one.pci_bus_id, one.parent, one.profile) for one in described]
