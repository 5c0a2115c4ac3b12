"""Timing of one operation: warmed up, repeated within a sample until it can be timed, sampled until its time is over.

Rule of this file: it knows no operation. A device's own time comes from its events (CUDA's and ROCm's), a processor's
from the monotonic clock. Samples are spread over the whole time that an operation gets, so that noise that comes and
goes shows in their interval.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from .interval import LEAST_SAMPLES

#: Runs before the first sample: pages, caches, kernels and clocks settle.
WARM_UPS = 2
#: Samples that the time is divided into, and the most that are taken.
SAMPLES, MOST_SAMPLES = 20, 100
#: A sample holds at most so many runs.
MOST_RUNS = 100_000
#: So many times its share of the time may an operation take before it is given up with what was sampled.
OVERDUE = 4.0

#: A size is judged by the fastest of so many runs: a neighbour must not choose it.
TRIES = 3

Operation = Callable[[], object]


class TooSlowError(RuntimeError):
    """An operation that cannot be sampled often enough in its time."""


class Timer(Protocol):
    """Times runs of an operation on one device."""

    def __call__(self, operation: Operation, runs: int) -> float:
        """Seconds that ``runs`` of ``operation`` took together."""


def host_timer(operation: Operation, runs: int) -> float:
    """On the processors: when a call returns, it is done."""
    began = time.perf_counter()
    for _ in range(runs):
        operation()
    return time.perf_counter() - began


class EventTimer:
    """On a CUDA or ROCm device: its own events around the runs. Waiting for the last one is what benchmarks may do."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device

    def __call__(self, operation: Operation, runs: int) -> float:
        """Seconds between the first run and the end of the last, as the device counts them."""
        cuda = self._torch.cuda
        stream = cuda.current_stream(self._device)
        first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        first.record(stream)
        for _ in range(runs):
            operation()
        last.record(stream)
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3


def sample(timer: Timer, operation: Operation, budget_s: float) -> list[float]:
    """Seconds a run, a sample each: as many as ``budget_s`` allows, six at least.

    Raises:
        TooSlowError: six samples take far longer than that.
    """
    began = time.monotonic()
    once_s = max(timer(operation, WARM_UPS) / WARM_UPS, 1e-9)
    once_s = max(timer(operation, 1), 1e-9) if once_s < budget_s else once_s
    runs = max(1, min(MOST_RUNS, int(budget_s / SAMPLES / once_s)))
    samples: list[float] = []
    while len(samples) < MOST_SAMPLES:
        spent_s = time.monotonic() - began
        if spent_s >= budget_s and len(samples) >= LEAST_SAMPLES:
            break
        if spent_s >= OVERDUE * budget_s + 1.0:
            raise TooSlowError(f"{len(samples)} samples in {spent_s:.1f} s; give it more --seconds")
        samples.append(max(timer(operation, runs), 1e-12) / runs)
    return samples


def fitting(sizes: tuple[int, ...], once: Callable[[int], float], budget_s: float) -> int:
    """The largest of ``sizes``, ascending, that runs often enough within ``budget_s``; ``once`` times one of a size.

    A size is tried only where the one before leaves room for it eightfold: work grows with the cube of a matrix.

    >>> fitting((256, 512, 1024), lambda size: size**3 / 1e9, 10.0)
    512
    """
    chosen = sizes[0]
    for size, larger in zip(sizes, (*sizes[1:], None), strict=True):
        chosen = size
        if larger is None or 8 * min(once(size) for _ in range(TRIES)) > budget_s / (2 * LEAST_SAMPLES):
            break
    return chosen
