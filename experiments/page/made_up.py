"""A feed of made-up jobs and machines for the page: seeded, filled at once, and carried on whenever it is asked."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from paceline import columns, events, topics, wire
from paceline.gpu.throttle import SOFTWARE_THERMAL
from ui.feed import Feed

#: Seconds a step in each phase of a healthy rank, and the part of the step that everybody waits.
PHASES = {"data": 0.02, "forward": 0.31, "backward": 0.58, "optimizer": 0.06}
WAIT_S, SLOW = 0.03, 1.6
#: Steps a message.
BATCH = 50


class MadeUp:
    """``jobs`` jobs of ``ranks`` ranks, eight a node, and ``nodes`` nodes in all; each job has one slow rank."""

    def __init__(self, ranks: int, steps: int, jobs: int = 1, nodes: int = 0) -> None:
        self.ranks, self.jobs, self.nodes = ranks, jobs, max(nodes, jobs * -(-ranks // 8))
        self.feed = Feed()
        self._steps = [0] * jobs
        self._random = np.random.default_rng(7)
        self._sequence: dict[tuple[str, str], int] = {}
        self._end = steps

    def fill(self, now_s: float) -> None:
        """All steps at once, the last of which ends at ``now_s``."""
        for job in range(self.jobs):
            self._tell(topics.JOB.short, self._described(job, now_s - self._end), now_s)
        for done in range(0, self._end, BATCH):
            self.go_on(now_s - self._end + done + BATCH, min(BATCH, self._end - done))
        for job in range(self.jobs):
            self._tell(topics.FINDING.short, self._finding(job), now_s)

    def go_on(self, now_s: float, steps: int, job: int | None = None) -> None:
        """``steps`` more steps of about a second each, and a sample of every machine; of one ``job``, or of all."""
        each = -(-self.ranks // 8)
        nodes = range(self.nodes) if job is None else range(job * each, (job + 1) * each)
        for one in range(self.jobs) if job is None else (job,):
            for event in self._timings(one, now_s - steps, steps):
                self._tell(topics.OP.short, event, now_s)
            self._tell(topics.WINDOW.short, self._window(one, now_s, steps), now_s)
            self._steps[one] += steps
        for node in nodes:
            self._tell(topics.DEVICE.short, self._devices(node, now_s), now_s)
            self._tell(topics.HOST.short, self._host(node, now_s), now_s)

    def _tell(self, short: str, event: Any, at_s: float) -> None:
        self.feed.update(short, event, at_s)

    def _head(self, job: int) -> dict[str, Any]:
        return {"cluster": "default", "job": f"llm-{job:03d}", "attempt": 0}

    def _number(self, topic: str, who: str) -> dict[str, Any]:
        number = self._sequence[topic, who] = self._sequence.get((topic, who), -1) + 1
        return {"producer": who, "sequence": number}

    def _slow_rank(self, job: int) -> int:
        return (job * 37 + 5) % self.ranks

    def _node(self, job: int, rank: int) -> int:
        return job * -(-self.ranks // 8) + rank // 8

    def _described(self, job: int, at_s: float) -> events.JobDescribed:
        places = [
            events.RankPlace(
                rank=rank,
                local_rank=rank % 8,
                node=_name(self._node(job, rank)),
                device=_uuid(self._node(job, rank), rank % 8),
                pid=4000 + rank,
            )
            for rank in range(self.ranks)
        ]
        return events.JobDescribed(
            **self._head(job),
            **self._number("job", f"job-{job}"),
            node=_name(self._node(job, 0)),
            world_size=self.ranks,
            backend="nccl",
            framework="torch",
            started_s=at_s,
            places=places,
        )

    def _timings(self, job: int, at_s: float, steps: int) -> Iterator[events.StepTimings]:
        base = np.array(list(PHASES.values()))[:, None, None]
        own = base * self._random.lognormal(0.0, 0.03, (len(PHASES), self.ranks, steps))
        own[1:3, self._slow_rank(job)] *= SLOW
        whole = own.sum(axis=0).max(axis=0) + WAIT_S
        begins = np.concatenate([[0.0], np.cumsum(whole)[:-1]]) * steps / whole.sum()
        for first in range(0, self.ranks, 8):
            held = np.arange(first, min(first + 8, self.ranks))
            at = np.tile(np.arange(steps), held.size)
            rank = np.repeat(held, steps)
            phases = {name: own[index, rank, at] for index, name in enumerate(PHASES)}
            phases["communication"] = whole[at] - own[:, rank, at].sum(axis=0)
            node = self._node(job, first)
            yield events.StepTimings(
                **self._head(job),
                **self._number("op", f"op-{job}-{node}"),
                node=_name(node),
                t0_s=at_s,
                speakers=events.Speakers(
                    ranks=columns.whole(held.tolist()),
                    world_sizes=columns.whole([self.ranks] * held.size),
                    devices=[_uuid(node, int(one) % 8) for one in held],
                ),
                rank=columns.whole(rank.tolist()),
                step=columns.whole((self._steps[job] + at).tolist()),
                start_s=columns.offsets(begins[at].tolist()),
                step_s=columns.durations(whole[at].tolist()),
                phases={name: columns.durations(seconds.tolist()) for name, seconds in phases.items()},
            )

    def _window(self, job: int, now_s: float, steps: int) -> events.JobWindow:
        own_s, moved = sum(PHASES.values()), 96 << 20
        worst_s = own_s + (SLOW - 1) * (PHASES["forward"] + PHASES["backward"])
        lines = [
            events.CollectiveLine(
                operation=operation,
                least_bytes=1 << power,
                calls=calls * steps,
                bytes=calls * steps * (moved >> (26 - power)),
                wait_s=0.02 * steps,
                duration_s=calls * steps * (moved >> (26 - power)) / speed,
            )
            for operation, power, calls, speed in (
                ("all_reduce", 26, 6, 1.9e11),
                ("all_gather", 24, 12, 4e9),
                ("reduce_scatter", 24, 12, 2.8e11),
                ("broadcast", 12, 2, 3e9),
            )
        ]
        return events.JobWindow(
            **self._head(job),
            start_s=now_s - 10,
            length_s=10.0,
            ranks=self.ranks,
            steps=steps,
            first_step=self._steps[job],
            last_step=self._steps[job] + steps - 1,
            step_median_s=worst_s + WAIT_S,
            step_p95_s=worst_s * 1.04,
            own_median_s=own_s,
            own_worst_s=worst_s,
            worst_rank=self._slow_rank(job),
            wait_ratio=1 - own_s / (worst_s + WAIT_S),
            phase_median_s=PHASES,
            collectives=lines,
        )

    def _finding(self, job: int) -> events.Finding:
        rank, lost_s = self._slow_rank(job), 0.5 * self._steps[job]
        return events.Finding(
            **self._head(job),
            id=f"straggler-{job}",
            revision=1,
            kind="straggler",
            state="confirmed",
            cause="worker_compute",
            ranks=[rank],
            stage=None,
            group=None,
            nodes=[_name(self._node(job, rank))],
            devices=[_uuid(self._node(job, rank), rank % 8)],
            first_step=5,
            last_step=self._steps[job],
            severity="critical",
            confidence=0.97,
            cost=events.Cost(lost_s=lost_s, gpu_hours=lost_s * self.ranks / 3600, throughput_lost_ratio=0.35),
            coverage=events.Coverage(ranks_expected=self.ranks, ranks_heard=self.ranks, events_missing=0),
            evidence=[events.Evidence(name="compute_s", value=1.42, unit="s", peers=0.89, rule="in 30 of 30 steps")],
            exonerated=["input pipeline: 20 ms a step, peers 20 ms"],
            summary=f"Rank {rank} computes {SLOW} times as long as its peers; all others wait.",
        )

    def _devices(self, node: int, now_s: float) -> events.DeviceSamples:
        told: dict[str, Any] = {name: [None] * 8 for name in wire.sample_columns(events.DeviceSamples)}
        noise = self._random.normal(0.0, 1.0, (4, 8))
        busy = np.clip((0.93 if node < self.jobs * -(-self.ranks // 8) else 0.04) + 0.03 * noise[0], 0, 1)
        hot = node % 23 == 11
        told |= {"device": list(range(8)), "time_s": [0.0] * 8, "utilization_ratio": busy.tolist()}
        told |= {"power_w": (90 + 520 * busy + 8 * noise[1]).tolist()}
        told |= {"temperature_celsius": (34 + 28 * busy + (22 if hot else 0) + noise[2]).tolist()}
        told |= {"sm_clock_mhz": (1980 - (560 if hot else 0) + 6 * noise[3]).tolist()}
        told |= {"throttle_reasons": [SOFTWARE_THERMAL.bit if hot and gpu < 3 else 0 for gpu in range(8)]}
        told |= {"fb_used_bytes": (busy * (70 << 30)).astype(int).tolist(), "fb_total_bytes": [80 << 30] * 8}
        told |= {"nvlink_rated_bytes_per_s": [4.5e11] * 8}
        head = {"cluster": "default", "node": _name(node), "t0_s": now_s, **self._number("device", _name(node))}
        return events.DeviceSamples(**head, uuids=[_uuid(node, gpu) for gpu in range(8)], **told)

    def _host(self, node: int, now_s: float) -> events.HostSamples:
        told: dict[str, Any] = {name: [None] for name in wire.sample_columns(events.HostSamples)}
        told |= {"time_s": [0.0], "cpu_ratio": [float(np.clip(0.3 + 0.04 * self._random.normal(), 0, 1))]}
        told |= {"cpu_ratio_per_core": [[]], "pressure_cpu_ratio": [0.02], "pressure_io_ratio": [0.01]}
        told |= {"memory_used_bytes": [412 << 30], "memory_total_bytes": [2 << 40]}
        head = {"cluster": "default", "node": _name(node), "t0_s": now_s, **self._number("host", _name(node))}
        return events.HostSamples(**head, **told)


def _name(node: int) -> str:
    return f"gpu-{node:05d}"


def _uuid(node: int, gpu: int) -> str:
    return f"GPU-{node:05d}-{gpu}"
