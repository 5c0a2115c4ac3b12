"""Raw columns of messages as arrays.

Rule of this file: pure. Columns of many messages are joined as bytes where they are of one type, so that a message
costs next to nothing; arrays are read only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.columns import SIZES, numbers, rows
from paceline.events import Column

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_UNKNOWN = np.array([np.nan], dtype="<f4").tobytes()
#: Of so many numbers, as in the messages of a large job's nodes, Python has found an end when numpy begins to look.
_FEW = 48
_TYPES = {kind: np.dtype("<" + kind) for kind in SIZES}


def array(column: Column) -> NDArray[Any]:
    """The numbers of ``column`` in their own type."""
    return np.frombuffer(column.data, dtype=_TYPES[column.type])


def joined(columns: Sequence[Column]) -> NDArray[Any]:
    """The numbers of all ``columns``, one after the other.

    >>> joined([Column("u1", b"ab"), Column("u2", b"c\\x00")]).tolist()
    [97, 98, 99]
    """
    if len(columns) == 1:
        return array(columns[0])
    kinds = {column.type for column in columns}
    if len(kinds) == 1:
        return np.frombuffer(b"".join([column.data for column in columns]), dtype=_TYPES[kinds.pop()])
    return np.concatenate([array(column) for column in columns]) if columns else np.empty(0)


def whole(columns: Sequence[Column]) -> Ints:
    """``joined`` as whole numbers, which ``wire`` has seen that they are; above 2**63 they become negative."""
    return joined(columns).astype(np.int64)


def floats(columns: Sequence[Column]) -> Floats:
    """``joined`` as floating point numbers."""
    return joined(columns).astype(np.float64)


def unknown(rows: int) -> Column:
    """A column of ``rows`` numbers that nobody measured."""
    return Column("f4", _UNKNOWN * rows)


def ends(column: Column) -> tuple[int, int] | None:
    """The least and the largest of whole numbers; None where there are none.

    >>> ends(Column("u2", b"\\x03\\x00\\x01\\x00"))
    (1, 3)
    """
    if rows(column) > _FEW:
        many = array(column)
        return int(many.min()), int(many.max())
    few = numbers(column)
    return (min(few), max(few)) if few else None


def largest(column: Column) -> float:
    """The largest number that is known; NaN where none is."""
    if rows(column) > _FEW:
        return float(np.fmax.reduce(array(column)))
    return max((one for one in numbers(column) if one == one), default=float("nan"))
