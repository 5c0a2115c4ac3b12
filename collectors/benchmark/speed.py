"""From samples to a rated speed.

Rule of this file: it reads the clock, for a speed says when it was measured, and does nothing else.
"""

import time
from collections.abc import Sequence

from paceline.rated import Speed

from .interval import median_interval


def speed(
    device: str,
    name: str,
    unit: str,
    samples: Sequence[float],
    busy_ratio: float | None,
    *,
    size_bytes: int | None = None,
    ranks: int | None = None,
) -> Speed:
    """The median of ``samples`` with its interval."""
    value, low, high = median_interval(samples)
    return Speed(device, name, unit, value, low, high, len(samples), time.time(), size_bytes, ranks, busy_ratio)
