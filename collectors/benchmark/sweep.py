"""An all-reduce by size of message, in every rank of it: algorithm bandwidth, and what each link carried.

Rule of this file: PyTorch is an argument; its process group is set up by whoever calls. A sample is as long as its
slowest rank's, which all ranks know, and by which all of them decide alike how many samples of how many runs there are:
a machine that turns busy in the middle gets fewer of both.
On NCCL these paths follow the documented interface and were not run on hardware.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .interval import LEAST_SAMPLES
from .timing import MOST_SAMPLES, SAMPLES, WARM_UPS, Timer

#: Bytes of messages, each four times the one before.
SMALLEST, LARGEST_CPU, LARGEST_GPU = 4 * 2**10, 64 * 2**20, 1024 * 2**20
MOST_RUNS = 10_000
#: So many times more runs than the sample before has a sample at most, as nobody knows how the machine will be by then;
#: while that grows, it counts for nothing.
GROWTH = 4
_WIDTH = 4


class Size(NamedTuple):
    """One size: algorithm bandwidths in bytes/s, a sample each."""

    size_bytes: int
    speeds: list[float]


def sizes(largest: int) -> list[int]:
    """The sizes of a sweep.

    >>> [size // 1024 for size in sizes(256 * 1024)]
    [4, 16, 64, 256]
    """
    found = [SMALLEST]
    while found[-1] * 4 <= largest:
        found.append(found[-1] * 4)
    return found


def bus_bytes_per_s(algorithm: float, ranks: int) -> float:
    """What every link carries of an all-reduce: 2 (n - 1) / n of its bytes, whatever the algorithm (nccl-tests).

    >>> bus_bytes_per_s(100.0, 4)
    150.0
    """
    return algorithm * 2 * (ranks - 1) / ranks


def sweep(
    torch: Any,
    device: Any,
    timer: Timer,
    largest: int,
    budget_s: float,
    on_size: Callable[[int], None],
    on_sample: Callable[[], None] = lambda: None,
) -> Iterator[Size]:
    """Sizes from small to large, in ``budget_s`` together; ``on_size`` is told each before it begins."""
    wanted = sizes(largest)
    began = time.monotonic()
    for place, size in enumerate(wanted):
        on_size(size)
        left_s = budget_s - (time.monotonic() - began)
        yield Size(size, _speeds(torch, device, timer, size, max(0.05, left_s / (len(wanted) - place)), on_sample))


def _speeds(
    torch: Any, device: Any, timer: Timer, size: int, budget_s: float, on_sample: Callable[[], None]
) -> list[float]:
    dist = torch.distributed
    tensor = torch.zeros(size // _WIDTH, dtype=torch.float32, device=device)

    def operation() -> None:
        dist.all_reduce(tensor)

    def slowest_s(runs: int) -> float:
        took = torch.tensor([timer(operation, runs)], dtype=torch.float64, device=device)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        on_sample()
        return max(float(took), 1e-9)

    plan = torch.tensor([budget_s], dtype=torch.float64, device=device)
    dist.broadcast(plan, src=0)
    budget_s, spent_s = float(plan), 0.0
    slowest_s(WARM_UPS)
    speeds: list[float] = []
    runs = 1
    while len(speeds) < LEAST_SAMPLES or (spent_s < budget_s and len(speeds) < MOST_SAMPLES):
        took_s = slowest_s(runs)
        spent_s += took_s
        wanted = max(1, min(MOST_RUNS, int(budget_s / SAMPLES * runs / took_s)))
        if wanted <= GROWTH * runs:
            speeds.append(size * runs / took_s)
        runs = min(wanted, GROWTH * runs)
    return speeds
