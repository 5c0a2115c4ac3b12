"""Tables of rows, read piece by piece: CSV, JSON Lines or Parquet to columns.

Rule of this file: bytes to columns of text or numbers, and no meaning. Only the columns that are asked for are kept; of
the others there is a fingerprint of each whole row, by which a row that is there twice is known.
"""

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from .notes import Notes, SourceError

#: Rows held as Python objects at a time.
CHUNK = 65_536
Column = list[Any] | NDArray[Any]


class Piece(NamedTuple):
    """Some rows: the columns that were asked for, and a number for each row that is another for another row.

    Fingerprints are of all columns as the table has them; they compare within one run of Python only.
    """

    columns: dict[str, Column]
    fingerprints: NDArray[np.int64]


def columns_of(stream: IO[bytes], kind: str) -> list[str]:
    """The names of the columns of the table in ``stream``, which is read again from its start afterwards.

    Raises:
        SourceError: it is no such table.
    """
    if kind == "parquet":
        with _reading_parquet():
            return [str(name) for name in _parquet(stream).schema_arrow.names]
    if kind == "csv":
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        try:
            header = next(csv.reader(text, dialect=_dialect(text)), [])
        finally:
            text.detach()
        return header
    names: dict[str, None] = {}
    for _, line in zip(range(100), stream, strict=False):
        names.update(dict.fromkeys(_object(line) or {}))
    return list(names)


def pieces(stream: IO[bytes], kind: str, columns: list[str], notes: Notes) -> Iterator[Piece]:
    """The rows, in order, ``CHUNK`` or so at a time; a missing value is None, "" or NaN.

    Raises:
        SourceError: it is no such table.
    """
    if kind == "parquet":
        with _reading_parquet():
            for batch in _parquet(stream).iter_batches(batch_size=CHUNK):
                values = {name: _plain(batch.column(name)) for name in columns}
                others = [_plain(batch.column(at)) for at, name in enumerate(batch.schema.names) if name not in values]
                yield Piece(values, _fingerprints(zip(*map(_exact, [*values.values(), *others]), strict=True)))
    elif kind == "csv":
        yield from _csv(stream, columns, notes)
    else:
        yield from _json_lines(stream, columns, notes)


def _fingerprints(rows: Iterable[Any]) -> NDArray[np.int64]:
    return np.fromiter(map(_fingerprint, rows), dtype=np.int64)


def _fingerprint(row: Any) -> int:
    try:
        return hash(row)
    except TypeError:  # Lists and mappings have no hash.
        return hash(repr(row))


def _exact(column: Column) -> list[Any]:
    """A column whose equal values are equal: numbers as their bits, for NaN is not equal to itself."""
    if isinstance(column, np.ndarray):
        return list(column.view(f"i{column.dtype.itemsize}").tolist())
    return column


def _plain(column: Any) -> Column:
    try:
        values = column.to_numpy(zero_copy_only=False)
    except (ValueError, NotImplementedError):
        return list(column.to_pylist())
    return values if values.dtype.kind in "iufb" else list(column.to_pylist())


def _csv(stream: IO[bytes], columns: list[str], notes: Notes) -> Iterator[Piece]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    try:
        reader = csv.reader(text, dialect=_dialect(text))
        header = next(reader, [])
        places = [header.index(name) for name in columns]
        rows: list[list[str]] = []
        try:
            for row in reader:
                if len(row) == len(header):
                    rows.append(row)
                elif row:
                    notes.drop("lines with more or fewer values than the header")
                if len(rows) >= CHUNK:
                    yield _texts(rows, columns, places)
                    rows = []
        except csv.Error as error:
            raise SourceError(f"not CSV: {error}") from error
        yield _texts(rows, columns, places)
    finally:
        text.detach()


def _texts(rows: list[list[str]], columns: list[str], places: list[int]) -> Piece:
    values: dict[str, Column] = {
        name: [row[place] for row in rows] for name, place in zip(columns, places, strict=True)
    }
    return Piece(values, _fingerprints(map(tuple, rows)))


def _dialect(text: io.TextIOWrapper) -> type[csv.Dialect]:
    """Comma, semicolon or tab, whichever the first line has most of."""
    first = text.readline()
    text.seek(0)

    class Dialect(csv.excel):
        delimiter = max(",;\t", key=first.count)

    return Dialect


def _json_lines(stream: IO[bytes], columns: list[str], notes: Notes) -> Iterator[Piece]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for line in stream:
        row = _object(line)
        if row is not None:
            rows.append(row)
            lines.append(hash(line.strip()))
        elif line.strip():
            notes.drop("lines that are no JSON object")
        if len(rows) >= CHUNK:
            yield _values(rows, columns, lines)
            rows, lines = [], []
    yield _values(rows, columns, lines)


def _values(rows: list[dict[str, Any]], columns: list[str], lines: list[int]) -> Piece:
    return Piece({name: [row.get(name) for row in rows] for name in columns}, np.array(lines, dtype=np.int64))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parquet(stream: IO[bytes]) -> Any:
    import pyarrow.parquet

    stream.seek(0)
    return pyarrow.parquet.ParquetFile(stream)


@contextlib.contextmanager
def _reading_parquet() -> Iterator[None]:
    """While a table is read: what is wrong with it may come to light at any row."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise SourceError("Parquet needs pyarrow; pip install pyarrow, or write the table as CSV") from None
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"not Parquet: {' '.join(str(error).split())[:200]}") from error


def numbers(values: list[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """The column as numbers; NaN for what is missing or none."""
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        column = np.asarray(values, dtype=np.float64)
        if column.ndim == 1:  # Where every value is a list, numpy takes it for a table.
            return column
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return float("nan")


def moments(values: list[Any] | NDArray[Any], unit_s: float) -> NDArray[np.float64]:
    """The column as times in ``unit_s``: numbers as they are, or ISO 8601, in UTC where it names no zone."""
    times = numbers(values)
    if len(values) and np.isnan(times).all():
        times = np.array([_moment(value) for value in values], dtype=np.float64) / unit_s
    return times


def _moment(value: Any) -> float:
    try:
        when = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # The latter of a time in the first or the last year that there is.
        return float("nan")
