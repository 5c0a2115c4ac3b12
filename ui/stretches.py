"""Stretches of time in what is held: which columns are in it, and what time a column is.

Rule of this file: pure. Times are Unix seconds, NaN where a column's is not known.
"""

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from .step_ring import Ints, Rows

Times = npt.NDArray[np.float64]


def newest(at_s: Times) -> float | None:
    """The latest known time."""
    known = at_s[np.isfinite(at_s)]
    return float(known.max()) if known.size else None


def in_stretch(at_s: Times, stretch: tuple[float, float]) -> Rows:
    """Which columns are in ``stretch``, both ends included; one without a time belongs to the one before it."""
    if at_s.size == 0:
        return np.zeros(0, bool)
    known = np.isfinite(at_s)
    if not known.any():
        return np.ones(at_s.size, bool)
    before = np.maximum.accumulate(np.where(known, np.arange(at_s.size), -1))
    filled = np.where(before >= 0, at_s[before], at_s[known][0])
    kept: Rows = (filled >= stretch[0]) & (filled <= stretch[1])
    return kept


def moment_of(steps: Ints, at_s: Times, x: object) -> float | None:
    """When step ``x``, which may be a fraction, began; None where no time is known."""
    known = np.isfinite(at_s)
    if not known.any() or not isinstance(x, int | float):
        return None
    return float(np.interp(x, steps[known], at_s[known]))


def nothing_between(at_s: Times) -> str:
    """What to say where nothing that is held lies in the stretch."""
    known = at_s[np.isfinite(at_s)]
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (known.min(), known.max()))
    return f"No data in this time. There is data from {first} to {last} UTC: choose “All kept”, or ✕ above."
