"""A simulated job, event by event: what tests and screenshots show the page when no training runs.

Rule of this file: pure and seeded; time is an argument. One rank's computation turns slow at ``fault_step``.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline import columns, events, topics, wire
from paceline.topics import Topic

Numbered = tuple[Topic, events.Event]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Phases = dict[str, Floats]
#: Seconds a step in each phase of a healthy rank.
PHASES = {
    "data": 0.0021,
    "prepare": 0.0008,
    "forward": 0.0162,
    "backward": 0.0315,
    "optimizer": 0.0038,
    "other": 0.0009,
}


class SimulatedJob:
    """Makes the events of ``ranks`` ranks on ``nodes`` nodes."""

    def __init__(
        self, ranks: int = 16, nodes: int = 2, slow_rank: int = 5, fault_step: int = 300, job: str = "llm-7b-pretrain"
    ) -> None:
        self.ranks, self.nodes, self.slow_rank, self.fault_step, self.job = ranks, nodes, slow_rank, fault_step, job
        self._random = np.random.default_rng(7)
        self._sequence: dict[str, int] = {}
        self._head: dict[str, Any] = {"cluster": "default", "job": job, "attempt": 0}

    def described(
        self, at_s: float, ended_s: float | None = None, exit_status: int | None = None
    ) -> Iterator[Numbered]:
        """Each node's part of the job."""
        for node, held in enumerate(np.array_split(np.arange(self.ranks), self.nodes)):
            yield (
                topics.JOB,
                events.JobDescribed(
                    **self._head,
                    **self._number("job", node),
                    node=self._name(node),
                    world_size=self.ranks,
                    backend="nccl",
                    framework="torch",
                    started_s=at_s,
                    ended_s=ended_s,
                    exit_status=exit_status,
                    places=[
                        events.RankPlace(
                            rank=int(r), local_rank=i, node=self._name(node), device=f"cuda:{i}", pid=4000 + int(r)
                        )
                        for i, r in enumerate(held)
                    ],
                ),
            )

    def timings(self, at_s: float, first: int, steps: int) -> Iterator[Numbered]:
        """Each node's ``steps`` steps from ``first``, the first of which begins at ``at_s``."""
        own = self._own(first, steps)
        whole = own.sum(axis=0).max(axis=0) + 0.0042
        begins = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
        for node, held in enumerate(np.array_split(np.arange(self.ranks), self.nodes)):
            at = np.tile(np.arange(steps), len(held))
            rank = np.repeat(held, steps)
            phases = {name: own[index, rank, at] for index, name in enumerate(PHASES)}
            phases |= {"communication": whole[at] - own[:, rank, at].sum(axis=0), "gc": 0.0004 * (at % 8 == 0)}
            yield self._steps(node, held, at_s, rank, first + at, begins[at], whole[at], phases)

    def _steps(
        self, node: int, held: Ints, at_s: float, rank: Ints, step: Ints, start: Floats, took: Floats, phases: Phases
    ) -> Numbered:
        return (
            topics.OP,
            events.StepTimings(
                **self._head,
                **self._number("op", node),
                node=self._name(node),
                t0_s=at_s,
                speakers=events.Speakers(
                    ranks=columns.whole(held.tolist()),
                    world_sizes=columns.whole([self.ranks] * len(held)),
                    devices=[f"cuda:{i}" for i in range(len(held))],
                ),
                rank=columns.whole(rank.tolist()),
                step=columns.whole(step.tolist()),
                start_s=columns.offsets(start.tolist()),
                step_s=columns.durations(took.tolist()),
                phases={name: columns.durations(seconds.tolist()) for name, seconds in phases.items()},
            ),
        )

    def window(self, at_s: float, last: int) -> Numbered:
        """The job's 10 s window that ends at ``at_s`` with step ``last``."""
        slow = last >= self.fault_step
        own_s = sum(PHASES.values())
        worst_s = own_s * (1.83 if slow else 1.03)
        return (
            topics.WINDOW,
            events.JobWindow(
                **self._head,
                start_s=at_s - 10,
                length_s=10.0,
                ranks=self.ranks,
                steps=100,
                first_step=max(0, last - 100),
                last_step=last,
                step_median_s=worst_s + 0.0042,
                step_p95_s=worst_s * 1.06 + 0.0042,
                own_median_s=own_s,
                own_worst_s=worst_s,
                worst_rank=self.slow_rank if slow else 1,
                wait_ratio=1 - own_s / (worst_s + 0.0042),
                phase_median_s=PHASES,
            ),
        )

    def finding(self, revision: int, last: int, state: str, **changed: Any) -> Numbered:
        """A revision of the one finding: the slow rank's computation."""
        lost_s = max(0, last - self.fault_step) * 0.0468
        peers_s = PHASES["forward"] + PHASES["backward"]
        late, rule = 0.0463, "over 1.2 times the median of equal work, in 30 of 30 steps"
        given: dict[str, Any] = {
            "id": f"straggler-{self.job}-0-{self.slow_rank}-{self.fault_step}",
            "revision": revision,
            "kind": "straggler",
            "state": state,
            "cause": "worker_compute",
            "ranks": [self.slow_rank],
            "stage": None,
            "group": None,
            "nodes": [self._name(self.slow_rank * self.nodes // self.ranks)],
            "devices": [f"cuda:{self.slow_rank % (self.ranks // self.nodes)}"],
            "first_step": self.fault_step,
            "last_step": last,
            "severity": "warning" if state == "suspected" else "critical",
            "confidence": 0.71 if state == "suspected" else 0.97,
            "cost": events.Cost(lost_s=lost_s, gpu_hours=lost_s * self.ranks / 3600, throughput_lost_ratio=0.44),
            "coverage": events.Coverage(ranks_expected=self.ranks, ranks_heard=self.ranks, events_missing=0),
            "evidence": [
                events.Evidence(name="compute_s", value=peers_s * 1.97, unit="s", peers=peers_s, rule=rule),
                events.Evidence(name="data_s", value=0.0021, unit="s", peers=0.0021, rule="equal: input is cleared"),
                events.Evidence(
                    name="lateness", value=late, unit="s/step", peers=0.0004, rule="last into 30 of 30 steps"
                ),
            ],
            "exonerated": ["input pipeline: 2.1 ms a step, peers 2.1 ms", "CPU contention: 0.2 % of the step"],
            "summary": f"Rank {self.slow_rank} computes 1.97 times as long as its peers; all others wait.",
        }
        return topics.FINDING, events.Finding(**{**self._head, **given, **changed})

    def machines(self, at_s: float) -> Iterator[Numbered]:
        """One sample of each node's GPUs and host; what is not set here is not measured."""
        for node, held in enumerate(np.array_split(np.arange(self.ranks), self.nodes)):
            count = len(held)
            columns: dict[str, Any] = {name: [None] * count for name in wire.sample_columns(events.DeviceSamples)}
            columns |= {
                "device": list(range(count)),
                "time_s": [0.0] * count,
                "utilization_ratio": [0.97 - 0.01 * at for at in range(count)],
                "power_w": [512.0 + 9 * at for at in range(count)],
                "temperature_celsius": [58.0 + at for at in range(count)],
            }
            head: dict[str, Any] = {"cluster": "default", "node": self._name(node), "t0_s": at_s}
            uuids = [f"GPU-{rank:08d}" for rank in held]
            yield topics.DEVICE, events.DeviceSamples(**head, **self._number("device", node), uuids=uuids, **columns)
            columns = {name: [None] for name in wire.sample_columns(events.HostSamples)}
            columns |= {"time_s": [0.0], "cpu_ratio": [0.34], "cpu_ratio_per_core": [[0.34]]}
            columns |= {"memory_used_bytes": [212 << 30], "memory_total_bytes": [1024 << 30]}
            yield topics.HOST, events.HostSamples(**head, **self._number("host", node), **columns)

    def _own(self, first: int, steps: int) -> npt.NDArray[np.float64]:
        """Seconds of work, phases x ranks x steps."""
        base = np.array(list(PHASES.values()))[:, None, None]
        own = base * self._random.lognormal(0.0, 0.035, (len(PHASES), self.ranks, steps))
        own *= self._random.normal(1.0, 0.012, (1, 1, steps)) * np.linspace(0.985, 1.015, self.ranks)[None, :, None]
        compute = [list(PHASES).index("forward"), list(PHASES).index("backward")]
        slow = np.arange(first, first + steps) >= self.fault_step
        for phase in compute:
            own[phase, self.slow_rank, slow] *= 1.97
        return own

    def _number(self, topic: str, node: int) -> dict[str, Any]:
        producer = f"simulated-{self.job}-{node}"
        number = self._sequence[f"{topic}/{node}"] = self._sequence.get(f"{topic}/{node}", -1) + 1
        return {"producer": producer, "sequence": number}

    def _name(self, node: int) -> str:
        return f"gpu-{node + 1:02d}"
