"""One rank beside those with equal work: its steps, its GPU and its host, over time.

Rule of this file: pure. Its cohort are the ranks of its pipeline stage, or of the job where no stages are known; None
and NaN are *not measured*.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .gauge_ring import SLOT_S, Histories
from .job_buffer import LAYERS, PHASE_STEPS, JobBuffer
from .machines import Machines
from .ratios import quiet_median
from .step_ring import Floats, Ints

#: Peers whose GPUs and hosts are looked at, evenly chosen among more.
PEERS = 64


@dataclass(frozen=True)
class Gauges:
    """What a machine was at ``at_s``, and the median of its ``peers`` then, NaN without any: an array a metric."""

    at_s: npt.NDArray[np.float64]
    own: dict[str, Floats]
    median: dict[str, Floats]
    peers: int


@dataclass(frozen=True)
class RankView:
    """A rank: where it runs, and phases x steps of it and of the cohort's median rank; ``cohort`` has it, too.

    One that is alone in its cohort has no median beside it: NaN.
    """

    rank: int
    node: str
    device: str
    stage: int | None
    cohort: Ints
    steps: Ints
    at_s: npt.NDArray[np.float64]
    own_s: dict[str, Floats]
    median_s: dict[str, Floats]
    gpu: Gauges | None
    host: Gauges | None


def rank_view(buffer: JobBuffer, machines: Machines, rank: int) -> RankView | None:
    """What is held of ``rank``; None where nobody has told of it."""
    if rank not in buffer.nodes and rank >= buffer.phases.ranks:
        return None
    stage, cohort = _cohort(buffer, rank)
    steps, values, _ = buffer.phases.last(PHASE_STEPS)
    all_steps, _, all_at_s = buffer.matrix.last(buffer.matrix.steps)
    at_s = np.full(steps.size, np.nan)
    known = np.isin(steps, all_steps)
    at_s[known] = all_at_s[np.searchsorted(all_steps, steps[known])]
    none = np.full((len(LAYERS), steps.size), np.nan, np.float32)
    own = values[:, rank] if rank < values.shape[1] else none
    told = cohort[cohort < values.shape[1]]
    median = quiet_median(values[:, told], axis=1) if (told != rank).any() else none
    node, device = buffer.nodes.get(rank, ""), buffer.devices.get(rank, "")
    return RankView(
        rank=rank,
        node=node,
        device=device,
        stage=stage,
        cohort=cohort,
        steps=steps,
        at_s=at_s,
        own_s={name: own[at] for at, name in enumerate(LAYERS)},
        median_s={name: median[at] for at, name in enumerate(LAYERS)},
        gpu=_gpu(buffer, machines, rank, cohort),
        host=_host(buffer, machines, node, cohort),
    )


def _cohort(buffer: JobBuffer, rank: int) -> tuple[int | None, Ints]:
    """The stage of ``rank``, where it is known, and the ranks with equal work."""
    stages = buffer.stages
    stage = stages.get(rank)
    everyone = sorted({*buffer.nodes, *range(buffer.phases.ranks), rank})
    mine = everyone if stage is None else [one for one in everyone if stages.get(one) == stage]
    return stage, np.array(mine, np.int64)


def _gpu(buffer: JobBuffer, machines: Machines, rank: int, cohort: Ints) -> Gauges | None:
    def row(one: int) -> int | None:
        return machines.gpu_row(buffer.nodes.get(one, ""), buffer.devices.get(one, ""), buffer.job, one)

    own = row(rank)
    if own is None:
        return None
    others = cohort[cohort != rank]
    found = [row(int(others[at])) for at in _some(others.size)]
    peers = sorted({at for at in found if at is not None and at != own})
    return _beside(machines.gpu_history([own, *peers]))


def _host(buffer: JobBuffer, machines: Machines, node: str, cohort: Ints) -> Gauges | None:
    others = sorted({buffer.nodes.get(int(one), "") for one in cohort} - {node})
    held = machines.host_history([node])
    if held.at_s.shape[0] == 0 or not np.isfinite(held.at_s).any():
        return None
    return _beside(machines.host_history([node, *(others[at] for at in _some(len(others)))]))


def _some(count: int) -> list[int]:
    """The places of at most ``PEERS`` of ``count`` items, evenly chosen."""
    places: list[int] = np.unique(np.linspace(0, count - 1, PEERS).astype(int)).tolist() if count else []
    return places


def _beside(held: Histories) -> Gauges | None:
    """The first row of ``held`` and, slot by slot, the median of the others that were heard in the same ten seconds."""
    there = np.isfinite(held.at_s[0])
    if not there.any():
        return None
    at_s = held.at_s[0, there]
    bucket = np.floor(at_s / SLOT_S)
    others = np.floor(held.at_s[1:] / SLOT_S)
    lined = np.full((len(held.metrics), held.at_s.shape[0] - 1, at_s.size), np.nan, np.float32)
    for peer in range(others.shape[0]):
        order = np.argsort(others[peer], kind="stable")
        found = np.searchsorted(others[peer][order], bucket)
        place = order[np.minimum(found, order.size - 1)]
        same = others[peer][place] == bucket
        lined[:, peer, same] = held.values[:, peer + 1, place[same]]
    median = quiet_median(lined, axis=1)
    return Gauges(
        at_s=at_s,
        own={name: held.values[at, 0, there] for at, name in enumerate(held.metrics)},
        median={name: median[at] for at, name in enumerate(held.metrics)},
        peers=int(np.isfinite(lined).any(axis=(0, 2)).sum()),
    )
