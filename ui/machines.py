"""The machines: what each GPU and each host last was, and was before, in columns.

Rule of this file: pure and bounded. Samples are taken apart when they come; no message is kept. A node's devices are
those of its newest message; a node that has gone longest unheard makes room for a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paceline.events import DeviceSamples, HostSamples

from .gauge_ring import GaugeRing, Histories
from .step_ring import Floats, Ints

#: Nodes and GPUs that are kept; a node that tells of more GPUs than this has the first of them.
NODES, GPUS, GPUS_A_NODE = 16_384, 131_072, 64
#: What is kept of a GPU, and of a host.
GPU_METRICS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_ratio",
    "power_w",
    "temperature_celsius",
    "sm_clock_mhz",
    "throttle_reasons",
    "nvlink_rated_bytes_per_s",
)
HOST_METRICS = (
    "cpu_ratio",
    "memory_ratio",
    "pressure_cpu_ratio",
    "pressure_memory_ratio",
    "pressure_io_ratio",
    "cpu_steal_ratio",
    "network_rx_bytes_per_s",
    "network_tx_bytes_per_s",
    "memory_used_bytes",
    "memory_total_bytes",
)


@dataclass
class Node:
    """Where a node's numbers lie, when it was last heard, and which of its GPUs which rank of a job uses."""

    row: int
    gpu_rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    uuids: tuple[str, ...] = ()
    ranks: dict[tuple[str, int], int] = field(default_factory=dict)
    last_s: float = 0.0


@dataclass(frozen=True)
class FleetView:
    """Every node and GPU at one moment. GPUs stand in the order of their nodes, and nodes in that of their names.

    ``gpu_node`` is the place of a GPU's node in ``nodes``, ``gpu_index`` its number there. ``gpu`` and ``host`` have an
    array a metric, NaN where it is not measured; ``node_s`` is when a node was last heard, Unix seconds.
    """

    nodes: tuple[str, ...] = ()
    node_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    uuids: tuple[str, ...] = ()
    gpu_node: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    gpu_index: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    gpu: dict[str, Floats] = field(default_factory=dict)
    host: dict[str, Floats] = field(default_factory=dict)


class Machines:
    """Every node's GPUs and host."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._gpus = GaugeRing(GPU_METRICS, GPUS)
        self._hosts = GaugeRing(HOST_METRICS, NODES, cells=8_000_000)
        self._free: list[int] = []
        self._free_nodes: list[int] = []
        self._made = 0
        self._layout: tuple[tuple[str, ...], tuple[str, ...], Ints, Ints, Ints, Ints] | None = None

    def sample_devices(self, event: DeviceSamples, at_s: float) -> None:
        """Take the newest row of each GPU of a node, written at ``at_s``."""
        node = self._node(event.node, at_s)
        uuids = tuple(event.uuids[:GPUS_A_NODE])
        if uuids != node.uuids:
            self._settle(node, uuids)
        newest = {device: row for row, device in enumerate(event.device) if device < len(node.gpu_rows)}
        node.ranks = {
            (process.job, process.rank): process.device
            for process in event.processes[: 4 * GPUS_A_NODE]
            if process.job is not None and process.rank is not None
        }
        rows = list(newest.values())
        columns = [_ratio(event.fb_used_bytes, event.fb_total_bytes, rows) if name == "memory_ratio" else
                   _column(getattr(event, name), rows) for name in GPU_METRICS]  # fmt: skip
        self._gpus.put(node.gpu_rows[list(newest)], at_s, np.array(columns, np.float64).reshape(len(columns), -1))

    def sample_host(self, event: HostSamples, at_s: float) -> None:
        """Take the newest row of a node's host, written at ``at_s``."""
        node = self._node(event.node, at_s)
        if not event.time_s:
            return
        columns = [_ratio(event.memory_used_bytes, event.memory_total_bytes, [-1]) if name == "memory_ratio" else
                   _column(getattr(event, name), [-1]) for name in HOST_METRICS]  # fmt: skip
        self._hosts.put(np.array([node.row]), at_s, np.array(columns, np.float64))

    def view(self) -> FleetView:
        """Every node and GPU now."""
        names, uuids, gpu_rows, gpu_node, gpu_index, node_rows = self._ordered()
        gpu, host = _columns(self._gpus.newest, gpu_rows), _columns(self._hosts.newest, node_rows)
        return FleetView(
            nodes=names,
            node_s=np.array([self.nodes[name].last_s for name in names]),
            uuids=uuids,
            gpu_node=gpu_node,
            gpu_index=gpu_index,
            gpu={name: gpu[at] for at, name in enumerate(GPU_METRICS)},
            host={name: host[at] for at, name in enumerate(HOST_METRICS)},
        )

    def gpu_row(self, node: str, device: str, job: str, rank: int) -> int | None:
        """Where the numbers of a rank's GPU lie: by its processes, its UUID, or its number as ``cuda:N``."""
        held = self.nodes.get(node)
        if held is None:
            return None
        at = held.ranks.get((job, rank))
        if at is None and device in held.uuids:
            at = held.uuids.index(device)
        number = device.removeprefix("cuda:")
        if at is None and number != device and number.isascii() and number.isdigit():
            at = int(number[:4])
        row = int(held.gpu_rows[at]) if at is not None and at < len(held.gpu_rows) else None
        return row if row is not None and row < self._gpus.rows else None

    def gpu_history(self, rows: Sequence[int]) -> Histories:
        """What GPUs were; ``rows`` as ``gpu_row`` told them."""
        return self._gpus.history(np.array(rows, np.int64))

    def host_history(self, nodes: Sequence[str]) -> Histories:
        """What hosts were; those of unknown nodes are left out."""
        rows = [self.nodes[name].row for name in nodes if name in self.nodes]
        return self._hosts.history(np.array([row for row in rows if row < self._hosts.rows], np.int64))

    def _node(self, name: str, at_s: float) -> Node:
        node = self.nodes.get(name)
        if node is None:
            if len(self.nodes) >= NODES:
                self._drop(min(self.nodes, key=lambda held: self.nodes[held].last_s))
            row = self._free_nodes.pop() if self._free_nodes else len(self.nodes)
            node = self.nodes[name] = Node(row)
            self._layout = None
        node.last_s = at_s  # Not the latest: a clock that was hours ahead and is set right must not look silent.
        return node

    def _drop(self, name: str) -> None:
        node = self.nodes.pop(name)
        self._settle(node, ())
        self._hosts.forget(np.array([node.row])[: int(node.row < self._hosts.rows)])
        self._free_nodes.append(node.row)

    def _settle(self, node: Node, uuids: tuple[str, ...]) -> None:
        """Give ``node`` a row for each of its GPUs: other GPUs than before start with nothing behind them."""
        self._gpus.forget(node.gpu_rows[node.gpu_rows < self._gpus.rows])
        self._free += node.gpu_rows.tolist()
        rows: list[int] = []
        while len(rows) < len(uuids) and (self._free or self._made < GPUS):
            if self._free:
                rows.append(self._free.pop())
            else:
                rows.append(self._made)
                self._made += 1
        node.gpu_rows, node.uuids, self._layout = np.array(rows, np.int64), uuids[: len(rows)], None

    def _ordered(self) -> tuple[tuple[str, ...], tuple[str, ...], Ints, Ints, Ints, Ints]:
        """Names, UUIDs, rows of GPUs, their nodes' places, their numbers, and rows of hosts, in the order of names."""
        if self._layout is None:
            names = tuple(sorted(self.nodes))
            nodes = [self.nodes[name] for name in names]
            counts = [len(node.gpu_rows) for node in nodes]
            rows = np.concatenate([node.gpu_rows for node in nodes]) if nodes else np.empty(0, np.int64)
            index = np.concatenate([np.arange(count) for count in counts]) if nodes else np.empty(0, np.int64)
            places = np.repeat(np.arange(len(nodes)), counts)
            hosts = np.array([node.row for node in nodes], np.int64)
            self._layout = names, tuple(uuid for node in nodes for uuid in node.uuids), rows, places, index, hosts
        return self._layout


def _column(column: Sequence[float | None], rows: Sequence[int]) -> list[float]:
    """The numbers of ``rows``; an older producer leaves columns out: they are empty then."""
    if not column:
        return [np.nan] * len(rows)
    return [np.nan if column[row] is None else float(column[row]) for row in rows]  # type: ignore[arg-type]


def _ratio(part: Sequence[int | None], whole: Sequence[int | None], rows: Sequence[int]) -> list[float]:
    pairs = zip(_column(part, rows), _column(whole, rows), strict=True)
    return [used / total if total > 0 else np.nan for used, total in pairs]


def _columns(newest: Floats, rows: Ints) -> Floats:
    """Columns ``rows`` of ``newest``; NaN of those beyond it, of which nothing came yet."""
    out = np.full((newest.shape[0], rows.size), np.nan, np.float32)
    there = rows < newest.shape[1]
    out[:, there] = newest[:, rows[there]]
    return out
