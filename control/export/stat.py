"""What a session says in numbers, and the series that its picture is drawn from.

Rule of this file: bounded memory, one pass. Percentiles are of a fixed histogram with bins of 2 %, so that they cost
nothing; means are exact.
"""

import math
from collections.abc import Iterable
from typing import Any

from paceline.energy.meter import EnergyMeter
from paceline.events import Finding, JobWindow
from paceline.recording import Line

from .frames import memory_ratio
from .rows import Reader, Row
from .step_times import StepTimes
from .timeline import Timeline
from .told import Told

#: Jobs, GPUs and findings that are told apart.
MOST_JOBS, MOST_GPUS, MOST_FINDINGS = 1000, 100_000, 1000
#: Width of a bin of step times: 2 % of the value.
_GROWTH = math.log(1.02)
#: Series of the picture: what is drawn of a GPU's row.
_DRAWN = {
    "utilization": "utilization_ratio",
    "dram": "dram_active_ratio",
    "power": "power_w",
}


class _Numbers:
    def __init__(self) -> None:
        self.count, self.total, self.most = 0, 0.0, 0.0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.count += 1
            self.total += value
            self.most = max(self.most, value)

    def told(self) -> dict[str, float | None]:
        return {"mean": self.total / self.count if self.count else None, "max": self.most if self.count else None}


class _Steps:
    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0

    def add(self, step_s: float, steps: int) -> None:
        if step_s > 0 and steps > 0:
            place = math.floor(math.log(step_s) / _GROWTH)
            self.bins[place] = self.bins.get(place, 0) + steps
            self.count += steps

    def quantile(self, level: float) -> float | None:
        left = level * self.count
        for place, count in sorted(self.bins.items()):
            left -= count
            if left <= 0:
                return math.exp((place + 0.5) * _GROWTH)
        return None


class Statistics:
    """Rows and findings, added up."""

    def __init__(self, told: Told) -> None:
        self.told, self.reader, self.timeline = told, Reader(told), Timeline()
        self.findings: dict[str, Finding] = {}
        self._step_times = StepTimes()
        #: When each finding was first and last received.
        self._received: dict[str, tuple[float, float]] = {}
        self._gpus: dict[tuple[str, str], EnergyMeter] = {}
        self._nodes: set[str] = set()
        self._sums = {name: _Numbers() for name in ("utilization_ratio", "memory_ratio", "power_w")}
        self._steps: dict[str, _Steps] = {}
        #: Joules by what tells them.
        self._energy_j: dict[str, float] = {}

    def read(self, lines: Iterable[Line]) -> "Statistics":
        """Take in a session's messages."""
        stamp = _Stamped(lines)
        for event in self.reader.events(stamp):
            if isinstance(event, Finding):
                self._found(event, stamp.time_s)
                continue
            if isinstance(event, JobWindow):
                self._step_times.add(event)
            for row in self.reader.rows(event):
                self._add(row)
        return self

    @property
    def spans(self) -> dict[str, tuple[float, float]]:
        """Of each finding when its first step was, else when it was first received, and when it was last received."""
        return {id_: self._span(self.findings[id_], *times) for id_, times in self._received.items()}

    def _span(self, finding: Finding, first_s: float, last_s: float) -> tuple[float, float]:
        began_s = self._step_times.time_s(finding.job, finding.attempt, finding.first_step)
        return (first_s if began_s is None else min(began_s, last_s)), last_s

    def _add(self, row: Row) -> None:
        if row.node and len(self._nodes) < MOST_GPUS:
            self._nodes.add(row.node)
        if row.kind == "job":
            self._step(row)
        elif row.kind == "device":
            self._device(row)

    def _step(self, row: Row) -> None:
        median_s = row.values["step_median_s"]
        self.timeline.add(f"step time/{row.job}", row.time_s, median_s)
        if row.job in self._steps or len(self._steps) < MOST_JOBS:
            self._steps.setdefault(row.job, _Steps()).add(median_s, row.values["steps"])

    def _device(self, row: Row) -> None:
        used = memory_ratio(row)
        self._sums["utilization_ratio"].add(row.values.get("utilization_ratio"))
        self._sums["power_w"].add(row.values.get("power_w"))
        self._sums["memory_ratio"].add(used)
        for series, column in _DRAWN.items():
            self.timeline.add(series, row.time_s, row.values.get(column))
        self.timeline.add("memory", row.time_s, used)
        for series, column in (
            ("PCIe to the GPU", "pcie_rx_bytes_per_s"),
            ("PCIe from the GPU", "pcie_tx_bytes_per_s"),
        ):
            self.timeline.add(f"bandwidth/{series}", row.time_s, row.values.get(column))
        key = (row.node, row.device)
        if key in self._gpus or len(self._gpus) < MOST_GPUS:
            measured = (row.values.get(name) for name in ("energy_j", "power_w", "power_limit_w"))
            drawn = self._gpus.setdefault(key, EnergyMeter()).update(row.time_s, *measured)
            if drawn is not None:
                self._energy_j[drawn.source] = self._energy_j.get(drawn.source, 0.0) + drawn.joules

    def _mixed(self) -> str | None:
        return "mixed" if self._energy_j else None

    def _found(self, finding: Finding, time_s: float) -> None:
        if finding.id in self.findings or len(self.findings) < MOST_FINDINGS:
            self.findings[finding.id] = finding
            first_s, _ = self._received.get(finding.id, (time_s, time_s))
            self._received[finding.id] = (first_s, max(first_s, time_s))

    def summary(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        told, ended_s, spans = self.told, self.told.stopped_s, self.spans
        return {
            "session": told.name,
            "started_s": told.started_s,
            "duration_s": None if ended_s is None else ended_s - told.started_s,
            "complete": told.complete,
            "missing_messages": told.missing_count,
            "gaps": list(told.gaps),
            "silences": [{"client": who, "from_s": since, "to_s": until} for who, since, until in told.silences],
            "messages_by_topic": dict(sorted(self.reader.messages.items())),
            "unusable_messages": self.reader.unusable,
            "nodes": sorted(self._nodes)[:1000],
            "gpus": len(self._gpus),
            **{name: numbers.told() for name, numbers in self._sums.items()},
            "energy_j": sum(self._energy_j.values()) if self._energy_j else None,
            "energy_source": next(iter(self._energy_j)) if len(self._energy_j) == 1 else self._mixed(),
            "step_time_s": {
                job: {"p50": steps.quantile(0.5), "p95": steps.quantile(0.95), "steps": steps.count}
                for job, steps in sorted(self._steps.items())
            },
            "findings": [self._finding(id_, *spans[id_]) for id_ in self.findings],
        }

    def _finding(self, id_: str, first_s: float, last_s: float) -> dict[str, Any]:
        finding = self.findings[id_]
        return {
            "id": id_,
            "kind": finding.kind,
            "state": finding.state,
            "job": finding.job,
            "cause": finding.cause,
            "ranks": list(finding.ranks)[:100],
            "first_s": first_s,
            "last_s": last_s,
            "summary": finding.summary,
        }


class _Stamped:
    """Lines, and when the last one that was handed on was on the bus."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self.time_s = 0.0

    def __iter__(self) -> "_Stamped":
        return self

    def __next__(self) -> Line:
        line = next(self._lines)
        self.time_s = line.timestamp_ms / 1000.0
        return line


def summary(lines: Iterable[Line], told: Told) -> dict[str, Any]:
    """What the session says in numbers."""
    return Statistics(told).read(lines).summary()
