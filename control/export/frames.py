"""Frames: what all GPUs said at one time, in gswarm's field names and with the units that its documentation promised.

Rule of this file: a list has one entry a GPU, in the order of ``gpu_id``; null is *not measured*, and a list is empty
where nobody measures such a thing. What gswarm calls ``dram_bandwidth`` was PCIe traffic: it is that here too, in bytes
per second, and said so in ``units``; ``pcie_bytes_per_s`` calls it by its name.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

from paceline.recording import Line

from .averages import Averages
from .rows import Reader, Row
from .told import Told

UNITS = {
    "time": "s since 1970",
    "gpu_util": "ratio",
    "gpu_memory": "ratio",
    "dram_util": "ratio",
    "disk_util": "ratio",
    "dram_bandwidth": "bytes_per_s over PCIe, both directions (the name is gswarm's)",
    "dram_bandwidth_rx": "bytes_per_s over PCIe, received by the GPU",
    "dram_bandwidth_tx": "bytes_per_s over PCIe, sent by the GPU",
    "pcie_bytes_per_s": "bytes_per_s",
    "extra_metrics": "as the ending of each name says",
}
#: What a GPU's ``extra_metrics`` are.
EXTRA = (
    "power_w",
    "energy_j",
    "temperature_celsius",
    "sm_clock_mhz",
    "sm_active_ratio",
    "tensor_active_ratio",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "throttle_reasons",
)
HOST_EXTRA = ("cpu_ratio", "load1", "memory_used_bytes", "disk_read_bytes_per_s", "disk_write_bytes_per_s")
#: Frames wait so long for nodes that are late; and as many are open at most.
LATE_S, MOST_OPEN = 30.0, 2000
USUAL_S = 1.0


class _Open:
    def __init__(self) -> None:
        self.devices: dict[tuple[str, str], Row] = {}
        self.hosts: dict[str, Row] = {}
        self.jobs: dict[str, Row] = {}


class Frames:
    """Rows to frames: one every ``step_s`` seconds; of several rows in that time the newest counts."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._step_s = told.interval_s or USUAL_S
        self._open: dict[int, _Open] = {}
        self._newest = 0
        self._written: int | None = None
        self._count = 0
        self.late = 0
        self.averages = Averages()

    def add(self, row: Row) -> Iterator[dict[str, Any]]:
        """Take in a row; the frames that nobody is waited for any more."""
        number = int(row.time_s // self._step_s)
        if self._written is not None and number <= self._written:
            self.late += 1
            return
        frame = self._open.setdefault(number, _Open())
        if row.kind == "device":
            frame.devices[row.node, row.device] = row
        elif row.kind == "host":
            frame.hosts[row.node] = row
        else:
            frame.jobs[row.job] = row
        self._newest = max(self._newest, number)
        while self._open and (
            min(self._open) * self._step_s < self._newest * self._step_s - LATE_S or len(self._open) > MOST_OPEN
        ):
            yield from self._close(min(self._open))

    def end(self) -> Iterator[dict[str, Any]]:
        """The frames that are left."""
        for number in sorted(self._open):
            yield from self._close(number)

    def _close(self, number: int) -> Iterator[dict[str, Any]]:
        frame, self._written = self._open.pop(number), number
        if not frame.devices and not frame.jobs:
            return
        rows = [frame.devices[key] for key in sorted(frame.devices, key=lambda key: _place(frame.devices[key]))]
        time_s = number * self._step_s
        yield {"frame_id": self._count, "time": time_s, **_lists(rows), **self._rest(frame, rows, time_s)}
        self._count += 1
        for row in rows:
            self.averages.add(gpu_id(row), row.node, row.values.get("utilization_ratio"), memory_ratio(row))

    def _rest(self, frame: _Open, rows: list[Row], time_s: float) -> dict[str, Any]:
        hosts = {node: {name: row.values.get(name) for name in HOST_EXTRA} for node, row in sorted(frame.hosts.items())}
        steps = {job: row.values.get("step_median_s") for job, row in sorted(frame.jobs.items())}
        extra: dict[str, Any] = {name: [row.values.get(name) for row in rows] for name in EXTRA}
        return {
            "gpu_bandwidth": [],
            "disk_util": [],
            "extra_metrics": {**extra, "hosts": hosts, "step_time_s": steps},
            "silent": self._told.silent_at(time_s),
            "units": UNITS,
        }


def newest(lines: Iterable[Line], told: Told, now_s: float) -> dict[str, Any] | None:
    """One frame of the newest row of each GPU and host, whatever their clocks say; None where no GPU reports.

    Its time is that of the newest of them, and never after ``now_s``.
    """
    reader, frames = Reader(told), Frames(told)
    rows: dict[tuple[str, str, str], Row] = {}
    for row in chain.from_iterable(reader.rows(event) for event in reader.events(lines)):
        key = (row.kind, row.node, row.device)
        if key not in rows or row.time_s >= rows[key].time_s:
            rows[key] = row
    time_s = min(now_s, max((row.time_s for row in rows.values()), default=now_s))
    added = chain.from_iterable(frames.add(row._replace(time_s=time_s)) for row in rows.values())
    return next(chain(added, frames.end()), None)


def gpu_id(row: Row) -> str:
    """``host:index:name``, as gswarm names a GPU."""
    return f"{row.node}:{row.number}:{row.name}"


def memory_ratio(row: Row) -> float | None:
    """How much of its memory is used."""
    used, total = row.values.get("fb_used_bytes"), row.values.get("fb_total_bytes")
    return None if used is None or not total else used / total


def _place(row: Row) -> tuple[str, int, str]:
    return row.node, row.number or 0, row.device


def _lists(rows: list[Row]) -> dict[str, Any]:
    received = [row.values.get("pcie_rx_bytes_per_s") for row in rows]
    sent = [row.values.get("pcie_tx_bytes_per_s") for row in rows]
    both = [None if rx is None or tx is None else rx + tx for rx, tx in zip(received, sent, strict=True)]
    return {
        "gpu_id": [gpu_id(row) for row in rows],
        "gpu_util": [row.values.get("utilization_ratio") for row in rows],
        "gpu_memory": [memory_ratio(row) for row in rows],
        "dram_bandwidth": both,
        "dram_bandwidth_rx": received,
        "dram_bandwidth_tx": sent,
        "pcie_bytes_per_s": {"rx": received, "tx": sent},
        "dram_util": [_first(row, "dram_active_ratio", "memory_controller_ratio") for row in rows],
    }


def _first(row: Row, *names: str) -> Any:
    return next((row.values[name] for name in names if row.values.get(name) is not None), None)


def write(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """Frames, one JSON object a line, and what they come to on the last."""
    reader, frames = Reader(told), Frames(told)
    for event in reader.events(lines):
        for row in reader.rows(event):
            for frame in frames.add(row):
                out.write(json.dumps(frame, allow_nan=False).encode() + b"\n")
    for frame in frames.end():
        out.write(json.dumps(frame, allow_nan=False).encode() + b"\n")
    summary = {
        "session": told.name,
        "complete": told.complete,
        "missing_messages": told.missing_count,
        "gaps": list(told.gaps),
        "late_rows": frames.late,
        "rows_of_clocks_far_off": reader.odd_times,
        "unusable_messages": reader.unusable,
        "silences": [{"client": who, "from_s": from_s, "to_s": to_s} for who, from_s, to_s in told.silences],
        **frames.averages.told(),
        "units": UNITS,
    }
    out.write(json.dumps(summary, allow_nan=False).encode() + b"\n")
