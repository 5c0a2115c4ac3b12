"""Columns of numbers: Python's numbers to the bytes of a ``Column``, and back.

Rule of this file: the standard library alone, for what runs on a node beside training; who has numpy reads a column
with ``np.frombuffer(column.data, "<" + column.type)``.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from paceline.events import Column
from paceline.events.columns import ColumnType

#: Type -> typecode of ``array``.
_CODES: dict[ColumnType, str] = {
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "f4": "f",
    "f8": "d",
}
#: Type -> bytes of a number.
SIZES: dict[ColumnType, int] = {name: int(name[1]) for name in _CODES}
_UNSIGNED: tuple[tuple[int, ColumnType], ...] = ((2**8, "u1"), (2**16, "u2"), (2**32, "u4"), (2**64, "u8"))
_SIGNED: tuple[tuple[int, ColumnType], ...] = ((2**7, "i1"), (2**15, "i2"), (2**31, "i4"), (2**63, "i8"))
#: Up to here a time in single precision is exact to a microsecond.
_EXACT_S = 16.0


def encoded(kind: ColumnType, numbers: Iterable[float]) -> Column:
    """``numbers`` as a column of this type.

    Raises:
        OverflowError: one does not fit it.
    """
    column = array(_CODES[kind], numbers)
    if sys.byteorder == "big":
        column.byteswap()
    return Column(kind, column.tobytes())


def whole(numbers: Sequence[int]) -> Column:
    """Whole numbers, in the smallest type that holds them all.

    Raises:
        OverflowError: one has more than 64 bits.

    >>> whole([3, 0, 65_535]), whole([-1, 7])
    (Column(type='u2', data=b'\\x03\\x00\\x00\\x00\\xff\\xff'), Column(type='i1', data=b'\\xff\\x07'))
    """
    least, most = min(numbers, default=0), max(numbers, default=0)
    if least >= 0:
        kind: ColumnType = next((name for bound, name in _UNSIGNED if most < bound), "u8")
    else:
        kind = next((name for bound, name in _SIGNED if -bound <= least and most < bound), "i8")
    return encoded(kind, numbers)


def durations(seconds: Sequence[float]) -> Column:
    """Lengths of time in single precision: seven digits of each."""
    return encoded("f4", seconds)


def offsets(seconds: Sequence[float]) -> Column:
    """Offsets from a message's ``t0_s``, exact to a microsecond."""
    exact = all(-_EXACT_S < one < _EXACT_S for one in seconds)
    return encoded("f4" if exact else "f8", seconds)


def numbers(column: Column) -> "array[Any]":
    """The numbers of ``column``.

    >>> list(numbers(whole([1, 2, 3])))
    [1, 2, 3]
    """
    read: array[Any] = array(_CODES[column.type])
    read.frombytes(column.data)
    if sys.byteorder == "big":
        read.byteswap()
    return read


def rows(column: Column) -> int:
    """How many numbers ``column`` holds."""
    return len(column.data) // SIZES[column.type]


def end_of_link(address: str) -> int:
    """What stands for ``address``, the ``ip:port`` of one end of a connection, in LinkColumns."""
    return int.from_bytes(blake2b(address.encode(), digest_size=8).digest(), "little")
