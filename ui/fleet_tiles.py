"""The fleet as tiles: which GPUs are shown, gathered how, in which order, and what is wrong with them.

Rule of this file: pure. Up to 64 nodes every GPU has a tile, up to 2,048 every node, beyond that every group of
neighbours by name: of what is gathered the worst GPU counts, never an average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline.gpu.throttle import SLOWING

from .machines import FleetView
from .snapshot import JobLine
from .step_ring import Floats, Ints, Rows

#: Seconds after which a node's numbers are the past; ahead of the page by more than this a clock is wrong.
STALE_S, AHEAD_S = 30.0, 60.0
#: Nodes of which each GPU has a tile, and tiles there are at most.
IN_FULL, TILES = 64, 2_048


class Metric(NamedTuple):
    """What tiles can show: its words, its unit and what a value is multiplied by for it, where its scale begins and
    ends (None: at the largest there is), and which end is worse."""

    name: str
    words: str
    unit: str
    factor: float
    low: float
    high: float | None
    worse: Literal["low", "high"]


METRICS = (
    Metric("utilization_ratio", "Utilisation", "%", 100.0, 0.0, 100.0, "low"),
    Metric("sm_active_ratio", "SM activity", "%", 100.0, 0.0, 100.0, "low"),
    Metric("tensor_active_ratio", "Tensor activity", "%", 100.0, 0.0, 100.0, "low"),
    Metric("dram_active_ratio", "Memory bandwidth", "%", 100.0, 0.0, 100.0, "low"),
    Metric("memory_ratio", "Memory used", "%", 100.0, 0.0, 100.0, "high"),
    Metric("power_w", "Power", "W", 1.0, 0.0, None, "high"),
    Metric("temperature_celsius", "Temperature", "°C", 1.0, 20.0, 100.0, "high"),
    Metric("sm_clock_mhz", "SM clock", "MHz", 1.0, 0.0, None, "low"),
)
BY_NAME = {metric.name: metric for metric in METRICS}


@dataclass(frozen=True)
class Tiles:
    """Tiles in the order in which they are read, worst first: ``values`` is blocks x tiles, NaN is no tile or no value.

    A block is a node where ``per`` is ``gpu``, and holds one tile otherwise. ``names`` says of a block which nodes it
    is, as a search finds them; ``gathered`` is nodes a tile. ``gpu`` is the place in the fleet of each tile's GPU, -1
    for none.
    """

    per: Literal["gpu", "node", "group"]
    names: tuple[str, ...]
    values: Floats
    gpu: Ints
    stale: Rows
    throttled: Rows
    gathered: int


def searched(fleet: FleetView, jobs: Sequence[JobLine], find: str) -> Ints:
    """The places of nodes that ``find`` means: part of the name of a node, GPU or job, or ``FIRST..LAST``."""
    wanted = find.strip().lower()
    if not wanted:
        return np.arange(len(fleet.nodes))
    first, dots, last = wanted.partition("..")
    if dots and first and last:
        return np.array([at for at, name in enumerate(fleet.nodes) if first <= name.lower() <= last], np.int64)
    of_jobs = {node for line in jobs if wanted in line.name.lower() for node in line.nodes}
    by_uuid = {int(fleet.gpu_node[at]) for at, uuid in enumerate(fleet.uuids) if wanted in uuid.lower()}
    found = [at for at, name in enumerate(fleet.nodes) if wanted in name.lower() or name in of_jobs or at in by_uuid]
    return np.array(found, np.int64)


def running_on(jobs: Sequence[JobLine], now_s: float) -> dict[str, JobLine]:
    """By node the job that runs there: of several the one that reported last."""
    running = sorted((line for line in jobs if line.reports(now_s)), key=lambda line: line.last_s or 0.0)
    return {node: line for line in running for node in line.nodes}


def stale(fleet: FleetView, now_s: float) -> Rows:
    """Which nodes have not been heard lately."""
    old: Rows = now_s - fleet.node_s > STALE_S
    return old


def throttled(fleet: FleetView) -> Rows:
    """Which GPUs run below the clock that was asked of them."""
    reasons = np.nan_to_num(fleet.gpu["throttle_reasons"]).astype(np.int64) if fleet.gpu else np.empty(0, np.int64)
    slowed: Rows = (reasons & SLOWING) != 0
    return slowed


def shown(fleet: FleetView, metric: Metric) -> Floats:
    """The values of ``metric`` of all GPUs in its unit."""
    values = fleet.gpu[metric.name] if fleet.gpu else np.empty(0, np.float32)
    return values * np.float32(metric.factor)


def badness(values: Floats, metric: Metric) -> npt.NDArray[np.float64]:
    """How bad each of ``values`` is, the largest being the worst; what is not measured is least of all."""
    signed = -values if metric.worse == "low" else values
    return np.where(np.isfinite(values), signed, -np.inf).astype(np.float64)


def tiles(fleet: FleetView, nodes: Ints, metric: Metric, now_s: float) -> Tiles:
    """The tiles of the nodes in places ``nodes``."""
    rows = np.flatnonzero(np.isin(fleet.gpu_node, nodes))
    with_gpus = np.unique(fleet.gpu_node[rows])
    if with_gpus.size <= IN_FULL:
        return _in_full(fleet, rows, with_gpus, metric, now_s)
    gathered = -(-with_gpus.size // TILES)
    group = np.searchsorted(with_gpus, fleet.gpu_node[rows]) // gathered
    bad = badness(shown(fleet, metric)[rows], metric)
    order = np.lexsort((-bad, group))
    firsts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    worst = rows[order[firsts]]
    told = np.argsort(-bad[order[firsts]], kind="stable")
    late, slow = stale(fleet, now_s), throttled(fleet)
    starts = with_gpus[::gathered]
    ends = with_gpus[np.minimum(np.arange(starts.size) * gathered + gathered - 1, with_gpus.size - 1)]
    names = [_span(fleet, int(first), int(last)) for first, last in zip(starts, ends, strict=True)]
    any_late = np.maximum.reduceat(late[fleet.gpu_node[rows]], np.flatnonzero(np.diff(group, prepend=-1)))
    any_slow = np.maximum.reduceat(slow[rows], np.flatnonzero(np.diff(group, prepend=-1)))
    return Tiles(
        per="node" if gathered == 1 else "group",
        names=tuple(names[at] for at in told),
        values=shown(fleet, metric)[worst[told]][:, None],
        gpu=worst[told][:, None],
        stale=any_late[told][:, None],
        throttled=any_slow[told][:, None],
        gathered=gathered,
    )


def _in_full(fleet: FleetView, rows: Ints, nodes: Ints, metric: Metric, now_s: float) -> Tiles:
    """A block a node and a tile a GPU."""
    values, late, slow = shown(fleet, metric), stale(fleet, now_s), throttled(fleet)
    width = int(fleet.gpu_index[rows].max()) + 1 if rows.size else 0
    gpu = np.full((nodes.size, width), -1, np.int64)
    gpu[np.searchsorted(nodes, fleet.gpu_node[rows]), fleet.gpu_index[rows]] = rows
    there = gpu >= 0
    held = np.where(there, values[gpu], np.float32(np.nan)) if rows.size else np.empty((0, 0), np.float32)
    worst = badness(held, metric).max(axis=1, initial=-np.inf)
    order = np.argsort(-worst, kind="stable")
    return Tiles(
        per="gpu",
        names=tuple(fleet.nodes[at] for at in nodes[order]),
        values=held[order],
        gpu=gpu[order],
        stale=(there & late[nodes][:, None])[order] if rows.size else there,
        throttled=(there & slow[gpu])[order] if rows.size else there,
        gathered=1,
    )


def worst_gpus(fleet: FleetView, nodes: Ints, metric: Metric, count: int) -> Ints:
    """The places of the ``count`` worst GPUs of ``nodes``, worst first; those not measured are left out."""
    rows = np.flatnonzero(np.isin(fleet.gpu_node, nodes))
    bad = badness(shown(fleet, metric)[rows], metric)
    order = np.argsort(-bad, kind="stable")[:count]
    return rows[order[np.isfinite(bad[order])]]


def _span(fleet: FleetView, first: int, last: int) -> str:
    return fleet.nodes[first] if first == last else f"{fleet.nodes[first]}..{fleet.nodes[last]}"
