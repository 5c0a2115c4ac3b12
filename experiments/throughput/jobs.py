"""Made-up jobs: what their nodes' sidecars would send, message by message, in the order of time.

Rule of this file: pure, and vectorised over a job's nodes, so that making the load is next to nothing of what is
measured. Every node sends the steps that it has closed since, once a second, each at its own moment of the second.
In every job some ranks turn late, one after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline import columns
from paceline.events import CollectiveSums, Column, Microbatches, Speakers, StepTimings

MOST_RANKS_A_NODE = 8
CLUSTER = "bench"
#: Share of a step that a late rank is late by.
LATE = 0.25
#: Disjoint, and together the step.
PHASES = ("data", "prepare", "forward", "backward", "communication", "optimizer", "other")
#: What a rank measures in a step: its phases, and one collective.
TIMINGS_A_RANK_STEP = len(PHASES) + 1
_BYTES = 26_214_400
_TRANSFER = 0.02

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """Jobs of one size; ``late``: how many ranks of each turn late."""

    name: str
    jobs: int
    ranks: int
    step_s: float
    seconds: int
    late: int = 1
    microbatches: int = 1

    @property
    def steps(self) -> int:
        """Steps of every job."""
        return int(self.seconds / self.step_s)

    @property
    def nodes(self) -> int:
        """Nodes of every job."""
        return self.ranks // self.node_ranks

    @property
    def node_ranks(self) -> int:
        """Ranks of every node."""
        return min(MOST_RANKS_A_NODE, self.ranks)

    def culprits(self) -> dict[int, int]:
        """The ranks that turn late, and the step from which each is."""
        third = self.steps // 3
        apart = third // self.late
        first = min(3, self.ranks - 1)
        return {first + i * (self.ranks // self.late): third + i * apart for i in range(self.late)}

    def end_s(self, step: int) -> float:
        """When ``step`` ends, in seconds from the start of the load."""
        return (step + 1) * self.step_s


class Message(NamedTuple):
    """One message: when its node sends it, in seconds from the start; the steps it closes; what it says."""

    due_s: float
    steps: range
    event: StepTimings


class _Node:
    """What all messages of one node say."""

    def __init__(self, job: str, load: Load, number: int) -> None:
        self.ranks = range(number * load.node_ranks, (number + 1) * load.node_ranks)
        self.sequence = 0
        self.about = {
            "cluster": CLUSTER,
            "producer": f"{job}-node-{number}",
            "job": job,
            "attempt": 0,
            "node": f"node-{number}",
            "speakers": Speakers(
                ranks=columns.whole(self.ranks),
                world_sizes=columns.whole([load.ranks] * load.node_ranks),
                devices=[f"cuda:{index}" for index in range(load.node_ranks)],
            ),
        }
        self._rows: dict[int, Column] = {}

    def next(self) -> int:
        """The number of its next message."""
        self.sequence += 1
        return self.sequence - 1

    def rank(self, times: int) -> Column:
        """Its ranks, one after the other, so many times."""
        if times not in self._rows:
            self._rows[times] = columns.whole(list(self.ranks) * times)
        return self._rows[times]

    def each_rank(self, batches: int, times: int) -> Column:
        """Each of its ranks ``batches`` times, so many times."""
        if -times not in self._rows:
            self._rows[-times] = columns.whole([rank for rank in self.ranks for _ in range(batches)] * times)
        return self._rows[-times]


class _Cells:
    """Numbers in single precision, a row a node, as the bytes of columns."""

    def __init__(self, rows: Floats) -> None:
        self._bytes = rows.astype("<f4").tobytes()
        self._width = len(self._bytes) // rows.shape[0]

    def column(self, row: int) -> Column:
        """One node's."""
        return Column("f4", self._bytes[row * self._width : (row + 1) * self._width])


class _Job:
    """One job's times: when every rank is ready to communicate, in every step."""

    def __init__(self, load: Load, name: str, seed: int) -> None:
        self.load = load
        self.name = name
        chance = np.random.default_rng(seed)
        self.ready = load.step_s * 0.5 * (1 + 0.03 * chance.standard_normal((load.steps, load.ranks), dtype=np.float32))
        for rank, since in load.culprits().items():
            self.ready[since:, rank] += LATE * load.step_s
        self.slowest = self.ready.max(axis=1)
        self.noise = chance.uniform(0.5, 1.5, 1 << 16)
        self.nodes = [_Node(name, load, number) for number in range(load.nodes)]


class _Block:
    """The messages of those nodes of one job that tell the same steps in the same second."""

    def __init__(self, job: _Job, nodes: Ints, steps: range, began_s: float) -> None:
        self.job, self.steps, self.began_s = job, steps, began_s
        load = job.load
        count = len(steps)
        ready = self._of(nodes, steps)
        slowest = np.broadcast_to(job.slowest[steps.start : steps.stop][None, :, None], ready.shape)
        small = 0.01 * load.step_s * np.resize(job.noise, ready.shape)
        work, rest = ready - 2 * small, load.step_s - slowest
        waits = slowest - ready
        seconds = (small, small, 0.3 * work, 0.7 * work, waits, 0.8 * rest, 0.2 * rest)
        self.phases = {name: _Cells(each) for name, each in zip(PHASES, seconds, strict=True)}
        after_s = np.arange(count) * load.step_s
        self.step = columns.whole(np.repeat(np.array(steps), load.node_ranks).tolist())
        self.start_s = columns.offsets(np.repeat(after_s, load.node_ranks).tolist())
        self.step_s = columns.durations([load.step_s] * load.node_ranks * count)
        # A step's collectives are told once a later step is closed.
        told = range(max(steps.start - 1, 0), steps.stop - 1)
        least = job.slowest[told.start : told.stop] - self._of(nodes, told).max(axis=2)
        self.told = columns.whole(list(told))
        self.wait_s, self.duration_s = _Cells(least), _Cells(least + _TRANSFER * load.step_s)
        self.first_s, self.waited_s = _Cells(ready[:, 0]), _Cells(waits.sum(axis=1))
        left_s = after_s[-1] + float(job.slowest[steps.stop - 1]) + _TRANSFER * load.step_s
        self.last_s = columns.offsets([left_s] * load.node_ranks)
        self.longest_s: list[float] = waits.max(axis=(1, 2)).astype(float).round(6).tolist()
        if load.microbatches > 1:
            each = (len(nodes), count * load.node_ranks, load.microbatches)
            shares = [np.broadcast_to(part.reshape(*each[:2], 1) / each[2], each) for part in seconds[2:4]]
            self.forward_s, self.backward_s = map(_Cells, shares)

    def _of(self, nodes: Ints, steps: range) -> Floats:
        """When the ranks of ``nodes`` are ready in ``steps``, (nodes, steps, ranks)."""
        ready = self.job.ready[steps.start : steps.stop].reshape(
            len(steps), self.job.load.nodes, self.job.load.node_ranks
        )
        return np.ascontiguousarray(ready[:, nodes].transpose(1, 0, 2))

    def event(self, node: _Node, row: int) -> StepTimings:
        """The message of ``node``, which is the block's number ``row``."""
        return StepTimings(
            **node.about,  # type: ignore[arg-type]  # one dict of all that does not change
            sequence=node.next(),
            t0_s=self.began_s + self.steps.start * self.job.load.step_s,
            rank=node.rank(len(self.steps)),
            step=self.step,
            start_s=self.start_s,
            step_s=self.step_s,
            phases={name: cells.column(row) for name, cells in self.phases.items()},
            microbatches=self._microbatches(node, row) if self.job.load.microbatches > 1 else None,
            collectives=CollectiveSums(
                **_constant(self.job.load, columns.rows(self.told)),
                step=self.told,
                wait_s=self.wait_s.column(row),
                duration_s=self.duration_s.column(row),
                reached_rank=node.rank(1),
                reached_seq=self.reached,
                span_rank=node.rank(1),
                span_first_s=self.first_s.column(row),
                span_last_s=self.last_s,
                span_waited_s=self.waited_s.column(row),
                longest_wait_s=self.longest_s[row],
            ),
        )

    @cached_property
    def reached(self) -> Column:
        """The number of the last step's collective, for each rank of a node."""
        return columns.whole([self.steps.stop - 1] * self.job.load.node_ranks)

    @cached_property
    def batches(self) -> tuple[Column, Column]:
        """Step and number of every micro-batch."""
        each, rows = self.job.load.microbatches, len(self.steps) * self.job.load.node_ranks
        step = np.repeat(np.array(self.steps), self.job.load.node_ranks * each)
        return columns.whole(step.tolist()), columns.whole(list(range(each)) * rows)

    def _microbatches(self, node: _Node, row: int) -> Microbatches:
        step, number = self.batches
        return Microbatches(
            rank=node.each_rank(self.job.load.microbatches, len(self.steps)),
            step=step,
            microbatch=number,
            forward_s=self.forward_s.column(row),
            backward_s=self.backward_s.column(row),
        )


@cache
def _constant(load: Load, rows: int) -> dict[str, Any]:
    """What sums of as many steps of a job have in common."""
    return {
        "groups": ["world"],
        "group_sizes": columns.whole([load.ranks]),
        "operations": ["all_reduce"],
        "group": columns.whole([0] * rows),
        "operation": columns.whole([0] * rows),
        "count": columns.whole([1] * rows),
        "members": columns.whole([load.node_ranks] * rows),
        "bytes": columns.whole([_BYTES] * rows),
        "reached_group": columns.whole([0] * load.node_ranks),
    }


def messages(load: Load, began_s: float) -> Iterator[Message]:
    """Every message of ``load``, in the order of time; ``began_s`` is its start in Unix time."""
    jobs = [_Job(load, f"{load.name}-{number}", seed=number) for number in range(load.jobs)]
    moments = np.arange(load.jobs * load.nodes) * 0.618034 % 1.0
    order = np.argsort(moments)
    of_job, node = np.divmod(np.arange(moments.size), load.nodes)
    done = np.zeros(moments.size, dtype=np.int64)
    for second in range(load.seconds + 1):
        closed = np.minimum(((second + moments) / load.step_s + 1e-9).astype(np.int64), load.steps)
        due = order[closed[order] > done[order]]
        if not due.size:
            continue
        same, which = np.unique(np.stack([of_job[due], done[due], closed[due]]), axis=1, return_inverse=True)
        which = which.ravel()
        row = np.zeros(due.size, dtype=np.int64)
        blocks = []
        for number, (job, first, end) in enumerate(same.T.tolist()):
            mine = np.flatnonzero(which == number)
            row[mine] = np.arange(mine.size)
            blocks.append(_Block(jobs[job], node[due[mine]], range(first, end), began_s))
        for at, number, place in zip(due.tolist(), which.tolist(), row.tolist(), strict=True):
            block = blocks[number]
            sender = block.job.nodes[int(node[at])]
            yield Message(second + float(moments[at]), block.steps, block.event(sender, place))
        done = np.maximum(done, closed)
