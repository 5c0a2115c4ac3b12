"""The sweep of an all-reduce: how many samples of how many runs there are, in whatever time they take."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from collectors.benchmark.interval import LEAST_SAMPLES
from collectors.benchmark.sweep import sweep

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of this process alone."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def swept(run_s: Callable[[int], float]) -> tuple[list[float], list[int], int]:
    """One size in 2 s: its speeds, the runs of every sample, and how often it was said to live; ``run_s`` is what a run
    takes once so many have been."""
    runs: list[int] = []
    lives: list[None] = []

    def timer(_operation: Any, count: int) -> float:
        runs.append(count)
        return count * run_s(sum(runs))

    (found,) = sweep(torch, torch.device("cpu"), timer, 4096, 2.0, lambda size: None, lambda: lives.append(None))
    return found.speeds, runs, len(lives)


def test_samples_fill_the_time(alone: None) -> None:
    speeds, runs, lives = swept(lambda _: 0.001)
    assert speeds == [pytest.approx(4096 / 0.001)] * len(speeds)
    assert 19 <= len(speeds) <= 22
    assert min(runs[-len(speeds) :]) >= 64
    assert lives == len(runs)


def test_a_machine_that_turns_busy_gets_fewer_runs(alone: None) -> None:
    """Each run takes a second in place of a microsecond: what was planned would take hours."""
    speeds, runs, _ = swept(lambda done: 1e-6 if done < 10 else 1.0)
    assert len(speeds) == LEAST_SAMPLES
    assert sum(runs) < 50
    assert runs[-3:] == [1] * 3
