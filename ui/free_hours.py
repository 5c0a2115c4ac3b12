"""How many GPUs of a cluster will be free in each hour of the next day, and when as many as somebody wants.

Rule of this file: pure.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import NamedTuple

import numpy as np

from paceline.clock_hours import HOUR_S, clock_hours
from paceline.events import BY_QUARTER_HOUR, FREE_GPUS

from .forecast_book import SeriesForecast
from .moments import clock, length

#: The last part of the key of such a forecast.
FIELD = FREE_GPUS + BY_QUARTER_HOUR
#: So many futures of a hundred are enough to plan by; the level that says it.
SURE, SURE_LEVEL = 80, 0.2
#: Stretches that are named; the rest is counted.
NAMED = 3
#: No cluster has more GPUs.
MOST = 1e9


class FreeHour(NamedTuple):
    """An hour of the clock, as far as the forecast reaches into it: in its worst quarter, at 10, 20, 50 and 90 %."""

    start_s: float
    end_s: float
    low: float
    sure: float
    median: float
    high: float


def free_hours(one: SeriesForecast, now_s: float) -> list[FreeHour]:
    """The hours of a forecast that are not over; none where it lacks one of the levels, or has too large numbers."""
    levels = [one.level(level) for level in (0.1, SURE_LEVEL, 0.5, 0.9)]
    if any(level is None for level in levels):
        return []
    rows = np.stack([level for level in levels if level is not None], axis=1)
    if float(np.abs(rows).max()) > MOST:
        return []
    first_s, interval_s, hours = one.event.time_s, one.event.interval_s, list[FreeHour]()
    for hour_s, steps in clock_hours(first_s, interval_s, len(rows)):
        low, sure, median, high = rows[steps][int(np.argmin(rows[steps, 2]))].tolist()
        start_s = max(hour_s, first_s)
        hours.append(FreeHour(start_s, max(start_s, first_s + steps.stop * interval_s), low, sure, median, high))
    return [hour for hour in hours if hour.end_s > now_s]


def sure_stretches(hours: Iterable[FreeHour], wanted: float) -> list[tuple[float, float]]:
    """When so many GPUs are free with ``SURE`` %: from and to, hours that follow each other as one."""
    found: list[tuple[float, float]] = []
    for hour in hours:
        if hour.sure < wanted:
            continue
        if found and found[-1][1] >= hour.start_s:
            found[-1] = (found[-1][0], hour.end_s)
        else:
            found.append((hour.start_s, hour.end_s))
    return found


def free_words(hours: Sequence[FreeHour], wanted: int, now_s: float, zone: tzinfo) -> str:
    """When ``wanted`` GPUs are free, or when the most are."""
    whole, likely = length(hours[-1].end_s - hours[0].start_s), f"with {SURE} % probability"
    found = sure_stretches(hours, wanted)
    if not found:
        best = max(hours, key=lambda hour: (hour.sure, hour.median))
        when = f"{clock(best.start_s, now_s, zone)} to {clock(best.end_s, now_s, zone)}"
        return (
            f"In no hour of the next {whole} are {wanted:,} GPUs free {likely}. Best is {when}: "
            f"{whole_gpus(best.sure):,} or more ({SURE} %), {whole_gpus(best.median):,} or more (50 %)."
        )
    if found == [(hours[0].start_s, hours[-1].end_s)]:
        return f"{wanted:,} or more GPUs are free throughout the next {whole}, {likely}."
    whens = [f"from {clock(from_s, now_s, zone)} to {clock(to_s, now_s, zone)}" for from_s, to_s in found[:NAMED]]
    more = f", and {len(found) - NAMED} times later" if len(found) > NAMED else ""
    return f"{wanted:,} or more GPUs are free {', '.join(whens)}{more}, {likely}."


def whole_gpus(number: float) -> int:
    """As many GPUs as ``number`` is sure to be: 7.6 are 7 or more.

    >>> whole_gpus(7.6), whole_gpus(8.0 - 1e-9)
    (7, 8)
    """
    return math.floor(number + 1e-6)


def middle_s(hour: FreeHour) -> float:
    """The middle of the hour of the clock that ``hour`` lies in: where it is drawn."""
    return hour.start_s // HOUR_S * HOUR_S + HOUR_S / 2.0
