"""A buffer that adds to another's inventory what is found out beside the sampling: sent again when that changes.

Rule of this file: what finds out runs in a thread of its own and is the only part that waits; no sample and no message
waits for it. All else hands over what was found last.
"""

import threading
import time
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from paceline.events import DeviceSamples

from .buffers import DeviceBuffer
from .device_names import Holders

Found = TypeVar("Found")


class AddingBuffer(ABC, Generic[Found]):
    """``devices``, and what ``look`` finds; ``found`` until it has looked."""

    def __init__(self, devices: DeviceBuffer, found: Found) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._found = self._sent = found
        self._inventory: dict[str, Any] | None = None

    @abstractmethod
    def look(self) -> None:
        """Find out, if it is time; what is new goes to ``_find``."""

    @abstractmethod
    def _fields(self, found: Found) -> tuple[dict[str, Any], dict[str, str]]:
        """The inventory's fields for ``found``, and why some are not measured."""

    def _find(self, found: Found) -> None:
        with self._lock:
            self._found = found

    def inventory(self) -> dict[str, Any] | None:
        """The inventory with what was found, where either is to be sent: what was found when it changes."""
        fresh = self._devices.inventory()
        with self._lock:
            found = self._found
        if fresh is None and found != self._sent and self._inventory is not None:
            fresh = self._inventory | {"time_s": time.time()}
        if fresh is None:
            return None
        self._sent, self._inventory = found, fresh
        fields, not_measured = self._fields(found)
        return fresh | fields | {"not_measured": fresh["not_measured"] | not_measured}

    def sample(self) -> None:
        """Add a row a device."""
        self._devices.sample()

    def cut(self, **producer: Any) -> DeviceSamples | None:
        """The event of the rows since the last cut; None without any."""
        return self._devices.cut(**producer)

    def holders(self) -> Holders:
        """What the pods that hold the devices are found by."""
        return self._devices.holders()

    def close(self) -> None:
        """Give everything back."""
        self._devices.close()
