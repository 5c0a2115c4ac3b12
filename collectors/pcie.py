"""PCIe throughput where only the call that blocks 20 ms a direction exists, kept off the sampling thread.

Rule of this file: one thread for all devices of the node; the sampler takes what was measured last and never waits.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.gpu.driver import Driver
from paceline.gpu.readings import Value, scaled
from paceline.gpu.refusals import Refusals
from paceline.supervised import SupervisedThread

#: Seconds between two readings of a device, and how old one may be and still be a row's value.
EVERY_S = 1.0
OLDEST_S = 3.0
_QUESTION = "throughput"


class _Reading:
    """What is known of one device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.refusals = Refusals()
        self.at_s = float("-inf")
        self.values: tuple[Value, ...] = (None, None)


class Throughput:
    """Reads the throughput of the devices asked about, until closed."""

    def __init__(self, driver: Driver, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._readings: dict[int, _Reading] = {}
        self._stop = threading.Event()
        self._thread = SupervisedThread("the reading of PCIe throughput", self._run, self._stop)

    def latest(self, index: int, device: Any) -> tuple[tuple[Value, ...], str | None]:
        """The last (received, sent) bytes/s of device ``index``, and why they are missing where they are refused."""
        if index not in self._readings:
            self._readings[index] = _Reading(device)
        self._thread.start()
        reading = self._readings[index]
        fresh = self._clock() - reading.at_s <= OLDEST_S
        missing = reading.refusals.reason(_QUESTION) or self._thread.failure or None
        return reading.values if fresh else (None, None), missing

    def _run(self) -> None:
        while not self._stop.is_set():
            for reading in list(self._readings.values()):
                self._read(reading)
            self._thread.well()
            self._stop.wait(EVERY_S)

    def _read(self, reading: _Reading) -> None:
        if not reading.refusals.due(_QUESTION, self._clock()):
            return
        nvml = self._driver.library
        kinds = (nvml.NVML_PCIE_UTIL_RX_BYTES, nvml.NVML_PCIE_UTIL_TX_BYTES)
        try:
            values = tuple(scaled(nvml.nvmlDeviceGetPcieThroughput(reading.device, kind), 1e3) for kind in kinds)
        except self._driver.errors() as error:
            passing = self._driver.is_passing(error)
            reading.refusals.refused(_QUESTION, self._driver.reason(error), self._clock(), passing=passing)
            return
        reading.values, reading.at_s = values, self._clock()
        reading.refusals.answered(_QUESTION)

    def close(self) -> None:
        """Stop reading."""
        self._thread.stop(1.0)
