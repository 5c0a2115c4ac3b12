"""Which made-up jobs ran where and when: whole nodes, side by side, for a month.

Rule of this file: pure; the same seed makes the same month.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Sizes of jobs in nodes of eight GPUs, and how often each is asked for.
SIZES, ODDS = (1, 2, 4, 8, 16, 32, 64, 128), (0.2, 0.16, 0.16, 0.16, 0.14, 0.1, 0.06, 0.02)
GPUS = 8
BUCKET_S = 300
DAY_S = 86_400
#: How long a median job runs, and how far others are from it (log-normal).
MEDIAN_S, SPREAD = 9 * 3600.0, 1.1


class MadeJob(NamedTuple):
    """A job on ``nodes`` nodes from ``first_node`` on, in which a step takes ``step_s``."""

    name: str
    shape: int
    first_node: int
    nodes: int
    start_s: float
    end_s: float
    step_s: float


class Fleet(NamedTuple):
    """A cluster and what ran there: from ``start_s``, for so many days, in buckets of five minutes.

    ``owner`` is, by node and bucket, the number of the job, -1 where none was; ``heard`` whether the node was.
    """

    nodes: int
    days: int
    start_s: float
    jobs: list[MadeJob]
    owner: NDArray[np.int32]
    heard: NDArray[np.bool_]


def made_up(nodes: int, days: int, jobs: int, start_s: float, shapes: int, seed: int = 0) -> Fleet:
    """A month: each job starts where a block of its size is free first, until the month ends or no job is left."""
    rng = np.random.default_rng(seed)
    free_s = np.full(nodes, start_s)
    end_s = start_s + days * DAY_S
    sizes = [size for size in SIZES if size <= nodes]
    odds = np.array(ODDS[: len(sizes)]) / sum(ODDS[: len(sizes)])
    made: list[MadeJob] = []
    for number in range(jobs):
        size = int(rng.choice(sizes, p=odds))
        blocks = free_s[: nodes // size * size].reshape(-1, size).max(axis=1)
        first = int(blocks.argmin()) * size
        begins_s = blocks[first // size] + rng.exponential(3600.0)
        # Small jobs are short: who tries something out does not keep a node for a week.
        lasts_s = rng.lognormal(math.log(MEDIAN_S), SPREAD) * (0.5 + math.log2(2 * size) / 8)
        ends_s = min(begins_s + min(lasts_s, 21 * DAY_S), end_s)
        if begins_s >= end_s - 600.0:
            continue
        free_s[first : first + size] = ends_s
        name = f"{['pretrain', 'tune', 'evaluate', 'serve', 'notebook'][number % 5]}-{number:04d}"
        step_s = float(rng.lognormal(math.log(2.0), 0.8))
        made.append(MadeJob(name, int(rng.integers(shapes)), first, size, float(begins_s), float(ends_s), step_s))
    return Fleet(nodes, days, start_s, made, _owners(made, nodes, days, start_s), _heard(nodes, days, rng))


def _owners(jobs: list[MadeJob], nodes: int, days: int, start_s: float) -> NDArray[np.int32]:
    owner = np.full((nodes, days * DAY_S // BUCKET_S), -1, dtype=np.int32)
    for number, job in enumerate(jobs):
        first, last = (math.ceil((at_s - start_s) / BUCKET_S) for at_s in (job.start_s, job.end_s))
        owner[job.first_node : job.first_node + job.nodes, first:last] = number
    return owner


def _heard(nodes: int, days: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A node in ten was away for some hours, and all for ten minutes once."""
    buckets = days * DAY_S // BUCKET_S
    heard = np.ones((nodes, buckets), dtype=bool)
    for node in rng.choice(nodes, nodes // 10, replace=False):
        first = int(rng.integers(buckets))
        heard[node, first : first + int(rng.integers(3, 100))] = False
    away = int(rng.integers(buckets - 2))
    heard[:, away : away + 2] = False
    return heard


def node_name(number: int) -> str:
    """What a node is called.

    >>> node_name(41)
    'gpu-0041'
    """
    return f"gpu-{number:04d}"
