"""The hours of the clock that steps of a forecast lie in.

Rule of this file: pure.
"""

from collections.abc import Iterator

HOUR_S = 3600.0


def clock_hours(first_s: float, interval_s: float, steps: int) -> Iterator[tuple[float, slice]]:
    """Each hour's beginning, and which of ``steps`` steps begin in it; the first one begins at ``first_s``.

    Hours are those of UTC; the first and the last one may hold fewer steps than the others.

    >>> [(start, steps.start, steps.stop) for start, steps in clock_hours(2700.0, 900.0, 6)]
    [(0.0, 0, 1), (3600.0, 1, 5), (7200.0, 5, 6)]
    """
    began = 0
    for step in range(1, steps + 1):
        hour_s = (first_s + began * interval_s) // HOUR_S * HOUR_S
        if step == steps or (first_s + step * interval_s) // HOUR_S * HOUR_S != hour_s:
            yield hour_s, slice(began, step)
            began = step
