"""Arrays to the raw columns of events: numpy's counterpart of ``paceline.columns``, with the same types.

Rule of this file: pure, and no loop over numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.events import Column
from paceline.events.columns import ColumnType

#: Types for numbers that are never negative, and for those that may be: the least and the most that each holds.
_WHOLE: tuple[tuple[ColumnType, int, int], ...] = tuple(
    (kind, int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for kind in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")
)
#: Up to here a time in single precision is exact to a microsecond.
_EXACT_S = 16.0


def encoded(kind: ColumnType, numbers: NDArray[Any]) -> Column:
    """``numbers`` as a column of this type."""
    return Column(kind, numbers.astype("<" + kind).tobytes())


def whole(numbers: NDArray[Any]) -> Column:
    """Whole numbers, in the smallest type that holds them all.

    >>> whole(np.array([3, 0, 65_535])), whole(np.array([-1, 7]))
    (Column(type='u2', data=b'\\x03\\x00\\x00\\x00\\xff\\xff'), Column(type='i1', data=b'\\xff\\x07'))
    """
    if not numbers.size:
        return Column("u1", b"")
    least, most = int(numbers.min()), int(numbers.max())
    return encoded(next(kind for kind, bottom, top in _WHOLE if bottom <= least and most <= top), numbers)


def durations(seconds: NDArray[Any]) -> Column:
    """Lengths of time, and other readings, in single precision; NaN is not measured."""
    return encoded("f4", seconds)


def offsets(seconds: NDArray[Any]) -> Column:
    """Offsets from a message's ``t0_s``, exact to a microsecond."""
    return encoded("f4" if not seconds.size or np.abs(seconds).max() < _EXACT_S else "f8", seconds)
