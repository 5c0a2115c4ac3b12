"""The GPUs of this node: finds the driver and the devices, keeps looking where there are none, and samples them.

Rule of this file: a node without GPUs, without a driver or with lost devices is a normal node. Time is an argument.
"""

import logging
from collections.abc import Callable
from typing import Any

from paceline.gpu.driver import errors, is_lost, reason
from paceline.gpu.sample_rows import Row

from .device import Device
from .pcie import Throughput

log = logging.getLogger("paceline.collect.gpu")
#: Seconds until a driver that is absent, or whose devices are all lost, is looked for again.
RECONNECT_S = 60.0
WITHOUT_BINDING = "nvidia-ml-py is not installed; pip install 'paceline[collectors]'"


class Gpus:
    """The node's devices, in NVML's order. ``load`` gives the NVML-like object."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self.nvml: Any = None
        self.devices: list[Device] = []
        #: Why there are no devices at all, or None where NVML answers.
        self.absent: str | None = "not looked for yet"
        self._load = load
        self._missing: dict[int, str] = {}
        self._throughput: Throughput | None = None
        self._look_again_s = float("-inf")
        self._lost: dict[str, str | None] = {}

    def look(self, now_s: float) -> bool:
        """Find driver and devices that are not there yet, when it is time; return whether that changed anything."""
        if now_s < self._look_again_s:
            return False
        self._look_again_s = now_s + RECONNECT_S
        if self.nvml is None or (self.devices and all(device.lost is not None for device in self.devices)):
            return self._look_again()
        opened = [self._open(index) for index in list(self._missing)]
        return any(opened)

    def _look_again(self) -> bool:
        told, before, missing = self.absent, self.uuids, self._missing
        self._disconnect()
        self._missing = missing
        self.absent = self._connect()
        if self.absent is not None and self.absent != told:
            log.warning("GPUs not measured: %s; the host is measured all the same", self.absent)
        return self.absent is None and (told is not None or before != self.uuids)

    def _connect(self) -> str | None:
        """Open NVML and its devices; return why that failed."""
        try:
            nvml = self._load()
        except ModuleNotFoundError:
            return WITHOUT_BINDING
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            return reason(nvml, error)
        self.nvml, self._throughput = nvml, Throughput(nvml)
        try:
            count = nvml.nvmlDeviceGetCount()
        except errors(nvml) as error:
            self._disconnect()
            return reason(nvml, error)
        self._missing = {index: why for index, why in self._missing.items() if index < count}
        for index in range(count):
            self._open(index)
        return None

    def _open(self, index: int) -> bool:
        """Open device ``index``; note why that fails."""
        assert self._throughput is not None
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = self.nvml.nvmlDeviceGetUUID(handle)
        except errors(self.nvml) as error:
            why = reason(self.nvml, error)
            if self._missing.get(index) != why:
                log.warning("GPU %d not measured: %s", index, why)
            self._missing[index] = why
            return False
        self._missing.pop(index, None)
        self.devices.append(Device(self.nvml, index, handle, uuid, self._throughput, bool(self._mig(handle))))
        self.devices.sort(key=lambda device: device.index)
        return True

    def _mig(self, handle: Any) -> bool | None:
        try:
            return bool(self.nvml.nvmlDeviceGetMigMode(handle)[0])
        except errors(self.nvml):
            return None

    @property
    def uuids(self) -> list[str]:
        """The devices that rows speak of."""
        return [device.uuid for device in self.devices]

    @property
    def missing(self) -> dict[str, str]:
        """The devices that NVML counts but does not open, and why."""
        return {f"device[{index}]": why for index, why in self._missing.items()}

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
        if self.nvml is not None:
            try:
                self.nvml.nvmlShutdown()
            except self.nvml.NVMLError as error:
                if not is_lost(self.nvml, error):
                    log.warning("NVML does not shut down: %s", reason(self.nvml, error))
        self.nvml, self.devices, self._missing, self._throughput = None, [], {}, None

    def close(self) -> None:
        """Give everything back to the driver."""
        self._disconnect()
