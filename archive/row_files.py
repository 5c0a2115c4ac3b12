"""Rows as a Parquet file: sorted, compressed, and summed up for the manifest.

Rule of this file: pure; bytes come out, and go in.
"""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paceline.events import LATEST_S
from paceline.history.manifest import DataFile
from paceline.history.table import Table

#: Rows that DuckDB can pass over together: smaller ones cost more to list than they save.
GROUP_ROWS = 122_880
LEVEL = 3
#: How much of a word is told in the manifest.
_LONGEST = 200


def ordered(table: Table, rows: pa.Table) -> pa.Table:
    """``rows`` in the table's order."""
    keys = [_ranks(rows.column(name)) for name in reversed(table.order)]
    return rows.take(pa.array(np.lexsort(keys)))


def _ranks(column: pa.ChunkedArray) -> NDArray[Any]:
    """Numbers in whose order the column's values are."""
    if not (pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
        numbers: NDArray[Any] = pc.fill_null(column, 0).to_numpy()
        return numbers
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    words = np.array(whole.dictionary.to_pylist(), dtype=object)
    place = np.empty(len(words) + 1, dtype=np.int64)
    place[np.argsort(words, kind="stable")] = np.arange(len(words))
    place[-1] = -1
    index: NDArray[Any] = pc.fill_null(whole.indices, len(words)).to_numpy(zero_copy_only=False)
    ranks: NDArray[Any] = place[index]
    return ranks


def once(table: Table, rows: pa.Table) -> pa.Table:
    """``rows``, in the table's order, without those that the rest has again: the last to be published counts."""
    if not table.key or rows.num_rows < 2:
        return rows
    same = np.ones(rows.num_rows - 1, dtype=bool)
    for name in ("cluster", *table.key):
        ranks = _ranks(rows.column(name))
        same &= ranks[1:] == ranks[:-1]
    return rows.filter(pa.array(np.append(~same, True))) if same.any() else rows


def packed(rows: pa.Table) -> bytes:
    """``rows`` as a Parquet file."""
    out = io.BytesIO()
    words = [
        field.name for field in rows.schema if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
    ]
    pq.write_table(
        rows, out, row_group_size=GROUP_ROWS, compression="zstd", compression_level=LEVEL, use_dictionary=words
    )
    return out.getvalue()


def unpacked(data: bytes) -> pa.Table:
    """The rows of a Parquet file."""
    return pq.read_table(io.BytesIO(data))


def summed(table: Table, rows: pa.Table, file: str, date: str, cluster: str, size: int) -> DataFile:
    """What the manifest says of a file that holds ``rows``, in the table's order."""
    times = pc.min_max(rows.column(table.time)).as_py()
    words = rows.column(table.order[0])
    is_word = table.columns[table.order[0]] == "text" and words.null_count == 0
    low, high = (str(words[0]), str(words[-1])) if is_word else ("", "")
    return DataFile(
        table=table.name,
        path=file,
        date=date,
        cluster=cluster,
        rows=rows.num_rows,
        bytes=size,
        first_s=0.0 if times["min"] is None else times["min"],
        last_s=LATEST_S if times["max"] is None else times["max"],
        # A bound that is cut off still bounds.
        low=low[:_LONGEST],
        high=high if len(high) <= _LONGEST else "\U0010ffff",
    )
