"""The GPUs of this node: finds the driver and the devices, keeps looking where there are none, and samples them.

Rule of this file: a node without GPUs, without a driver or with lost devices is a normal node. Time is an argument.
"""

import logging
from typing import Any

from paceline.gpu.driver import Driver, Load, opened
from paceline.gpu.nvml import UNREADABLE
from paceline.gpu.sample_rows import Row

from .device import Device
from .mig import MigInstance, instances
from .pcie import Throughput

log = logging.getLogger("paceline.collect.gpu")
#: Seconds until a driver that is absent or has no device, or whose devices are all lost, is looked for again.
RECONNECT_S = 60.0


class Gpus:
    """The node's devices, in the driver's order, and behind them the instances of those under MIG.

    ``loads`` give the drivers to try: the first that has a GPU is measured by, else the first that opens.
    """

    def __init__(self, *loads: Load) -> None:
        self.driver: Driver | None = None
        self.devices: list[Device | MigInstance] = []
        #: Why there are no devices at all, or None where a driver answers.
        self.absent: str | None = "not looked for yet"
        self._loads = loads
        self._missing: dict[int, str] = {}
        self._unnamed: set[int] = set()
        self._throughput: Throughput | None = None
        self._look_again_s = float("-inf")
        self._lost: dict[str, str | None] = {}
        self._beside: set[str] = set()
        #: The driver chosen last and how many GPUs it counted, as logged.
        self._counted: tuple[str, int] | None = None

    def look(self, now_s: float) -> bool:
        """Find driver and devices that are not there yet, when it is time; return whether that changed anything."""
        if now_s < self._look_again_s:
            return False
        self._look_again_s = now_s + RECONNECT_S
        if self.driver is None or all(device.lost is not None for device in self.devices):
            return self._look_again()
        changed = [self._open(self.driver, index) for index in list(self._missing)]
        return self._part(self.driver) or any(changed)

    def _look_again(self) -> bool:
        reported, before, missing = self.absent, self.uuids, self._missing
        self._disconnect()
        self._missing = missing
        self.absent = self._connect()
        if self.absent is not None and self.absent != reported:
            log.warning("GPUs not measured: %s; the host is measured all the same", self.absent)
        return reported != self.absent or before != self.uuids

    def _connect(self) -> str | None:
        """Choose a driver and open its devices; return why there is none."""
        drivers, why = opened(self._loads)
        counted: list[tuple[Driver, int]] = []
        for driver in drivers:
            try:
                counted.append((driver, driver.count()))
            except driver.errors() as error:
                why.append(driver.reason(error))
                _close(driver)
        if not counted:
            self._counted = None
            return "; ".join(why)
        # The first that has a GPU; the sort is stable.
        counted.sort(key=lambda one: one[1] == 0)
        (driver, count), others = counted[0], counted[1:]
        for other, seen in others:
            if seen and other.name not in self._beside:
                self._beside.add(other.name)
                log.warning("GPUs are measured by %s; those of %s beside them are not", driver.name, other.name)
            _close(other)
        if self._counted != (driver.name, count):
            self._counted = driver.name, count
            log.info("%d GPUs, measured by %s", count, driver.name)
        self.driver, self._throughput = driver, Throughput(driver)
        self._missing = {index: why for index, why in self._missing.items() if index < count}
        for index in range(count):
            self._open(driver, index)
        self._part(driver)
        return None

    def _open(self, driver: Driver, index: int) -> bool:
        """Open device ``index``; note why that fails."""
        assert self._throughput is not None
        try:
            handle = driver.handle(index)
            uuid = self._uuid(driver, index, handle)
        except driver.errors() as error:
            why = driver.reason(error)
            if self._missing.get(index) != why:
                log.warning("GPU %d not measured: %s", index, why)
            self._missing[index] = why
            return False
        self._missing.pop(index, None)
        self.devices.append(Device(driver, index, handle, uuid, self._throughput))
        self.devices.sort(key=lambda device: device.index)
        return True

    def _uuid(self, driver: Driver, index: int, handle: Any) -> str:
        """The name of a GPU; by its number where the driver's text cannot be read."""
        self._unnamed.discard(index)
        try:
            return driver.uuid(handle)
        except UnicodeDecodeError:
            self._unnamed.add(index)
            return f"GPU-{index}"

    def _part(self, driver: Driver) -> bool:
        """Look at the instances of GPUs under MIG, which come and go; return whether they are others than before."""
        gpus = [device for device in self.devices if isinstance(device, Device)]
        before = [device.uuid for device in self.devices if isinstance(device, MigInstance)]
        first = max([*(gpu.index for gpu in gpus), *self._missing], default=-1) + 1
        found = instances(driver, gpus, first)
        # The handle of one that was destroyed is invalid, though another in its place has the same UUID.
        self.devices = [*gpus, *found]
        return before != [one.uuid for one in found]

    @property
    def uuids(self) -> list[str]:
        """The devices that rows speak of."""
        return [device.uuid for device in self.devices]

    @property
    def missing(self) -> dict[str, str]:
        """The devices that the driver counts but does not open, and why."""
        unnamed = {f"uuid[{index}]": UNREADABLE for index in sorted(self._unnamed)}
        return {f"device[{index}]": why for index, why in self._missing.items()} | unnamed

    def sample(self, now_s: float) -> list[tuple[str, Row]]:
        """A row for every device, with its UUID."""
        rows = [(device.uuid, device.sample(now_s)) for device in self.devices]
        for device in self.devices:
            if self._lost.get(device.uuid) != device.lost:
                said = f"lost: {device.lost}" if device.lost else "is back"
                log.warning("GPU %d (%s) %s", device.index, device.uuid, said)
                self._lost[device.uuid] = device.lost
        return rows

    def not_measured(self) -> dict[str, str]:
        """Why, by column; ``column[N]`` where it holds for GPU N alone, ``device[N]`` for one that does not open."""
        why_not = self.missing
        reasons = [device.reasons() for device in self.devices]
        for column in {column for each in reasons for column in each}:
            said = [each.get(column) for each in reasons]
            if len(set(said)) == 1 and said[0] is not None:
                why_not[column] = said[0]
                continue
            for device, why in zip(self.devices, said, strict=True):
                if why is not None:
                    why_not[f"{column}[{device.index}]"] = why
        return dict(sorted(why_not.items()))

    def _disconnect(self) -> None:
        if self._throughput is not None:
            self._throughput.close()
        for device in self.devices:
            device.close()
        if self.driver is not None:
            _close(self.driver)
        self.driver, self.devices, self._missing, self._throughput = None, [], {}, None

    def close(self) -> None:
        """Give everything back to the driver."""
        self._disconnect()


def _close(driver: Driver) -> None:
    try:
        driver.close()
    except driver.errors() as error:
        if not driver.is_lost(error):
            log.warning("%s does not shut down: %s", driver.name, driver.reason(error))
