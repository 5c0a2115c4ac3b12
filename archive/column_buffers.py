"""Columns on their way to a file: numbers message by message, and what they come to as Arrow arrays.

Rule of this file: what comes as raw bytes stays bytes. A message adds to every column of its buffer, a value, one for
all its rows, or nothing, which is null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paceline.history.table import Kind, Table

ARROW: Mapping[Kind, pa.DataType] = {
    "text": pa.string(),
    "json": pa.string(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "text[]": pa.list_(pa.string()),
    "i64[]": pa.list_(pa.int64()),
    "f64[]": pa.list_(pa.float64()),
}
#: Whole numbers of a message; those beyond 64 bits are none.
Numbers = NDArray[Any]


def schema(table: Table) -> pa.Schema:
    """The Arrow schema of ``table``."""
    return pa.schema([(name, ARROW[kind]) for name, kind in table.columns.items()])


class ColumnBuffer(Protocol):
    """A column that grows by messages."""

    def add(self, value: Any, rows: int, before: int) -> None:
        """Take in a message's ``rows`` values, of which ``before`` others came before; those not told are null."""

    def finish(self, rows: int) -> pa.Array:
        """All ``rows`` of it."""


class NumberBuffer:
    """Numbers as arrays: an array a message, or one number for all its rows. What is not finite is null."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._chunks: list[tuple[Any, int]] = []
        self._gaps: list[tuple[int, int]] = []
        self._rows = 0

    def add(self, value: Any, rows: int, before: int) -> None:
        """Take in an array of ``rows`` numbers, or a number for all of them."""
        if before > self._rows:
            self._gap(before)
        self._chunks.append((value, rows))
        self._rows = before + rows

    def _gap(self, until: int) -> None:
        self._gaps.append((self._rows, until))
        self._chunks.append((0, until - self._rows))
        self._rows = until

    def finish(self, rows: int) -> pa.Array:
        """All numbers, null where there were none."""
        if rows > self._rows:
            self._gap(rows)
        numbers, missing = _fit(_joined(self._chunks), self._kind)
        for first, until in self._gaps:
            missing[first:until] = True
        return pa.array(numbers, ARROW[self._kind], mask=missing if missing.any() else None)


_NUMPY: Mapping[Kind, type] = {"i64": np.int64, "f64": np.float64, "bool": np.bool_}


def _fit(numbers: NDArray[Any], kind: Kind) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """``numbers`` as their column has them, and which of them it cannot hold."""
    missing = np.zeros(len(numbers), bool)
    if numbers.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            missing = ~np.isfinite(numbers) if kind == "f64" else ~(np.abs(numbers) < 2.0**63)
        if missing.any():
            numbers = np.where(missing, 0, numbers)
    return numbers.astype(_NUMPY[kind], copy=False), missing


def _joined(chunks: Sequence[tuple[Any, int]]) -> NDArray[Any]:
    """Arrays, and numbers that stand for as many rows, one after the other."""
    parts: list[NDArray[Any]] = []
    same: list[tuple[Any, int]] = []
    for value, rows in chunks:
        if isinstance(value, np.ndarray):
            if same:
                parts.append(np.repeat(*map(np.asarray, zip(*same, strict=True))))
                same = []
            # Beside signed numbers those of 64 bits without a sign would all become floating point.
            unsigned = value.dtype == np.uint64
            parts.append(np.minimum(value, np.uint64(2**63 - 1)).astype(np.int64) if unsigned else value)
        else:
            same.append((value, rows))
    if same:
        parts.append(np.repeat(*map(np.asarray, zip(*same, strict=True))))
    return np.concatenate(parts) if parts else np.zeros(0)


class WordBuffer:
    """Words that repeat: a word for all rows of a message, or an index a row into the message's own words."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._chunks: list[tuple[Any, int]] = []
        self._rows = 0

    def add(self, value: Any, rows: int, before: int) -> None:
        """Take in a word, or ``(words, index a row)``; None among the words is null."""
        if before > self._rows:
            self._chunks.append((-1, before - self._rows))
        if isinstance(value, tuple):
            words, index = value
            codes = np.array([-1 if word is None else self._code(word) for word in words], dtype=np.int32)
            self._chunks.append((codes[index], rows))
        else:
            self._chunks.append((self._code(value), rows))
        self._rows = before + rows

    def _code(self, word: str) -> int:
        return self._codes.setdefault(word, len(self._codes))

    def finish(self, rows: int) -> pa.Array:
        """All words, each once, and an index a row."""
        if rows > self._rows:
            self._chunks.append((-1, rows - self._rows))
        codes = _joined(self._chunks).astype(np.int32, copy=False)
        missing = codes < 0
        index = pa.array(codes, pa.int32(), mask=missing if missing.any() else None)
        return pa.DictionaryArray.from_arrays(index, pa.array(list(self._codes), pa.string()))


class ValueBuffer:
    """Values of any kind, a list of them a message or one for all its rows."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._values: list[Any] = []

    def add(self, value: Any, rows: int, before: int) -> None:
        """Take in a list of ``rows`` values, or a value for all of them."""
        self._values += [None] * (before - len(self._values))
        self._values += value if isinstance(value, list) else [value] * rows

    def finish(self, rows: int) -> pa.Array:
        """All values; one that its column cannot hold is null."""
        told = self._values + [None] * (rows - len(self._values))
        try:
            return pa.array(told, ARROW[self._kind], from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array([_fitting(value, ARROW[self._kind]) for value in told], ARROW[self._kind])


def _fitting(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


class TableBuffer:
    """Rows of one table, by messages."""

    def __init__(self, table: Table, make: Callable[[Kind], ColumnBuffer]) -> None:
        self.table, self.rows = table, 0
        self._columns = {name: make(kind) for name, kind in table.columns.items()}

    def add(self, rows: int, values: Mapping[str, Any]) -> None:
        """Take in ``rows`` rows of a message, by column; a column that it does not name is null."""
        for name, value in values.items():
            column = self._columns.get(name)
            if column is not None and value is not None:
                column.add(value, rows, self.rows)
        self.rows += rows

    def finish(self) -> pa.Table:
        """All rows, in the order in which they came."""
        arrays = [column.finish(self.rows) for column in self._columns.values()]
        return pa.Table.from_arrays(arrays, names=list(self._columns))


def raw_columns(kind: Kind) -> ColumnBuffer:
    """Buffers of tables whose messages carry columns of raw numbers."""
    if kind == "text":
        return WordBuffer()
    return NumberBuffer(kind) if kind in ("i64", "f64", "bool") else ValueBuffer(kind)


def values(kind: Kind) -> ColumnBuffer:
    """Buffers of tables whose messages carry lists, or are one row."""
    return ValueBuffer(kind)


def lists(columns: Sequence[str], event: Any, rows: int) -> dict[str, Any]:
    """The lists of ``event`` that have an entry a row; one that an older producer leaves out is not there."""
    return {name: told for name in columns if len(told := getattr(event, name)) == rows}
