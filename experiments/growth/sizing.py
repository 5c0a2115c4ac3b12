"""From what a rank-step and a rank's second take to what a cluster needs.

Rule of this file: pure; every number is either measured (a field of ``Cost``) or named here.
"""

import math
from typing import NamedTuple

DAY_S = 86_400
#: Of a worker's core no more is planned: the rest catches up after a restart, and takes what comes unevenly.
PLANNED_SHARE = 0.5


class Cost(NamedTuple):
    """What one kind of job costs, as measured."""

    ranks_a_job: int
    steps_a_s: float
    us_a_rank_step: float
    held_bytes_a_rank: float
    snapshot_bytes_a_rank: float
    stored_bytes_a_rank_s: float
    bytes_a_rank_step: float
    packed_bytes_a_rank_step: float
    window_bytes_a_rank_s: float


class Need(NamedTuple):
    """What so many GPUs need; disk for one replica."""

    cores: float
    workers: int
    memory_bytes: float
    steps_bytes_a_day: float
    packed_steps_bytes_a_day: float
    window_bytes_a_day: float
    changelog_bytes_a_day: float


def needed(cost: Cost, gpus: int, empty_bytes: float) -> Need:
    """What ``gpus`` GPUs need, all of them in jobs as ``cost`` describes; a worker with nothing holds ``empty_bytes``.

    A job is judged by one worker, whatever its size: more workers than jobs are of no use. States are in memory twice:
    as they are worked with, and as they are stored.

    >>> cost = Cost(8, 1.0, 300.0, 6000.0, 1200.0, 600.0, 150.0, 90.0, 400.0)
    >>> need = needed(cost, 1000, 100e6)
    >>> round(need.cores, 3), need.workers, round(need.memory_bytes / 1e6), round(need.steps_bytes_a_day / 1e9, 2)
    (0.3, 1, 107, 12.96)
    """
    rank_steps_a_s = gpus * cost.steps_a_s
    cores = rank_steps_a_s * cost.us_a_rank_step / 1e6
    jobs = max(gpus // cost.ranks_a_job, 1)
    workers = min(max(math.ceil(cores / PLANNED_SHARE), 1), jobs)
    return Need(
        cores=cores,
        workers=workers,
        memory_bytes=workers * empty_bytes + gpus * (cost.held_bytes_a_rank + cost.snapshot_bytes_a_rank),
        steps_bytes_a_day=DAY_S * rank_steps_a_s * cost.bytes_a_rank_step,
        packed_steps_bytes_a_day=DAY_S * rank_steps_a_s * cost.packed_bytes_a_rank_step,
        window_bytes_a_day=DAY_S * gpus * cost.window_bytes_a_rank_s,
        changelog_bytes_a_day=DAY_S * gpus * cost.stored_bytes_a_rank_s,
    )
