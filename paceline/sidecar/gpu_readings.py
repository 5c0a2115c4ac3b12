"""The GPUs of a node's ranks, as the driver sees them, read by a thread of its own.

Rule of this file: whoever asks never waits. A driver whose GPU has fallen off the bus may hold a call for minutes: then
the last reading grows old and is no longer told. No driver, no binding or no such GPU is None, and looked for again.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paceline.gpu import amd, nvml
from paceline.gpu.answers import Answers
from paceline.gpu.driver import Driver, Found, Load, opened
from paceline.gpu.queries import SELDOM_S, Query
from paceline.gpu.readings import Value
from paceline.gpu.uuids import GPU, INSTANCE
from paceline.supervised import SupervisedThread

#: Seconds between two readings: throttling that comes and goes within a second is to be seen.
EVERY_S = 0.5
#: A reading older than this is of the past.
OLDEST_S = 3.0
#: Seconds until a driver or device that was not there is looked for again.
LOOK_AGAIN_S = 60.0


_WANTED = {"utilization_ratio", "fb_used_bytes", "temperature_celsius", "sm_clock_mhz", "throttle_reasons"}
#: What an instance of a GPU under MIG has of its own; the rest is its GPU's.
_OWN = {"fb_used_bytes"}
#: What is told of a span: the sum of what was seen (a mask), the mean, else the last.
_MEANS = ("utilization_ratio", "sm_clock_mhz")

Reading = dict[str, Value]


def _questions(driver: Driver) -> list[Query]:
    """What is asked of a device: its own, for some keep something between questions."""

    def most_sm_clock(library: object, device: object) -> tuple[Value, ...]:
        most = driver.rated["sm_clock_max_mhz"](library, device)
        return (float(most) if isinstance(most, int | float) else None,)

    wanted = [query for query in (*driver.queries, *driver.remembering()) if query.question in _WANTED]
    return [*wanted, Query(("sm_clock_max_mhz",), (most_sm_clock,), every_s=SELDOM_S)]


class _Asked(NamedTuple):
    """Questions, and who answers them: an instance of a GPU, or the GPU."""

    answers: Answers
    questions: list[Query]


def _asked(driver: Driver, found: Found) -> list[_Asked]:
    questions = _questions(driver)
    if found.whole is None:
        return [_Asked(Answers(driver, found.handle), questions)]
    own = [query for query in questions if query.question in _OWN]
    rest = [query for query in questions if query.question not in _OWN]
    return [_Asked(Answers(driver, found.handle), own), _Asked(Answers(driver, found.whole), rest)]


class _Device:
    """One device: what was read since it was last asked for."""

    def __init__(self) -> None:
        self.asked: list[_Asked] = []
        self.look_s = float("-inf")
        self._readings: list[tuple[float, Reading]] = []
        self._told: list[tuple[float, Reading]] = []
        self._lock = threading.Lock()

    def append(self, at_s: float, reading: Reading) -> None:
        # Two or three; more only while nobody asks.
        with self._lock:
            self._readings = [*self._readings[-20:], (at_s, reading)]

    def drain(self, now_s: float) -> Reading | None:
        with self._lock:
            fresh, self._readings = self._readings, []
        # Nothing new between two hurried samples: the one before is told again.
        self._told = fresh or self._told[-1:]
        readings = [(at_s, reading) for at_s, reading in self._told if now_s - at_s <= OLDEST_S]
        return _merged([reading for _, reading in readings]) if readings else None


def _merged(readings: list[Reading]) -> Reading:
    merged = dict(readings[-1])
    for column in _MEANS:
        seen = [value for reading in readings if (value := reading.get(column)) is not None]
        merged[column] = round(sum(seen) / len(seen), 4) if seen else None
    masks = [int(mask) for reading in readings if (mask := reading.get("throttle_reasons")) is not None]
    merged["throttle_reasons"] = None if not masks else _union(masks)
    return merged


def _union(masks: list[int]) -> int:
    mask = 0
    for one in masks:
        mask |= one
    return mask


class GpuReadings:
    """Reads the devices that are asked for. ``loads`` give the drivers to look for them in, in this order."""

    def __init__(
        self, loads: Sequence[Load] = (nvml.load, amd.load), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._loads = loads
        self._clock = clock
        self._devices: dict[str, _Device] = {}
        self._drivers: list[Driver] = []
        self._look_s = float("-inf")
        self._stop = threading.Event()
        self._thread = SupervisedThread("the reading of GPUs", self._run, self._stop)

    def drain(self, name: str) -> Reading | None:
        """What device ``GPU-…``, ``MIG-…`` or ``cuda:N`` went through since the last time; None where unknown."""
        if not name.startswith((GPU, INSTANCE, "cuda")):
            return None
        device = self._devices.setdefault(name, _Device())
        return device.drain(self._clock())

    def start(self) -> None:
        """Begin to read in the background, once a device has been asked for."""
        if self._devices:
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.read()
            self._thread.well()
            self._stop.wait(EVERY_S)

    def read(self) -> None:
        """One reading of every device."""
        now_s = self._clock()
        if not self._drivers and now_s >= self._look_s:
            self._look_s = now_s + LOOK_AGAIN_S
            self._drivers, _ = opened(self._loads)
        if not self._drivers:
            return
        for name, device in list(self._devices.items()):
            if not device.asked and now_s >= device.look_s:
                device.look_s = now_s + LOOK_AGAIN_S
                device.asked = self._open(name)
            if device.asked:
                self._ask(device, now_s)

    def _open(self, name: str) -> list[_Asked]:
        for driver in self._drivers:
            try:
                # A bare number is sure where it is the only GPU of any maker.
                others = any(other.count() for other in self._drivers if other is not driver)
                found = None if others and name.startswith("cuda") else driver.find(name)
            except driver.errors():
                continue
            if found is not None:
                return _asked(driver, found)
        return []

    def _ask(self, device: _Device, now_s: float) -> None:
        reading: Reading = {}
        for answers, questions in device.asked:
            for question in questions:
                values = answers.ask(question, now_s)
                if answers.lost is not None:
                    device.asked = []
                    return
                if values is not None:
                    reading |= zip(question.columns, values, strict=True)
        device.append(self._clock(), reading)

    def close(self) -> None:
        """Stop reading; a thread that hangs in the driver is left behind."""
        if not self._thread.stop(1.0):
            return
        for driver in self._drivers:
            with contextlib.suppress(*driver.errors()):
                driver.close()
