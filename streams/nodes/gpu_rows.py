"""From a batch of samples to rows that can be judged.

Rule of this file: pure. What is not measured, no number or impossible is None; what has no possible time is dropped.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paceline.events import LATEST_S, DeviceSamples

from .node_config import MOST_DEVICES

#: Unix times that are believed: up to the year 5138.
#: Counters above this are no counts.
_MOST_COUNT = 2**53
RATIOS = ("utilization_ratio", "sm_active_ratio")
NUMBERS = ("temperature_celsius", "sm_clock_mhz", "power_w", "power_limit_w")
COUNTS = (
    "fb_used_bytes",
    "fb_total_bytes",
    "throttle_reasons",
    "pcie_generation",
    "pcie_width",
    "pcie_replays",
    "ecc_corrected",
    "ecc_uncorrected",
    "retired_pages",
    "remapped_rows",
    "nvlink_crc_errors",
    "nvlink_errors",
    "xid",
)


_INDEXED = re.compile(r"([a-z_]+)\[(\d{1,6})\]", re.ASCII)


class Indexed(NamedTuple):
    """A column of one GPU, by the driver's index; ``device`` stands for the whole of it."""

    column: str
    number: int


class Row(NamedTuple):
    """One sample of one GPU; ``values`` holds what was measured, ``answered`` whether anything but an XID was."""

    at_s: float
    uuid: str
    values: dict[str, float]
    answered: bool


def samples(event: DeviceSamples, gone: Sequence[str]) -> Iterator[Row]:
    """The rows of ``event``, and beside each one an unanswered one of every GPU in ``gone``, which sends no rows.

    Where no GPU of the node sends any, those that are gone did not answer at the event's own time.
    """
    for row in rows(event):
        yield row
        yield from (Row(row.at_s, uuid, {}, answered=False) for uuid in gone)
    if not event.device and possible(event.t0_s):
        yield from (Row(event.t0_s, uuid, {}, answered=False) for uuid in gone)


def rows(event: DeviceSamples) -> Iterator[Row]:
    """The rows of ``event``, in its order. Rows of an unnamed device or at an impossible time are left out."""
    columns = [(name, column) for name in (*RATIOS, *NUMBERS, *COUNTS) if (column := getattr(event, name))]
    for place, (device, time_s) in enumerate(zip(event.device, event.time_s, strict=True)):
        at_s = event.t0_s + time_s
        if not (0 <= device < len(event.uuids) and possible(at_s)):
            continue
        values = {name: value for name, column in columns if (value := _sane(name, column[place])) is not None}
        used, total = values.get("fb_used_bytes"), values.get("fb_total_bytes")
        if used is not None and total is not None and not 0 < total >= used:
            del values["fb_used_bytes"], values["fb_total_bytes"]
        yield Row(at_s, event.uuids[device], values, bool(values.keys() - {"xid"}))


def names(event: DeviceSamples) -> dict[int, str]:
    """The GPUs that ``event`` names, by the driver's index: in that order, without those that did not open."""
    missing = {at.number for key in event.not_measured if (at := indexed(key)) and at.column == "device"}
    indices = (index for index in itertools.count() if index not in missing)
    return dict(zip(indices, event.uuids[:MOST_DEVICES], strict=False))


def indexed(key: str) -> Indexed | None:
    """What is not measured of a single GPU, ``column[N]``; None of another key.

    >>> indexed("power_w[3]"), indexed("power_w")
    (Indexed(column='power_w', number=3), None)
    """
    found = _INDEXED.fullmatch(key)
    return None if found is None else Indexed(found[1], int(found[2]))


def possible(at_s: float) -> bool:
    """Whether a time may be one of the node's clock."""
    return math.isfinite(at_s) and 0.0 <= at_s <= LATEST_S


def _sane(name: str, value: float | None) -> float | None:
    if value is None or not math.isfinite(value) or value < 0 or value > _MOST_COUNT:
        return None
    if name in RATIOS:
        return min(float(value), 1.0) if value <= 1.05 else None
    return float(value)
