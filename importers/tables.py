"""Tables of rows, read piece by piece: CSV, JSON Lines or Parquet to columns.

Rule of this file: bytes to columns of text or numbers, and no meaning. Only the columns that are asked for are kept; of
the others there is a fingerprint of each whole row, by which a row that is there twice is known.
"""

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from .notes import Notes, SourceError

#: Rows held as Python objects at a time.
CHUNK = 65_536
#: Lines above a header, and characters of one.
_MOST_ABOVE, MOST_HEADER = 100, 2**20
_SEPARATOR = re.compile(r"\ufeff?\"?sep=(.)\"?")
Column = list[Any] | NDArray[Any]


class Piece(NamedTuple):
    """Some rows: the columns that were asked for, and a number for each row that is another for another row.

    Fingerprints are of all columns as the table has them; they compare within one run of Python only.
    """

    columns: dict[str, Column]
    fingerprints: NDArray[np.int64]
    #: The line of each row in its file, from 1 on; of a table without lines its number.
    lines: NDArray[np.int64]


def columns_of(stream: IO[bytes], kind: str) -> list[str]:
    """The names of the columns of the table in ``stream``, which is read again from its start afterwards.

    Raises:
        SourceError: it is no such table.
    """
    if kind == "parquet":
        with _reading_parquet():
            return [str(name) for name in _parquet(stream).schema_arrow.names]
    if kind == "csv":
        text = _text(stream)
        try:
            return next(_rows(text), [])
        finally:
            text.detach()
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
            first = 1
            for batch in _parquet(stream).iter_batches(batch_size=CHUNK):
                values = {name: _plain(batch.column(name)) for name in columns}
                others = [_plain(batch.column(at)) for at, name in enumerate(batch.schema.names) if name not in values]
                prints = _fingerprints(zip(*map(_exact, [*values.values(), *others]), strict=True))
                yield Piece(values, prints, np.arange(first, first + prints.size))
                first += prints.size
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
    if values.dtype.kind in "mM":  # Arrow makes Python's own of nanoseconds only where pandas is.
        return list(values.astype(f"{values.dtype.kind}8[us]").tolist())
    return values if values.dtype.kind in "iufb" else list(column.to_pylist())


def _csv(stream: IO[bytes], columns: list[str], notes: Notes) -> Iterator[Piece]:
    text = _text(stream)
    try:
        above = _above(text)
        reader = _rows(text)
        header: list[str] = next(reader, [])
        places = [header.index(name) for name in columns]
        rows: list[list[str]] = []
        at: list[int] = []
        try:
            for row in reader:
                if len(row) == len(header):
                    rows.append(row)
                    at.append(above + reader.line_num)
                elif row:
                    notes.drop("lines with more or fewer values than the header")
                if len(rows) >= CHUNK:
                    yield _texts(rows, columns, places, at)
                    rows, at = [], []
        except csv.Error as error:
            raise SourceError(f"not CSV: {error}") from error
        yield _texts(rows, columns, places, at)
    finally:
        text.detach()


def _texts(rows: list[list[str]], columns: list[str], places: list[int], at: list[int]) -> Piece:
    values: dict[str, Column] = {
        name: [row[place] for row in rows] for name, place in zip(columns, places, strict=True)
    }
    return Piece(values, _fingerprints(map(tuple, rows)), np.array(at, dtype=np.int64))


def _text(stream: IO[bytes]) -> io.TextIOWrapper:
    """The text of a table: UTF-8, or UTF-16 by its mark; lines above its header are passed over."""
    begin = stream.read(2)
    stream.seek(0)
    encoding = "utf-16" if begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    return io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")


def _above(text: io.TextIOWrapper) -> int:
    """How many lines stand above the header: comments, blank lines, and what Excel says of its separator."""
    text.seek(0)
    count = 0
    while count < _MOST_ABOVE and (line := text.readline(MOST_HEADER)):
        if line.strip() and not line.startswith("#") and not _SEPARATOR.fullmatch(line.strip()):
            break
        count += 1
    return count


def _rows(text: io.TextIOWrapper) -> Any:
    """A reader of rows, the header first: by comma, semicolon, tab or bar, whichever the header has most of."""
    above, said = _above(text), None
    text.seek(0)
    for _ in range(above):
        found = _SEPARATOR.fullmatch(text.readline(MOST_HEADER).strip())
        said = found[1] if found else said
    header = text.readline(MOST_HEADER)
    text.seek(0)
    for _ in range(above):
        text.readline(MOST_HEADER)

    class Dialect(csv.excel):
        delimiter = said or max(",;\t|", key=header.count)

    return csv.reader(text, dialect=Dialect)


def _json_lines(stream: IO[bytes], columns: list[str], notes: Notes) -> Iterator[Piece]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    at: list[int] = []
    for place, line in enumerate(stream, start=1):
        row = _object(line)
        if row is not None:
            rows.append(row)
            lines.append(hash(line.strip()))
            at.append(place)
        elif line.strip():
            notes.drop("lines that are no JSON object")
        if len(rows) >= CHUNK:
            yield _values(rows, columns, lines, at)
            rows, lines, at = [], [], []
    yield _values(rows, columns, lines, at)


def _values(rows: list[dict[str, Any]], columns: list[str], lines: list[int], at: list[int]) -> Piece:
    values: dict[str, Column] = {name: [row.get(name) for row in rows] for name in columns}
    return Piece(values, np.array(lines, dtype=np.int64), np.array(at, dtype=np.int64))


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
