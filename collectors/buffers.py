"""Where sampling and publishing meet: a buffer is filled by its sampling thread and emptied by the publishing one.

Rule of this file: only sampling threads talk to drivers; a lock is held to hand rows over, never while measuring.
"""

import threading
import time
from typing import Any, Protocol

from paceline.events import DeviceProcess, DeviceSamples, HostSamples
from paceline.gpu.sample_rows import device_samples

from .device_names import DeviceName, Holders
from .device_numbers import numbered
from .gpu import Gpus
from .host import Host
from .inventory import describe
from .processes import ProcessOwners, processes
from .row_batch import RowBatch, host_samples

#: Seconds between two looks at which process uses which GPU.
PROCESSES_S = 5.0
#: Seconds after which the inventory is said again, so that a broker that has lost it learns it again.
INVENTORY_S = 600.0


class HostBuffer:
    """The host's rows."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._batch = RowBatch()

    def sample(self) -> None:
        """Add a row."""
        row = self._host.sample(time.monotonic())
        with self._lock:
            self._batch.append(time.time(), [("", row)])

    def cut(self, **producer: Any) -> HostSamples | None:
        """The event of the rows since the last cut, or None without any."""
        with self._lock:
            rows = self._batch.drain()
        if not rows:
            return None
        return host_samples(rows, self._host.network_errors(), self._host.not_measured(), **producer)


class DeviceBuffer(Protocol):
    """Where GPU samples come from: a driver, or an exporter."""

    def sample(self) -> None:
        """Add a row a device, if it is time."""

    def cut(self, **producer: Any) -> DeviceSamples | None:
        """The event of the rows since the last cut; None without any."""

    def inventory(self) -> dict[str, Any] | None:
        """The inventory, where there is one to say."""

    def holders(self) -> Holders:
        """What the pods that hold the devices are found by."""

    def close(self) -> None:
        """Give everything back."""


class GpuBuffer:
    """The devices' rows, processes and inventory."""

    def __init__(self, gpus: Gpus, owners: ProcessOwners) -> None:
        self._gpus = gpus
        self._owners = owners
        self._lock = threading.Lock()
        self._batch = RowBatch()
        self._about: dict[str, Any] = {}
        #: Whether GPUs were looked for since the last cut, and only such as do not open were there.
        self._silent = False
        self._inventory: dict[str, Any] | None = None
        self._processes_due_s = self._inventory_due_s = float("-inf")
        self._processes: tuple[list[DeviceProcess], dict[str, str]] = ([], {})
        self._names: list[DeviceName] = []
        self._holders = Holders()

    def sample(self) -> None:
        """Add a row a device; look at processes and inventory when that is due."""
        now_s = time.monotonic()
        if self._gpus.look(now_s):
            self._processes_due_s = self._inventory_due_s = float("-inf")
        at_s, rows = time.time(), self._gpus.sample(now_s)
        if now_s >= self._processes_due_s:
            self._processes_due_s = now_s + PROCESSES_S
            self._processes = processes(self._gpus.driver, self._gpus.devices, self._owners)
        running, why = self._processes
        not_measured = self._gpus.not_measured() | why
        about = {"looked_s": at_s, "processes": running, "uuids": self._gpus.uuids, "not_measured": not_measured}
        inventory = None
        if now_s >= self._inventory_due_s:
            self._inventory_due_s = now_s + INVENTORY_S
            inventory = describe(self._gpus, at_s)
            self._names = self._named(inventory)
        holders = self._held(running)
        with self._lock:
            self._holders = holders
            self._batch.append(at_s, rows)
            self._about = about
            self._silent = bool(not rows and self._gpus.missing)
            self._inventory = inventory or self._inventory

    def _named(self, inventory: dict[str, Any]) -> list[DeviceName]:
        driver = self._gpus.driver
        return [] if driver is None else numbered(driver, self._gpus.devices, inventory["devices"])

    def _held(self, running: list[DeviceProcess]) -> Holders:
        uuids = self._gpus.uuids
        on = [(uuids[process.device], process) for process in running]
        seen = frozenset((uuid, process.pid, process.name) for uuid, process in on)
        pods = [(uuid, self._owners.pod(process.pid)) for uuid, process in on]
        return Holders(self._names, seen, tuple((uuid, uid) for uuid, uid in pods if uid is not None))

    def holders(self) -> Holders:
        """What the pods that hold the devices are found by, as of the last look."""
        with self._lock:
            return self._holders

    def cut(self, **producer: Any) -> DeviceSamples | None:
        """The event of the rows since the last cut, or of GPUs of which none opens; None without either."""
        with self._lock:
            rows, about, silent = self._batch.drain(), self._about, self._silent
            self._silent = False
        return device_samples(rows, **about, **producer) if rows or silent else None

    def inventory(self) -> dict[str, Any] | None:
        """The inventory, where there is one to say: the fields of NodeDescribed but the producer's."""
        with self._lock:
            inventory, self._inventory = self._inventory, None
        return inventory

    def close(self) -> None:
        """Give everything back to the driver."""
        self._gpus.close()
