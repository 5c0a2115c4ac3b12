"""Made-up descriptions of jobs, and findings on them, as events.

Rule of this file: pure; the same seed makes the same events.
"""

from collections.abc import Iterator

import numpy as np

from paceline import events

from .fleet import GPUS, Fleet, MadeJob, node_name
from .windows import CLUSTER

#: Kinds of findings with their cause, and how often they are told.
KINDS = (
    ("straggler", "worker_compute", 0.2),
    ("straggler", "throttling", 0.15),
    ("straggler", "cpu_contention", 0.1),
    ("straggler", "garbage_collection", 0.05),
    ("communication_bound", "link", 0.1),
    ("data_bound", "input_pipeline", 0.2),
    ("load_imbalance", "sequence_length", 0.05),
    ("stage_imbalance", "pipeline_stage", 0.05),
    ("device_fault", "unknown", 0.05),
    ("idle_device", "unknown", 0.05),
)
#: How long an episode lasts, about, and how much of a job's pace it costs at most.
EPISODE_S, MOST_LOST = 1500.0, 0.3


def described(fleet: Fleet) -> Iterator[tuple[float, events.JobDescribed]]:
    """What each node of each job says when its ranks join, and when they leave, by time."""
    told: list[tuple[float, events.JobDescribed]] = []
    for job in fleet.jobs:
        for at in range(job.nodes):
            begun = _described(job, at)
            told.append((job.start_s, begun))
            if job.end_s < fleet.start_s + fleet.days * 86_400.0:
                told.append((job.end_s, _described(job, at, job.end_s)))
    yield from sorted(told, key=lambda one: one[0])


def _described(job: MadeJob, at: int, ended_s: float | None = None) -> events.JobDescribed:
    node = node_name(job.first_node + at)
    places = [
        events.RankPlace(rank=at * GPUS + each, local_rank=each, node=node, device=f"cuda:{each}", pid=4000 + each)
        for each in range(GPUS)
    ]
    return events.JobDescribed(
        cluster=CLUSTER,
        producer=f"{node}/{job.name}",
        sequence=0 if ended_s is None else 1,
        job=job.name,
        attempt=0,
        node=node,
        world_size=job.nodes * GPUS,
        backend="nccl",
        framework="torch",
        started_s=job.start_s,
        ended_s=ended_s,
        exit_status=None if ended_s is None else 0,
        places=places,
        batch_size=job.nodes * GPUS * 4,
        labels={"user": f"user{job.shape}", "project": f"project-{job.first_node % 7}"},
    )


def findings(fleet: Fleet, count: int, rng: np.random.Generator) -> Iterator[tuple[float, events.Finding]]:
    """About ``count`` findings, each told two or three times, by time; long and large jobs have more."""
    weights = np.array([(job.end_s - job.start_s) * np.sqrt(job.nodes) for job in fleet.jobs])
    told: list[tuple[float, events.Finding]] = []
    for number, owner in enumerate(rng.choice(len(fleet.jobs), count, p=weights / weights.sum())):
        told += _episode(fleet.jobs[int(owner)], number, rng)
    yield from sorted(told, key=lambda one: one[0])


def _episode(job: MadeJob, number: int, rng: np.random.Generator) -> Iterator[tuple[float, events.Finding]]:
    kind, cause, _ = KINDS[int(rng.choice(len(KINDS), p=[odds for _, _, odds in KINDS]))]
    begins_s = float(rng.uniform(job.start_s, job.end_s))
    lasts_s = float(min(rng.exponential(EPISODE_S), job.end_s - begins_s))
    rank, ratio = int(rng.integers(job.nodes * GPUS)), float(rng.uniform(0.02, MOST_LOST))
    states = ("suspected", "confirmed", "recovered") if rng.random() < 0.6 else ("suspected", "recovered")
    for revision, state in enumerate(states, 1):
        at_s = begins_s + lasts_s * (revision - 1) / (len(states) - 1)
        yield (
            at_s,
            _finding(
                job, f"{number:08x}{job.first_node:08x}", kind, cause, rank, ratio, revision, state, at_s - begins_s
            ),
        )


def _finding(
    job: MadeJob, name: str, kind: str, cause: str, rank: int, ratio: float, revision: int, state: str, lasted_s: float
) -> events.Finding:
    lost_s = round(lasted_s * ratio, 6)
    node = node_name(job.first_node + rank // GPUS)
    return events.Finding(
        id=name,
        revision=revision,
        kind=kind,
        state=state,
        cluster=CLUSTER,
        job=job.name,
        attempt=0,
        cause=cause,
        ranks=[rank],
        stage=None,
        group=None,
        nodes=[node],
        devices=[f"cuda:{rank % GPUS}"],
        first_step=int(lasted_s),
        last_step=int(lasted_s + 100),
        severity="warning" if ratio < 0.2 else "critical",
        confidence=round(0.6 + ratio, 3),
        cost=events.Cost(
            lost_s=lost_s, gpu_hours=round(lost_s * job.nodes * GPUS / 3600.0, 6), throughput_lost_ratio=round(ratio, 6)
        ),
        coverage=events.Coverage(ranks_expected=job.nodes * GPUS, ranks_heard=job.nodes * GPUS, events_missing=0),
        evidence=[
            events.Evidence(
                name="own_s",
                value=round(job.step_s * (1 + ratio), 6),
                unit="s",
                peers=round(job.step_s, 6),
                rule="own time against that of ranks with equal work",
            ),
            events.Evidence(
                name="late_ratio",
                value=round(0.5 + ratio, 6),
                unit="ratio",
                peers=0.0,
                rule="steps in which it came last",
            ),
            events.Evidence(name="sm_clock_mhz", value=1410.0, unit="MHz", peers=1980.0, rule="against the same model"),
        ],
        exonerated=["input pipeline: 2 % of the step", "garbage collection: none"],
        summary=f"Rank {rank} on {node} holds {job.name} back: {ratio:.0%} of its pace since step {int(lasted_s)}.",
    )
