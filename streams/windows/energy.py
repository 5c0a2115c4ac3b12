"""Joules of a window: how many, what tells them, and whose they are.

Rule of this file: a decision, and bounded. An interval between two samples that ends in another window than it began
is laid onto both by time. What was drawn while nobody looked is nobody's: it is told apart.
"""

from typing import Any

import msgspec

from paceline.energy.meter import Drawn, EnergyMeter
from paceline.events import EnergySplit

from ..stored import Kept, Stored
from .device_users import Use

#: Jobs on one GPU in one window, and meters of one node; what is beyond is nobody's, or forgotten.
MOST_JOBS, MOST_METERS = 64, 256


class WindowEnergy(msgspec.Struct):
    """What was drawn in one window: joules by what tells them, over gaps, and by job."""

    counter_j: float = 0.0
    power_j: float = 0.0
    gap_j: float = 0.0
    told: bool = False
    by_job: dict[str, float] = {}
    split: EnergySplit | None = None

    def add(self, drawn: Drawn, part: float, use: Use) -> None:
        """Count ``part`` of what was drawn in; ``use`` says whose it is."""
        joules = drawn.joules * part
        if drawn.gap:
            self.gap_j += joules
            return
        self.told = True
        if drawn.source == "counter":
            self.counter_j += joules
        else:
            self.power_j += joules
        self.split = use.split or self.split
        for job, share in use.shares.items():
            if job in self.by_job or len(self.by_job) < MOST_JOBS:
                self.by_job[job] = self.by_job.get(job, 0.0) + joules * share

    def fields(self) -> dict[str, Any]:
        """The same as a window of a device has it; what was not measured is left out."""
        said: dict[str, Any] = {"energy_gap_j": _tenth(self.gap_j)} if self.gap_j else {}
        if not self.told:
            return said
        said |= {"energy_j": _tenth(self.counter_j + self.power_j), "energy_source": self.source}
        if self.by_job:
            said["energy_by_job"] = {job: _tenth(joules) for job, joules in self.by_job.items()}
        if self.split is not None:
            said["energy_split"] = self.split
        return said

    @property
    def source(self) -> str:
        """What tells its joules."""
        if self.counter_j and self.power_j:
            return "mixed"
        return "power" if self.power_j else "counter"

    @property
    def joules(self) -> float | None:
        """All but those over gaps; None where nothing tells them."""
        return _tenth(self.counter_j + self.power_j) if self.told else None


class Meters(Stored):
    """The meters of one node, by what they measure."""

    meters: Kept[dict[str, EnergyMeter]]

    def __init__(self) -> None:
        self.meters = {}

    def update(
        self, name: str, at_s: float, energy_j: float | None, power_w: float | None, limit_w: float | None
    ) -> Drawn | None:
        """What ``name`` drew since its sample before."""
        meter = self.meters.get(name)
        if meter is None:
            if energy_j is None and power_w is None:
                return None
            if len(self.meters) >= MOST_METERS:
                del self.meters[min(self.meters, key=lambda each: self.meters[each].at_s or 0.0)]
            meter = self.meters[name] = EnergyMeter()
        return meter.update(at_s, energy_j, power_w, limit_w)


def part_before(drawn: Drawn, boundary_s: float) -> float:
    """How much of the interval lies before ``boundary_s``.

    >>> part_before(Drawn(8.0, 12.0, 100.0, "counter"), 10.0)
    0.5
    """
    if drawn.gap:
        return 0.0
    return min(max((boundary_s - drawn.since_s) / (drawn.until_s - drawn.since_s), 0.0), 1.0)


def _tenth(joules: float) -> float:
    return round(joules, 1)
