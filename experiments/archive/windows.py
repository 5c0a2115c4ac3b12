"""Made-up windows of GPUs and jobs as Arrow tables, as the archive's own tables have them.

Rule of this file: pure. Numbers are as wide as real ones: means of samples that a counter has in steps of its own, so
that they take as much room, and what an H100 with DCGM measures is there while all else is null.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from archive.column_buffers import schema
from paceline.history.table import Table
from paceline.history.tables import DEVICE_WINDOW, JOB_WINDOW

from .fleet import BUCKET_S, DAY_S, GPUS, Fleet, node_name

Floats = NDArray[np.float64]
CLUSTER = "month"
PARTITIONS = 12


class Shape(NamedTuple):
    """How a kind of job looks on a GPU: its level while it works, how much of the time, and how that changes."""

    level: float
    tensor: float
    nvlink: float
    memory: float
    noise: float
    period: int
    dip: float


#: Training, training that evaluates, starved of input, inference by the day, notebooks; the last one: nothing runs.
SHAPES = (
    Shape(0.97, 0.42, 0.8, 0.92, 0.01, 1, 0.0),
    Shape(0.95, 0.38, 0.6, 0.85, 0.02, 12, 0.5),
    Shape(0.55, 0.16, 0.2, 0.6, 0.15, 7, 0.3),
    Shape(0.45, 0.1, 0.02, 0.8, 0.1, 288, 0.7),
    Shape(0.12, 0.02, 0.0, 0.3, 0.5, 40, 0.9),
    Shape(0.0, 0.0, 0.0, 0.01, 0.0, 1, 0.0),
)
#: Column -> its value at full activity, what it adds to when idle, and the step in which a sample is told.
COLUMNS: Mapping[str, tuple[float, float, float]] = {
    "utilization_ratio": (1.0, 0.0, 0.01),
    "memory_controller_ratio": (0.6, 0.0, 0.01),
    "sm_active_ratio": (0.6, 0.0, 1e-6),
    "dram_active_ratio": (0.5, 0.0, 1e-6),
    "power_w": (570.0, 75.0, 0.001),
    "temperature_celsius": (35.0, 31.0, 1.0),
    "memory_temperature_celsius": (40.0, 36.0, 1.0),
    "pcie_rx_bytes_per_s": (6e9, 2e6, 1.0),
    "pcie_tx_bytes_per_s": (4e9, 2e6, 1.0),
}
CONSTANT: Mapping[str, float] = {
    "fb_total_bytes": 85_520_809_984.0,
    "power_limit_w": 700.0,
    "memory_clock_mhz": 2619.0,
    "pcie_replays": 0.0,
    "ecc_corrected": 0.0,
    "ecc_uncorrected": 0.0,
    "remapped_rows": 0.0,
    "nvlink_crc_errors": 0.0,
    "nvlink_rated_bytes_per_s": 450e9,
}


def device_windows(fleet: Fleet, begin: int, end: int, rng: np.random.Generator) -> pa.Table:
    """The windows of all GPUs in the buckets from ``begin`` to before ``end``, by node, GPU and time."""
    span = end - begin
    owner = np.repeat(fleet.owner[:, None, begin:end], GPUS, axis=1).ravel()
    told = np.repeat(fleet.heard[:, None, begin:end], GPUS, axis=1).ravel()
    kinds = np.array([*(job.shape for job in fleet.jobs), len(SHAPES) - 1])
    bucket = np.tile(np.arange(begin, end), fleet.nodes * GPUS)
    active = _activity(kinds[owner], bucket, owner, rng)
    lost = rng.random(len(owner)) < 0.01
    samples = np.where(lost, rng.integers(200, 299, len(owner)), 300).astype(np.float64)
    columns = _measures(kinds[owner], active, samples, rng)
    start_s = fleet.start_s + bucket * float(BUCKET_S)
    node = np.repeat(np.arange(fleet.nodes, dtype=np.int32), GPUS * span)
    device = np.repeat(np.arange(fleet.nodes * GPUS, dtype=np.int32), span)
    columns |= {
        "cluster": _words(np.zeros(len(owner), np.int32), [CLUSTER]),
        "node": _words(node, [node_name(number) for number in range(fleet.nodes)]),
        "device": _words(device, [_uuid(number) for number in range(fleet.nodes * GPUS)]),
        "job": _words(owner, [job.name for job in fleet.jobs]),
        "start_s": start_s,
        "length_s": np.where(lost, 240.0, 300.0),
        "samples": samples.astype(np.int64),
        "kafka_partition": node.astype(np.int64) % PARTITIONS,
        "kafka_offset": (bucket.astype(np.int64) * fleet.nodes * GPUS + device) * 5 // PARTITIONS,
    }
    return _table(DEVICE_WINDOW, columns, len(owner)).filter(pa.array(told))


def _uuid(number: int) -> str:
    """As NVML tells them: 36 signs that do not repeat."""
    mixed = (number * 0x9E3779B97F4A7C15) % 2**64
    return (
        f"GPU-{mixed & 0xFFFFFFFF:08x}-{mixed >> 32 & 0xFFFF:04x}-{mixed >> 48:04x}-b{number % 4096:03x}-{number:012x}"
    )


def _activity(kind: NDArray[Any], bucket: NDArray[Any], owner: NDArray[Any], rng: np.random.Generator) -> Floats:
    """How busy each GPU was, from 0 to 1."""
    level, noise, dip = (np.array([getattr(one, name) for one in SHAPES])[kind] for name in ("level", "noise", "dip"))
    period = np.array([one.period for one in SHAPES])[kind]
    wave = 0.5 - 0.5 * np.cos(2.0 * np.pi * (bucket + 37 * owner) / period)
    active: Floats = level * (1.0 - dip * wave) * (1.0 + noise * rng.standard_normal(len(kind)))
    return np.clip(active, 0.0, 1.0)


def _measures(kind: NDArray[Any], active: Floats, samples: Floats, rng: np.random.Generator) -> dict[str, Any]:
    rows = len(active)
    tensor, nvlink, memory = (
        np.array([getattr(one, name) for one in SHAPES])[kind] for name in ("tensor", "nvlink", "memory")
    )
    columns: dict[str, Any] = {}

    def told(name: str, value: Floats, step: float, spread: float = 0.04) -> None:
        """The mean of so many samples in steps of ``step``, and the highest of them."""
        value = np.minimum(value, 1.0) if name.endswith("_ratio") else value
        columns[f"mean_{name}"] = np.rint(value / step * samples) * step / samples
        highest = value * (1.0 + spread * rng.random(rows, dtype=np.float32))
        columns[f"max_{name}"] = (
            np.rint((np.minimum(highest, 1.0) if name.endswith("_ratio") else highest) / step) * step
        )

    for name, (full, idle, step) in COLUMNS.items():
        told(name, idle + full * active * (1.0 + 0.02 * rng.standard_normal(rows, dtype=np.float32)), step)
    told("tensor_active_ratio", tensor * active, 1e-6)
    told("nvlink_rx_bytes_per_s", nvlink * active * 2e11 * (1.0 + 0.01 * rng.standard_normal(rows)), 1.0)
    columns["mean_nvlink_tx_bytes_per_s"] = columns["mean_nvlink_rx_bytes_per_s"] * 0.5
    columns["max_nvlink_tx_bytes_per_s"] = columns["max_nvlink_rx_bytes_per_s"] * 0.5
    used = np.rint(memory * 85_520_809_984.0 / 2**20 * (1.0 - 0.02 * (active < 0.01))) * 2**20
    columns |= {"mean_fb_used_bytes": used, "max_fb_used_bytes": used}
    clock = np.where(rng.random(rows) < 0.02, 1410.0, np.where(active > 0.01, 1980.0, 345.0))
    columns |= {"mean_sm_clock_mhz": clock, "max_sm_clock_mhz": clock}
    columns["mean_throttled_ratio"] = columns["max_throttled_ratio"] = np.where(clock == 1410.0, 1.0, 0.0)
    columns["mean_energy_j"] = np.cumsum(columns["mean_power_w"] * samples).round(3)
    columns["max_energy_j"] = columns["mean_energy_j"] + (columns["mean_power_w"] * 30.0).round(3)
    for name, constant in CONSTANT.items():
        columns[f"mean_{name}"] = columns[f"max_{name}"] = np.full(rows, constant)
    return columns


def job_windows(fleet: Fleet, day: int, rng: np.random.Generator) -> pa.Table:
    """The windows of 10 and 60 s of all jobs on one day."""
    begin_s, end_s = fleet.start_s + day * DAY_S, fleet.start_s + (day + 1) * DAY_S
    parts: list[tuple[int, Floats, float]] = []
    for number, job in enumerate(fleet.jobs):
        for length_s in (10.0, 60.0):
            first, last = max(begin_s, job.start_s) // length_s + 1, min(end_s, job.end_s) // length_s
            if last > first:
                parts.append((number, np.arange(first, last) * length_s, length_s))
    counts = [len(starts) for _, starts, _ in parts]
    owner = np.repeat(np.array([number for number, _, _ in parts], dtype=np.int32), counts)
    length = np.repeat([length_s for _, _, length_s in parts], counts)
    start_s = np.concatenate([starts for _, starts, _ in parts]) if parts else np.zeros(0)
    return _table(JOB_WINDOW, _job_measures(fleet, owner, start_s, length, rng), len(owner))


def _job_measures(
    fleet: Fleet, owner: NDArray[Any], start_s: Floats, length_s: Floats, rng: np.random.Generator
) -> dict[str, Any]:
    rows = len(owner)
    usual, began, nodes = (
        np.array([getattr(job, name) for job in fleet.jobs])[owner] for name in ("step_s", "start_s", "nodes")
    )
    step_s = (usual * (1.0 + 0.02 * np.abs(rng.standard_normal(rows)))).round(6)
    steps = np.maximum(1, length_s // step_s)
    first = (start_s - began) // usual
    shares = {"data_s": 0.02, "forward_s": 0.28, "backward_s": 0.5, "optimizer_s": 0.06, "communication_s": 0.1}
    columns: dict[str, Any] = {
        name: (step_s * share * (1.0 + 0.03 * rng.standard_normal(rows))).round(6) for name, share in shares.items()
    }
    return columns | {
        "cluster": _words(np.zeros(rows, np.int32), [CLUSTER]),
        "job": _words(owner, [job.name for job in fleet.jobs]),
        "attempt": np.zeros(rows, np.int64),
        "start_s": start_s,
        "length_s": length_s,
        "ranks": (nodes * GPUS).astype(np.int64),
        "steps": steps.astype(np.int64),
        "first_step": first.astype(np.int64),
        "last_step": (first + steps).astype(np.int64),
        "step_median_s": step_s,
        "step_p95_s": (step_s * (1.02 + 0.05 * rng.random(rows))).round(6),
        "own_median_s": (step_s * 0.85).round(6),
        "own_worst_s": (step_s * (0.86 + 0.1 * rng.random(rows))).round(6),
        "worst_rank": rng.integers(0, nodes * GPUS),
        "wait_ratio": (0.1 + 0.02 * rng.random(rows)).round(6),
        "collectives": _words(np.zeros(rows, np.int32), ["[]"]),
        "kafka_partition": owner.astype(np.int64) % PARTITIONS,
        "kafka_offset": start_s.astype(np.int64),
    }


def _words(index: NDArray[Any], words: list[str]) -> pa.Array:
    missing = index < 0
    codes = pa.array(index.astype(np.int32), mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


def _table(table: Table, columns: Mapping[str, Any], rows: int) -> pa.Table:
    """``columns`` as ``table`` has them; those that are not measured are null."""
    arrays, names = [], []
    for field in schema(table):
        told = columns.get(field.name)
        arrays.append(
            pa.nulls(rows, field.type) if told is None else pa.array(told) if isinstance(told, np.ndarray) else told
        )
        names.append(field.name)
    return pa.Table.from_arrays(arrays, names=names)
