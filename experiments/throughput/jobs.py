"""Made-up jobs: what their nodes' sidecars would send, message by message, in the order of time.

Rule of this file: pure, and vectorised, so that making the load is no part of what is measured. Every node sends one
message a second, each at its own moment of the second. In every job some ranks turn late, one after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveTimings, OpTimings

RANKS_A_NODE = 8
CLUSTER = "bench"
#: Share of a step that a late rank is late by.
LATE = 0.25
PHASES = ("data", "forward", "backward", "communication", "optimizer", "step")

Floats = NDArray[np.floating[Any]]
Whole = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Load:
    """Jobs of one size. ``collectives`` is a step's number of them; 0 makes phases (OpTimings) instead."""

    name: str
    jobs: int
    ranks: int
    step_s: float
    collectives: int
    seconds: int
    late: int = 1

    @property
    def steps(self) -> int:
        """Steps of every job."""
        return int(self.seconds / self.step_s)

    @property
    def rows_a_message(self) -> int:
        """Rows of a message that holds a whole second."""
        return round(RANKS_A_NODE / self.step_s * (self.collectives or len(PHASES)))

    def culprits(self) -> dict[int, int]:
        """The ranks that turn late, and the step from which each is."""
        third = self.steps // 3
        apart = third // self.late
        return {3 + i * (self.ranks // self.late): third + i * apart for i in range(self.late)}

    def end_s(self, step: int) -> float:
        """When ``step`` ends, in seconds from the start of the load."""
        return (step + 1) * self.step_s


class Message(NamedTuple):
    """One message: when its node sends it, in seconds from the start; the steps it closes; what it says."""

    due_s: float
    steps: range
    event: CollectiveTimings | OpTimings


class _Job:
    """One job's times: when every rank is ready to communicate, in every step."""

    def __init__(self, load: Load, name: str, seed: int) -> None:
        self.load = load
        self.name = name
        chance = np.random.default_rng(seed)
        self.ready = load.step_s * 0.5 * (1 + 0.03 * chance.standard_normal((load.steps, load.ranks)))
        for rank, since in load.culprits().items():
            self.ready[since:, rank] += LATE * load.step_s
        self.slowest = self.ready.max(axis=1, keepdims=True)
        self.noise = chance.uniform(0.5, 1.5, 1 << 16)

    def jitter(self, shape: tuple[int, ...]) -> Floats:
        """Some of the noise made beforehand."""
        return np.resize(self.noise, shape)

    def common(self, node: int, sequence: int, steps: range, began_s: float) -> dict[str, Any]:
        """The fields that both kinds of batch have."""
        ranks = list(range(node * RANKS_A_NODE, (node + 1) * RANKS_A_NODE))
        return {
            "cluster": CLUSTER,
            "producer": f"{self.name}-node-{node}",
            "sequence": sequence,
            "job": self.name,
            "attempt": 0,
            "node": f"node-{node}",
            "t0_s": began_s + steps.start * self.load.step_s,
            "ranks": ranks,
            "world_sizes": [self.load.ranks] * RANKS_A_NODE,
        }

    def collectives(self, node: int, sequence: int, steps: range, began_s: float) -> CollectiveTimings:
        """A node's collectives of some steps; only the first of each step has anybody waiting."""
        load, common = self.load, self.common(node, sequence, steps, began_s)
        rank, step, number = _grid(common["ranks"], steps, range(load.collectives))
        ready, slowest = self.ready[step, rank], self.slowest[step, 0]
        wait = self.jitter(rank.shape) * 0.001 * load.step_s + np.where(number == 0, slowest - ready, 0.0)
        start = (step - steps.start) * load.step_s + np.where(number == 0, ready, slowest)
        start += number * 0.15 * load.step_s / load.collectives
        seconds = wait.round(6).tolist()
        return CollectiveTimings(
            **common,
            backend="nccl",
            phases=False,
            groups=["default"],
            group_sizes=[load.ranks],
            operations=["all_reduce"],
            rank=rank.tolist(),
            step=step.tolist(),
            seq=(step * load.collectives + number).tolist(),
            group=[0] * rank.size,
            operation=[0] * rank.size,
            bytes=[26_214_400] * rank.size,
            start_s=start.round(6).tolist(),
            duration_s=seconds,
            wait_s=seconds,
        )

    def phases(self, node: int, sequence: int, steps: range, began_s: float) -> OpTimings:
        """A node's phases of some steps; a late rank computes longer, and the others wait for it."""
        load, common = self.load, self.common(node, sequence, steps, began_s)
        rank, step, op = _grid(common["ranks"], steps, range(len(PHASES)))
        ready, slowest = self.ready[step, rank], self.slowest[step, 0]
        small = 0.02 * load.step_s * self.jitter(rank.shape)
        optimizer = load.step_s - slowest
        choices = [small, 0.3 * (ready - small), 0.7 * (ready - small), slowest - ready, optimizer]
        seconds = np.choose(op, [*choices, np.full(rank.shape, load.step_s)])
        start = (step - steps.start) * load.step_s + np.choose(op, [0.0, small, 0.3 * ready, ready, slowest, 0.0])
        return OpTimings(
            **common,
            devices=[f"{self.name}-gpu-{one}" for one in common["ranks"]],
            ops=list(PHASES),
            rank=rank.tolist(),
            step=step.tolist(),
            op=op.tolist(),
            microbatch=[-1] * rank.size,
            start_s=start.round(6).tolist(),
            duration_s=seconds.round(6).tolist(),
        )


def messages(load: Load, began_s: float) -> Iterator[Message]:
    """Every message of ``load``, in the order of time; ``began_s`` is its start in Unix time."""
    jobs = [_Job(load, f"{load.name}-{number}", seed=number) for number in range(load.jobs)]
    nodes = [(job, node) for job in jobs for node in range(load.ranks // RANKS_A_NODE)]
    moments = np.arange(len(nodes)) * 0.618034 % 1.0
    done = [0] * len(nodes)
    for second in range(load.seconds + 1):
        for at in np.argsort(moments).tolist():
            due_s = second + float(moments[at])
            steps = range(done[at], min(int(due_s / load.step_s + 1e-9), load.steps))
            if not steps:
                continue
            done[at] = steps.stop
            job, node = nodes[at]
            make = job.collectives if load.collectives else job.phases
            yield Message(due_s, steps, make(node, second, steps, began_s))


def _grid(ranks: list[int], steps: range, rows: range) -> tuple[Whole, Whole, Whole]:
    """Rank, step and number of every row: a rank's rows together, as the sidecar writes them."""
    rank, step, row = np.meshgrid(ranks, np.array(steps), np.array(rows), indexing="ij")
    return rank.ravel(), step.ravel(), row.ravel()
