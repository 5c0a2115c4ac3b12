"""Free GPUs of a cluster: whether enough is known for a forecast, and what it says of each hour of the next day.

Rule of this file: pure. What was seen n times and never otherwise may be otherwise the next time in one case of n + 2
(Laplace's rule of succession): no share of futures is nearer to 0 or 1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from paceline.clock_hours import clock_hours
from paceline.events import FREE_GPUS
from paceline.words import age, is_undated

from .exceedance import above
from .held_forecast import FEWEST, LEVELS, rounded
from .memory import Held
from .quarters import QUARTER_S
from .question import Question
from .series import Array

#: What a sample is called, by its seconds.
SAMPLES = {60.0: "minutes", QUARTER_S: "quarter hours"}
#: So many clusters are named.
NAMED = 10
#: A sample is old after so long, and after so many intervals: windows come a little after their end.
_OLD_S, _OLD_INTERVALS = 300.0, 3.0


@dataclass(frozen=True)
class FreeHour:
    """An hour of the clock, by the quarter of it in which the fewest GPUs are free."""

    start_s: float
    low: float
    median: float
    high: float
    probability: float


def shortage(values: Array, interval_s: float) -> str | None:
    """How much is missing where fewer samples are known than a forecast takes; None where enough are.

    >>> shortage(np.array([4.0, np.nan, 3.0]), 900.0)
    '2 of the 12 quarter hours that a forecast takes are known; ask again in 150 minutes'
    >>> shortage(np.full(12, 4.0), 900.0)
    """
    known = int(np.isfinite(values).sum())
    if known >= FEWEST:
        return None
    name, wait = SAMPLES.get(interval_s, "values"), ceil((FEWEST - known) * interval_s / 60.0)
    return (
        f"{known} of the {FEWEST} {name} that a forecast takes are known; ask again in {wait} minute{'s'[: wait - 1]}"
    )


def unknown(cluster: str, keys: Iterable[str]) -> str:
    """That no GPU of ``cluster`` has reported, and the clusters of which one has, by the ``keys`` of all series.

    >>> unknown("x", ["b/cluster/free_gpus", "a/cluster/free_gpus", "a/node/n/free_gpus", "x/job/j/step_s"])
    "no GPU of cluster 'x' has reported; clusters whose GPUs have: a, b"
    >>> unknown("x", [])
    "no GPU of cluster 'x' has reported, and none of another one"
    """
    end = f"/cluster/{FREE_GPUS}"
    others = sorted(key.removesuffix(end) for key in keys if key.endswith(end))
    more = f" and {len(others) - NAMED:,} more" if len(others) > NAMED else ""
    known = f"; clusters whose GPUs have: {', '.join(others[:NAMED])}{more}" if others else ", and none of another one"
    return f"no GPU of cluster {cluster!r} has reported{known}"


def probability(share: float, history: int) -> float:
    """A share of futures with four decimals, as far from 0 and 1 as ``history`` samples allow.

    >>> probability(0.0, 12), probability(1.0, 4000), probability(0.123456, 4000), probability(1.0, 10**9)
    (0.0714, 0.9998, 0.1235, 0.9999)
    """
    least = max(1.0 / (history + 2), 1e-4)
    return round(min(max(share, least), 1.0 - least), 4)


def too_many(gpus: int, held: Held) -> list[str]:
    """A note where more GPUs are asked for than the cluster has."""
    most = held.subject.high
    return [] if most is None or gpus <= most else [f"{gpus:,} GPUs are more than the {most:,.0f} of the cluster"]


def too_old(held: Held, now_s: float) -> list[str]:
    """A note where nothing came for long: what is forecast begins with the newest sample, and not now."""
    old_s = max(_OLD_S, _OLD_INTERVALS * held.subject.interval_s)
    if now_s - held.time_s <= old_s or is_undated(held.time_s, now_s):
        return []
    why = "see whether collectors and a stream worker run (paceline doctor)"
    return [f"the newest sample is from {age(now_s, held.time_s)}, and the forecast begins there: {why}"]


def hours(held: Held, asked: Question, values: Array, history: int, gpus: int) -> Iterator[FreeHour]:
    """Each hour of the forecast ``values``, and how probably ``gpus`` are free in it."""
    low, middle, high = (LEVELS.index(level) for level in (0.1, 0.5, 0.9))
    written = rounded(values, held.subject.low, held.subject.high)
    for start_s, steps in clock_hours(held.time_s, asked.interval_s, len(values)):
        least = steps.start + int(np.argmin(values[steps, middle]))
        few, some, many = written[least, [low, middle, high]].tolist()
        enough = probability(above(values[least], asked.levels, float(gpus)), history)
        yield FreeHour(start_s, few, some, many, enough)
