"""The GPUs of a node's ranks, as the driver sees them, read by a thread of its own.

Rule of this file: whoever asks never waits. A driver whose GPU has fallen off the bus may hold a call for minutes: then
the last reading grows old and is no longer told. No driver, no binding or no such GPU is None, and looked for again.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.gpu import driver
from paceline.gpu.answers import Answers
from paceline.gpu.queries import QUERIES, SELDOM_S, NvmlQuery
from paceline.gpu.readings import Value, scaled
from paceline.supervised import SupervisedThread

#: Seconds between two readings: throttling that comes and goes within a second is to be seen.
EVERY_S = 0.5
#: A reading older than this is of the past.
OLDEST_S = 3.0
#: Seconds until a driver or device that was not there is looked for again.
LOOK_AGAIN_S = 60.0


def _most_sm_clock(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (scaled(nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM), 1.0),)


_WANTED = {"utilization_ratio", "fb_used_bytes", "temperature_celsius", "sm_clock_mhz", "throttle_reasons"}
QUESTIONS = (
    *(query for query in QUERIES if query.question in _WANTED),
    NvmlQuery(("sm_clock_max_mhz",), (_most_sm_clock,), every_s=SELDOM_S),
)
#: What is told of a span: the sum of what was seen (a mask), the mean, else the last.
_MEANS = ("utilization_ratio", "sm_clock_mhz")

Reading = dict[str, Value]


class _Device:
    """One device: what was read since it was last asked for."""

    def __init__(self) -> None:
        self.answers: Answers | None = None
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
    """Reads the devices that are asked for. ``load`` gives the NVML-like object."""

    def __init__(self, load: Callable[[], Any] = driver.real, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._devices: dict[str, _Device] = {}
        self._nvml: Any = None
        self._look_s = float("-inf")
        self._stop = threading.Event()
        self._thread = SupervisedThread("the reading of GPUs", self._run, self._stop)

    def drain(self, name: str) -> Reading | None:
        """What device ``GPU-…``, ``MIG-…`` or ``cuda:N`` went through since the last time; None where unknown."""
        if not name.startswith(("GPU-", "MIG-", "cuda")):
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
        if self._nvml is None and now_s >= self._look_s:
            self._look_s = now_s + LOOK_AGAIN_S
            self._nvml = self._connect()
        if self._nvml is None:
            return
        for name, device in list(self._devices.items()):
            if device.answers is None and now_s >= device.look_s:
                device.look_s = now_s + LOOK_AGAIN_S
                device.answers = self._open(name)
            if device.answers is not None:
                self._ask(device, device.answers, now_s)

    def _connect(self) -> Any:
        try:
            nvml = self._load()
        except ModuleNotFoundError:
            return None
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            return None
        return nvml

    def _open(self, name: str) -> Answers | None:
        try:
            if not name.startswith("cuda"):
                return Answers(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(name))
            # CUDA counts in an order of its own, and only what a process may see: sure where there is one GPU alone.
            if self._nvml.nvmlDeviceGetCount() != 1:
                return None
            return Answers(self._nvml, self._nvml.nvmlDeviceGetHandleByIndex(0))
        except driver.errors(self._nvml):
            return None

    def _ask(self, device: _Device, answers: Answers, now_s: float) -> None:
        reading: Reading = {}
        for question in QUESTIONS:
            values = answers.ask(question, now_s)
            if answers.lost is not None:
                device.answers = None
                return
            if values is not None:
                reading |= zip(question.columns, values, strict=True)
        device.append(self._clock(), reading)

    def close(self) -> None:
        """Stop reading; a thread that hangs in the driver is left behind."""
        if self._thread.stop(1.0) and self._nvml is not None:
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                return
