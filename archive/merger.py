"""Carries out what ``merging`` decides, one file at a time.

Rule of this file: a door without a rule of its own; rows are in memory once, and again in their new order.
"""

import time
from collections.abc import Callable

import duckdb
import pyarrow as pa

from paceline.history.manifest import DataFile
from paceline.history.store import Store
from paceline.history.table import Table
from paceline.history.tables import BY_NAME

from . import merging, row_files
from .column_buffers import schema
from .merging import Days
from .writer import Writer


class Merger:
    """Keeps an archive in few files, and lets go of what is too old."""

    def __init__(self, store: Store, writer: Writer, days: Days, clock: Callable[[], float] = time.time) -> None:
        self._store, self._writer, self._days, self._clock = store, writer, days, clock
        self.merged = self.expired = 0

    def turn(self) -> bool:
        """Make the most useful merge; False where there is nothing to be done.

        Raises:
            StoreError: the store does not answer.
        """
        merge = merging.next_merge(self._writer.manifest.files, self._days, self._clock())
        if merge is None:
            return False
        table = BY_NAME[merge.place.table]
        rows = pa.concat_tables([self._read(table, file) for file in merge.files], promote_options="default")
        if merge.coarse:
            rows = _coarser(table, rows if merge.of_sums else row_files.once(table, row_files.ordered(table, rows)))
        times = 1 + max(file.merged for file in merge.files)
        also = {"merged": times, "coarse": merge.coarse, "filled": merge.filled}
        new = [self._writer.put(merge.place, table, rows, **also)] if rows.num_rows else []
        self._writer.replace(merge.files, new)
        self.merged += len(merge.files)
        return True

    def expire(self) -> int:
        """Let go of the files that are too old; how many.

        Raises:
            StoreError: the store does not answer.
        """
        old = merging.expired(self._writer.manifest.files, self._days, self._clock())
        if old:
            self._writer.replace(old, [])
        self.expired += len(old)
        return len(old)

    def _read(self, table: Table, file: DataFile) -> pa.Table:
        """The rows of ``file``, with all columns that this version knows, and those that a later one added."""
        rows = row_files.unpacked(self._store.read(file.path))
        for field in schema(table):
            if field.name in rows.column_names:
                place = rows.column_names.index(field.name)
                rows = rows.set_column(place, field, rows.column(field.name).cast(field.type))
            else:
                rows = rows.append_column(field, pa.nulls(len(rows), field.type))
        return rows


def _coarser(table: Table, rows: pa.Table) -> pa.Table:
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as duck:
        duck.register("rows", rows)
        made: pa.Table = duck.sql(merging.coarser(table.name)).to_arrow_table()
    wanted = schema(table)
    return made.select(wanted.names).cast(wanted)
