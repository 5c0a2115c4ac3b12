"""Robust comparison of one rank with its peers.

Rule of this file: pure functions on float arrays, one entry a rank; NaN is "not heard" and stays NaN.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

#: Scale from a median absolute deviation to a standard deviation, for normal noise (Rousseeuw & Croux 1993).
MAD_SIGMA = 1.4826
#: Cohorts up to this size get the exact peers' spread; beyond it one member more or less does not move a MAD.
EXACT = 16
#: By the number of ranks, of each the places of all others: shape (ranks, ranks - 1).
_OTHERS = [
    np.array([[at for at in range(ranks) if at != one] for one in range(ranks)], dtype=np.int64)
    for ranks in range(EXACT + 1)
]


def peers_median(values: Array) -> Array:
    """For each entry, the median of all the **others**, row by row.

    Leaving the judged rank out matters in small cohorts: of two ranks, the median of both would halve the excess.

    >>> peers_median(np.array([1.0, 1.0, 1.0, 5.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> peers_median(np.array([[1.0, 3.0], [2.0, 8.0]])).tolist()
    [[3.0, 1.0], [8.0, 2.0]]

    Args:
        values: shape (ranks,) or (rows, ranks).

    Returns:
        the same shape; NaN where the entry is NaN or has no peer.
    """
    present = ~np.isnan(values)
    if not present.all():
        if values.ndim == 2:
            whole = present.all(axis=1)
            result = np.empty(values.shape)
            result[whole] = peers_median(values[whole])
            result[~whole] = [peers_median(row) for row in values[~whole]]
            return result
        out = np.full(values.shape, np.nan)
        out[present] = peers_median(values[present])
        return out
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape, np.nan)
    ordered = np.sort(values, axis=-1)
    middle = (count - 1) // 2
    below, at, above = (ordered[..., max(middle + step, 0), None] for step in (-1, 0, 1))
    # The k-th smallest of the others: shifted by one at and after the entry's own place; among equals it is the same.
    result = np.where(values <= at, above, at)
    if count % 2:
        result = (result + np.where(values < at, at, below)) / 2
    return np.asarray(result)


def peers_spread(values: Array) -> Array:
    """For each entry, the robust standard deviation (scaled MAD) of all the others, row by row.

    Args:
        values: shape (ranks,) or (rows, ranks).

    Returns:
        the same shape; 0 where there are fewer than two peers, whose spread cannot be known.
    """
    if values.ndim == 2:
        return _spread_of_rows(values)
    heard = np.flatnonzero(~np.isnan(values))
    out = np.zeros(values.shape)
    if heard.size < 3:
        return out
    present = values[heard]
    if heard.size > EXACT:
        out[heard] = MAD_SIGMA * nanmedian(np.abs(present - nanmedian(present)))
        return out
    others = present[_OTHERS[present.size]]
    out[heard] = MAD_SIGMA * nanmedian(np.abs(others - nanmedian(others, axis=1)[:, None]), axis=1)
    return out


def _spread_of_rows(values: Array) -> Array:
    count = values.shape[1]
    if len(values) == 1 or not 3 <= count <= EXACT or np.isnan(values).any():
        return np.array([peers_spread(row) for row in values])
    others = values[:, _OTHERS[count]]
    deviation = nanmedian(np.abs(others - nanmedian(others, axis=2)[..., None]), axis=2)
    return (MAD_SIGMA * deviation).astype(np.float64)


def nanmedian(values: Array, axis: int | None = None) -> Array:
    """The median of what is known: NaN for a column without a number, silently.

    Sorts itself, because ``np.median`` spends a tenth of a millisecond before it does so, many times a tick.
    """
    ordered = values.flatten() if axis is None else values.copy()
    axis = axis or 0
    ordered.sort(axis=axis)  # NaN comes last
    count = ordered.shape[axis]
    before: tuple[Any, ...] = (slice(None),) * axis
    if not count:
        return np.full((*ordered.shape[:axis], *ordered.shape[axis + 1 :]), np.nan, dtype=ordered.dtype)
    if not np.count_nonzero(np.isnan(ordered[(*before, -1)])):
        return np.asarray((ordered[(*before, (count - 1) // 2)] + ordered[(*before, count // 2)]) / 2)
    if axis:
        ordered = ordered.transpose(axis, *(at for at in range(ordered.ndim) if at != axis))
    known = count - np.isnan(ordered).sum(axis=0, keepdims=True)
    middle = np.concatenate([np.maximum(known - 1, 0) // 2, known // 2])
    return np.asarray(np.take_along_axis(ordered, middle, axis=0).sum(axis=0) / 2)


def known_or_zero(values: Array | np.floating[Any] | float) -> Array:
    """The values, and 0 where nothing is known; ``np.nan_to_num`` takes four times as long over a few ranks."""
    return np.where(np.isnan(values), 0.0, values)


def middle(values: Iterable[float]) -> float:
    """``nanmedian`` of a handful of numbers, at a tenth of its cost; 0 where nothing is known.

    >>> middle([3.0, float("nan"), 1.0]), middle([])
    (2.0, 0.0)
    """
    ordered = sorted(value for value in values if not math.isnan(value))
    count = len(ordered)
    found = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else 0.0
    return 0.0 if math.isnan(found) else found


def newest_run(excess: Array, bar: float) -> int:
    """How many of the newest entries belong to a change that reaches to now: Page's change point (1954).

    Going back, what each entry is over or under ``bar`` is added up, and the sum is largest where the change began. One
    quiet entry in the middle does not end it, and one odd entry before it does not lengthen it.

    >>> newest_run(np.array([1.0, 0.9, 0.2, 1.1, 0.1, 0.0, 5.0, 0.0]), 0.5)
    4

    Args:
        excess: newest first; NaN counts as none.
        bar: half of what the change is by.
    """
    return int(np.argmax(np.cumsum(known_or_zero(np.clip(excess, 0.0, 2 * bar) - bar)))) + 1
