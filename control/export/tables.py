"""One wide table: a row for each GPU, host or job and time; the name of a column tells its unit.

Rule of this file: written in batches. A spreadsheet would run a name that begins like a formula: it gets a quote.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from paceline.recording import Line

from .rows import DEVICE_COLUMNS, HOST_COLUMNS, JOB_COLUMNS, Reader, Row
from .told import Told

NAMES = ("kind", "time_s", "cluster", "node", "device_index", "device", "device_name", "job", "silent")
COLUMNS = tuple(dict.fromkeys((*DEVICE_COLUMNS, *HOST_COLUMNS, *JOB_COLUMNS)))
BATCH = 10_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: Endings of names, and the units that they stand for.
UNITS = {
    "_ratio": "ratio",
    "_bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_s": "s",
    "_w": "W",
    "_j": "J",
    "_celsius": "degrees Celsius",
    "_mhz": "MHz",
}


def unit(name: str) -> str:
    """The unit that a column's name ends in; empty for what is counted.

    >>> unit("pcie_rx_bytes_per_s"), unit("power_w"), unit("xid")
    ('bytes/s', 'W', '')
    """
    return next((told for ending, told in UNITS.items() if name.endswith(ending)), "")


def _records(lines: Iterable[Line], told: Told) -> Iterator[list[Any]]:
    reader = Reader(told)
    for event in reader.events(lines):
        for row in reader.rows(event):
            silent = row.node in told.silent_at(row.time_s) if told.silences else False
            yield [*_names(row), silent, *(row.values.get(name) for name in COLUMNS)]


def _names(row: Row) -> list[Any]:
    return [row.kind, row.time_s, row.cluster, row.node, row.number, row.device, row.name, row.job]


def write_csv(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """CSV with a header; empty is *not measured*."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow([*NAMES, *COLUMNS])
    for record in _records(lines, told):
        writer.writerow([_safe(value) for value in record])
    text.flush()
    text.detach()


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_parquet(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """Parquet, zstd; each field's metadata tells its unit, null is *not measured*."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("kind", "cluster", "node", "device", "device_name", "job")
    kinds = {name: pa.string() for name in texts} | {"device_index": pa.int64(), "silent": pa.bool_()}
    fields = [
        pa.field(name, kinds.get(name, pa.float64()), metadata={"unit": unit(name)} if unit(name) else None)
        for name in (*NAMES, *COLUMNS)
    ]
    about = {"session": told.name, "complete": str(told.complete), "missing_messages": str(told.missing_count)}
    schema = pa.schema(fields, metadata=about)
    records = _records(lines, told)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        while batch := list(islice(records, BATCH)):
            columns = zip(*batch, strict=True)
            arrays = [
                pa.array(list(column), type=field.type, from_pandas=True)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
