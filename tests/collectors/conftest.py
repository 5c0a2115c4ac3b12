"""What the collectors' tests share: a clock to set, and simulated GPUs on it."""

import pytest

from collectors.gpu import Gpus
from collectors.simulated import SimulatedNvml
from paceline.gpu.nvml import Nvml


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvml(clock) -> SimulatedNvml:
    """Two healthy GPUs."""
    return SimulatedNvml(2, now=clock)


@pytest.fixture
def gpus(nvml, clock):
    """The same, found."""
    found = Gpus(lambda: Nvml(nvml))
    found.look(clock.now_s)
    yield found
    found.close()


@pytest.fixture
def sample(gpus, clock):
    """A function: the rows of the two GPUs, ``after_s`` seconds later."""

    def take(after_s: float = 1.0):
        clock.now_s += after_s
        return [row for _, row in gpus.sample(clock.now_s)]

    return take
