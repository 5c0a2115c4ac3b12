"""What others use of this node's GPUs, as the driver tells it, while nothing of ours runs on them.

Rule of this file: it goes through ``paceline.gpu``, whichever the vendor, and asks before and after, never while a
device is measured: its utilisation would be our own.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from paceline.gpu import amd, nvml
from paceline.gpu.driver import Driver, Load, opened

LOADS: tuple[Load, ...] = (nvml.load, amd.load)
_COLUMN = "utilization_ratio"


class GpuUse(NamedTuple):
    """How busy a device is, None where the driver does not tell; and how many processes are on it."""

    busy_ratio: float | None
    processes: int


def look(loads: Sequence[Load] = LOADS) -> dict[str, GpuUse]:
    """Every GPU that a driver of this node has."""
    drivers, _ = opened(loads)
    uses: dict[str, GpuUse] = {}
    for driver in drivers:
        with suppress(*driver.errors()):
            for index in range(driver.count()):
                with suppress(*driver.errors()):
                    handle = driver.handle(index)
                    uses[driver.uuid(handle)] = GpuUse(_ratio(driver, handle), len(driver.running(handle)))
        with suppress(*driver.errors()):
            driver.close()
    return uses


def versions(loads: Sequence[Load] = LOADS) -> dict[str, str]:
    """The driver's version, where there is one."""
    drivers, _ = opened(loads)
    told: dict[str, str] = {}
    for driver in drivers:
        with suppress(*driver.errors()):
            version = driver.versions["driver"](driver.library)
            if version:
                told["driver"] = version
        with suppress(*driver.errors()):
            driver.close()
    return told


def told(before: dict[str, GpuUse]) -> list[str]:
    """What runs on GPUs before anything of ours does, a sentence each."""
    return [f"{use.processes} processes of others are on {uuid}" for uuid, use in before.items() if use.processes]


def busier(before: GpuUse | None, after: GpuUse | None) -> float | None:
    """The higher share of the two looks; None where neither tells."""
    ratios = [use.busy_ratio for use in (before, after) if use is not None and use.busy_ratio is not None]
    return max(ratios, default=None)


def _ratio(driver: Driver, handle: object) -> float | None:
    for query in driver.queries:
        if _COLUMN in query.columns:
            for ask in query.ways:
                with suppress(*driver.errors()):
                    value = ask(driver.library, handle)[query.columns.index(_COLUMN)]
                    return None if value is None else float(value)
    return None
