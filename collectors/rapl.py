"""RAPL: the joules that processors and memory have taken since the collector began, from the kernel's files.

Rule of this file: a reader with the folder as an argument. What cannot be read is None with a reason, never 0. Zones
are listed anew each time, for processors may come and go. What it assumes of them:

- packages are called ``package-N`` (a die of one ``package-N-die-M``), memory below them ``dram``. ``core`` and
  ``uncore`` are parts of a package and ``psys`` is all of the machine: neither is counted beside it. The same package
  in ``intel-rapl-mmio`` is passed over.
- a counter grows, and goes round at ``max_energy_range_uj``: after minutes at the earliest, so once at most between two
  readings. A fall without a range, or of a zone that was away, is the start of another count.
"""

from pathlib import Path
from typing import NamedTuple

from paceline.gpu.queries import UnanswerableError

from .kernel import counter, entries

_FOLDER = ("class", "powercap")
#: A zone of the processors' own interface, and of a part of one.
_ZONE = "intel-rapl:"
#: Zones that are read; no machine has as many.
_MOST_ZONES = 1024
NONE = "no RAPL in /sys/class/powercap: not on this processor or kernel, or a virtual machine or container"
REFUSED = "energy_uj may be read by root alone: run the collector as root, or give it CAP_DAC_READ_SEARCH"
NO_DRAM = "this processor tells no energy of its memory"


class Joules(NamedTuple):
    """Of all packages and of all memory; None where not measured, and why."""

    cpu: float | None
    dram: float | None
    why_cpu: str = ""
    why_dram: str = ""


class Rapl:
    """The counters below ``sys``, unrolled."""

    def __init__(self, sys: Path) -> None:
        self._folder = sys.joinpath(*_FOLDER)
        self._before: dict[str, int] = {}
        self._micro_j = {"cpu": 0, "dram": 0}

    def read(self) -> Joules:
        """The joules until now.

        Raises:
            UnanswerableError: there is no zone, or none may be read.
        """
        zones = self._zones()
        if not zones:
            raise UnanswerableError(NONE)
        counted = {name: counter(self._folder / name / "energy_uj") for name in zones}
        if all(value is None for value in counted.values()):
            raise UnanswerableError(REFUSED)
        for name, value in counted.items():
            if value is not None:
                self._micro_j[zones[name]] += self._grown(name, value)
        self._before = {name: value for name, value in counted.items() if value is not None}
        cpu, dram = (self._told(kind, zones, counted) for kind in ("cpu", "dram"))
        missing = REFUSED if "dram" in zones.values() else NO_DRAM
        return Joules(cpu, dram, "" if cpu is not None else REFUSED, "" if dram is not None else missing)

    def _zones(self) -> dict[str, str]:
        """Zone -> what it counts."""
        names = [name for name in entries(self._folder) if name.startswith(_ZONE)][:_MOST_ZONES]
        kinds = {name: _kind(self._folder / name / "name") for name in names}
        return {name: kind for name, kind in kinds.items() if kind}

    def _grown(self, name: str, value: int) -> int:
        """Microjoules since the zone was read before."""
        before = self._before.get(name)
        if before is None:
            return 0
        if value >= before:
            return value - before
        most = counter(self._folder / name / "max_energy_range_uj")
        return most - before + value if most is not None and most >= before else 0

    def _told(self, kind: str, zones: dict[str, str], counted: dict[str, int | None]) -> float | None:
        """All zones of ``kind`` together; None without any, or where one of them is not told."""
        values = [counted[name] for name, each in zones.items() if each == kind]
        if not values or any(value is None for value in values):
            return None
        return round(self._micro_j[kind] * 1e-6, 3)


def _kind(path: Path) -> str:
    try:
        name = path.read_text().strip()
    except OSError:
        return ""
    return "cpu" if name.startswith("package-") else "dram" if name == "dram" else ""
