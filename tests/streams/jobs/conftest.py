"""Made-up jobs: seeded, synchronous, with a fault of known size where a test wants one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from paceline import columns
from paceline.events import OP_INDEX, CollectiveCalls, Column, StepTimings
from paceline.events import OPS as ALL_OPS
from streams.ingest.steps import Step
from streams.jobs.cohorts import Cohorts
from streams.jobs.job_episodes import JudgedWindow
from streams.jobs.ticks import Tick, Ticks
from streams.jobs.window_sums import PAIR_SUMS, WindowSums
from tests.timings import speakers

OPS = ["data", "forward", "backward", "optimizer", "gc", "cpu_wait", "communication", "step"]
SHARES = np.array([0.05, 0.3, 0.57, 0.08])


@dataclass(frozen=True)
class Job:
    """A synchronous job: every rank does its phases, then waits for the slowest."""

    ranks: int = 4
    steps: int = 150
    step_s: float = 0.1
    noise: float = 0.03
    seed: int = 0
    #: rank -> op -> seconds more, in the steps of ``when``.
    fault: dict[int, dict[str, float]] = field(default_factory=dict)
    when: Callable[[int], bool] = lambda step: step >= 60
    #: steps a message holds, and nodes the ranks are spread over.
    per_message: int = 10
    nodes: int = 1
    clock_skew_s: tuple[float, ...] = (0.0,)
    world: int | None = None

    def seconds(self) -> np.ndarray:
        """Seconds by step, op and rank: shape (steps, len(OPS), ranks)."""
        rng = np.random.default_rng(self.seed)
        out = np.zeros((self.steps, len(OPS), self.ranks))
        wobble = 1 + self.noise * rng.standard_normal((self.steps, 4, self.ranks)).clip(-3, 3)
        out[:, :4] = SHARES[None, :, None] * self.step_s * wobble
        for rank, more in self.fault.items():
            for op, seconds in more.items():
                where = [step for step in range(self.steps) if self.when(step)]
                out[where, OPS.index(op), rank] += seconds
                if op in ("gc", "cpu_wait"):  # an overlay lies inside a phase
                    out[where, OPS.index("backward"), rank] += seconds
        own = out[:, :4].sum(axis=1)
        out[:, -1] = own.max(axis=1, keepdims=True) + 0.05 * self.step_s
        out[:, -2] = out[:, -1] - own
        return out

    def batches(self) -> Iterator[StepTimings]:
        """The job's messages, node by node."""
        seconds = self.seconds()
        starts = np.concatenate([[0.0], np.cumsum(seconds[:, -1].max(axis=1))])
        share = self.ranks // self.nodes
        for number, first in enumerate(range(0, self.steps, self.per_message)):
            for node in range(self.nodes):
                ranks = list(range(node * share, (node + 1) * share))
                steps = np.arange(first, min(first + self.per_message, self.steps))
                step, rank = (one.ravel() for one in np.meshgrid(steps, ranks, indexing="ij"))
                yield StepTimings(
                    cluster="default",
                    producer=f"sidecar-{node}",
                    sequence=number,
                    job="job",
                    attempt=0,
                    node=f"node-{node}",
                    t0_s=1.7e9 + float(starts[first]) + self.clock_skew_s[node % len(self.clock_skew_s)],
                    speakers=speakers(ranks, self.world or self.ranks),
                    rank=columns.whole(rank.tolist()),
                    step=columns.whole(step.tolist()),
                    start_s=_numbers(starts[step] - starts[first]),
                    step_s=_numbers(seconds[step, -1, rank]),
                    phases={op: _numbers(seconds[step, at, rank]) for at, op in enumerate(OPS[:-1])},
                )


def _numbers(values: np.ndarray | list[float]) -> Column:
    return columns.encoded("f8", np.asarray(values, dtype=float).tolist())


@pytest.fixture
def job() -> type[Job]:
    """The class of made-up jobs."""
    return Job


def collectives(
    ranks: int, steps: int, late: dict[int, float], seed: int = 0, step_s: float = 0.1
) -> list[CollectiveCalls]:
    """CollectiveCalls of a job that publishes no phases: two all-reduces a step, the first one waits."""
    rng = np.random.default_rng(seed)
    ready = 0.08 * (1 + 0.03 * rng.standard_normal((steps, ranks)))
    for rank, seconds in late.items():
        ready[steps // 3 :, rank] += seconds
    wait = ready.max(axis=1, keepdims=True) - ready + 0.001
    out = []
    for number, first in enumerate(range(0, steps, 10)):
        keys = [(s, r, c) for s in range(first, first + 10) for r in range(ranks) for c in range(2)]
        waits = _numbers([float(wait[s, r]) if c == 0 else 0.001 for s, r, c in keys])
        nothing = columns.whole([0] * len(keys))
        out.append(
            CollectiveCalls(
                cluster="default",
                producer="sidecar-0",
                sequence=number,
                job="job",
                attempt=0,
                node="node-0",
                t0_s=1.7e9,
                speakers=speakers(list(range(ranks)), ranks),
                groups=["default"],
                group_sizes=columns.whole([ranks]),
                operations=["all_reduce"],
                rank=columns.whole([r for _, r, _ in keys]),
                step=columns.whole([s for s, _, _ in keys]),
                seq=columns.whole([2 * s + c for s, _, c in keys]),
                group=nothing,
                operation=nothing,
                bytes=columns.whole([4096] * len(keys)),
                start_s=_numbers([s * step_s + float(ready[s, r]) + c * 0.002 for s, r, c in keys]),
                duration_s=waits,
                wait_s=waits,
            )
        )
    return out


@pytest.fixture
def collective_batches() -> Callable[..., list]:
    """Makes CollectiveCalls of a job without phases."""
    return collectives


def step(number: int, **phases: list[float]) -> Step:
    """One step: seconds of each phase, a number a rank; the whole is their sum, but for overlays."""
    ranks = len(next(iter(phases.values())))
    seconds = np.zeros((len(ALL_OPS), ranks))
    for op, values in phases.items():
        seconds[OP_INDEX[op]] = values
    seconds[-1] = sum(seconds[OP_INDEX[op]] for op in phases if op not in ("gc", "cpu_wait"))
    return Step(number, seconds, np.full(ranks, float(number)))


def tick(number: int, cohorts: Cohorts | None = None, **phases: list[float]) -> Tick:
    """One tick of one step."""
    made = Ticks(0.0, cohorts or Cohorts()).update(step(number, **phases))
    assert made is not None
    return made


def window_sums(number: int, steps: int = 10, held_back_s: float = 0.0, pairs=None, **ops: list[float]) -> WindowSums:
    """The window of that number: each rank's seconds of each op, and in ``step`` of whole steps, or the ops' sum."""
    ranks = len(next(iter(ops.values())))
    seconds = np.zeros((len(ALL_OPS), ranks))
    for op, values in ops.items():
        seconds[OP_INDEX[op]] = values
    if "step" not in ops:
        seconds[-1] = seconds.sum(axis=0)
    window = JudgedWindow(number * steps, number * steps + steps - 1, float(np.median(seconds[-1])))
    return WindowSums(
        window, steps, seconds, np.zeros((len(PAIR_SUMS), ranks)) if pairs is None else pairs, held_back_s
    )


@pytest.fixture
def make_step() -> Callable[..., Step]:
    """Makes one step of all ranks from seconds of its phases."""
    return step


@pytest.fixture
def make_tick() -> Callable[..., Tick]:
    """Makes one tick of all ranks from seconds of its phases."""
    return tick


@pytest.fixture
def make_sums() -> Callable[..., WindowSums]:
    """Makes what one window adds up to from each rank's seconds."""
    return window_sums
