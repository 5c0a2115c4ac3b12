"""What others use of this node's processors and disks meanwhile, from /proc.

Rule of this file: readers with the path as an argument, and arithmetic. Own use (this process, the children that it has
waited for, and what ranks beside it report) is taken off; what the hypervisor takes counts as others'. A file that is
not there is None: not measured, which is not 0.
"""

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from paceline.pressure import pressure

from .results import BUSY

PROC = Path("/proc")
#: The fields of /proc/stat's first line that are work; idle and iowait are none, and guests are in user already.
_WORK = (0, 1, 2, 5, 6, 7)
#: How many fields make the whole.
_FIELDS = 8
#: A shorter time has too few ticks of a hundredth of a second.
SHORTEST_S = 0.2


class CpuUse(NamedTuple):
    """Seconds of work of some processors since boot, and of the time there was; and of the work what is our own."""

    work_s: float
    total_s: float
    own_s: float


def cpu_use(proc: Path = PROC, cpus: Collection[int] | None = None, beside_s: float = 0.0) -> CpuUse | None:
    """Now, of ``cpus``, or of all; ``beside_s``: what processes beside this one have used that are ours, too."""
    names = {"cpu"} if cpus is None else {f"cpu{number}" for number in cpus}
    try:
        with (proc / "stat").open(encoding="ascii", errors="replace") as lines:
            words = [line.split() for line in lines]
        rows = [list(map(int, row[1 : 1 + _FIELDS])) for row in words if row and row[0] in names]
    except (OSError, ValueError):
        return None
    if len(rows) < len(names) or any(len(row) < _FIELDS for row in rows):
        return None
    ticks = [sum(column) for column in zip(*rows, strict=True)]
    tick = os.sysconf("SC_CLK_TCK")
    return CpuUse(sum(ticks[at] for at in _WORK) / tick, sum(ticks) / tick, own_cpu_s() + beside_s)


def own_cpus() -> set[int]:
    """The processors that this process, and what it starts, may run on: what others do on the rest is no matter."""
    return os.sched_getaffinity(0)


def own_cpu_s() -> float:
    """Seconds of a processor that this process, and children that have ended, used."""
    return sum(os.times()[:4])


def others_ratio(before: CpuUse | None, after: CpuUse | None) -> float | None:
    """The share of the processors' time that others worked between the two; None where that is not to be told.

    >>> others_ratio(CpuUse(10.0, 100.0, 1.0), CpuUse(13.0, 104.0, 2.0))
    0.5
    """
    if before is None or after is None or after.total_s - before.total_s < SHORTEST_S:
        return None
    work_s = (after.work_s - before.work_s) - (after.own_s - before.own_s)
    return round(min(1.0, max(0.0, work_s / (after.total_s - before.total_s))), 4)


class Surroundings(NamedTuple):
    """A look at the node while nothing of ours runs: shares of its processors and times of waiting."""

    cpu_ratio: float | None
    load1: float | None
    cpu_pressure: float | None
    io_pressure: float | None

    def told(self, cores: int) -> list[str]:
        """What is busy, a sentence each."""
        said = []
        if self.cpu_ratio is not None and self.cpu_ratio > BUSY:
            load = "" if self.load1 is None else f" (load {self.load1:.2f} on {cores} cores)"
            said.append(f"others use {self.cpu_ratio:.0%} of the processors{load}")
        for name, value in (("a processor", self.cpu_pressure), ("a disk", self.io_pressure)):
            if value is not None and value > BUSY:
                said.append(f"tasks waited {value:.0%} of the last 10 s for {name}")
        return said


def look(seconds: float, proc: Path = PROC) -> Surroundings:
    """Watch the node for so long, and do nothing."""
    before = cpu_use(proc, own_cpus())
    time.sleep(seconds)
    try:
        load1: float | None = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        load1 = None
    waits = [pressure(proc / "pressure" / name) for name in ("cpu", "io")]
    return Surroundings(others_ratio(before, cpu_use(proc, own_cpus())), load1, *waits)
