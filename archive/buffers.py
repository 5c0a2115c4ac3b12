"""Rows that wait for the next commit, by table, date and cluster.

Rule of this file: pure and bounded. Rows of clusters beyond the first many share a file, and so do those of dates that
no clock should tell: what comes from outside does not decide how many files there are.
"""

import datetime
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from paceline.history.manifest import SEVERAL
from paceline.history.table import OFFSET, PARTITION, Kind, Table

from .column_buffers import ColumnBuffer, TableBuffer, raw_columns, values
from .messages import Rows

#: A commit is due with rows of so many bytes of messages: in memory they are about three times that.
MOST_BYTES = 96 * 1024 * 1024
#: Files of one commit, about: clusters that have files of their own, and dates.
MOST_CLUSTERS, MOST_DATES = 64, 64
#: How far ahead of the publication a row's own time may be.
AHEAD_S = 86_400.0


class Place(NamedTuple):
    """Which file rows go to."""

    table: str
    date: str
    cluster: str


class Buffers:
    """All that was read since the last commit, from ``bytes`` of messages."""

    def __init__(self) -> None:
        self.bytes = 0
        self._tables: dict[Place, TableBuffer] = {}
        self._clusters: set[str] = set()
        self._dates: set[str] = set()

    def add(self, added: Rows, partition: int, offset: int, published_s: float) -> None:
        """Take in the rows of a message."""
        place = Place(added.table.name, self._date(added.time_s, published_s), self._cluster(added))
        buffer = self._tables.get(place)
        if buffer is None:
            buffer = self._tables[place] = TableBuffer(added.table, _maker(added.table))
        buffer.add(added.rows, {**added.values, PARTITION: partition, OFFSET: offset})

    def _date(self, time_s: float, published_s: float) -> str:
        """The day of the row's own time, in UTC; of one far off, that of its publication."""
        if not 0.0 <= time_s <= published_s + AHEAD_S:
            time_s = published_s
        date = day(time_s)
        if date not in self._dates and len(self._dates) >= MOST_DATES:
            return day(published_s)
        self._dates.add(date)
        return date

    def _cluster(self, added: Rows) -> str:
        told = added.values.get("cluster", "")
        cluster = str(told[0] if isinstance(told, list) else told)
        if cluster not in self._clusters and (len(self._clusters) >= MOST_CLUSTERS or cluster == SEVERAL):
            return SEVERAL
        self._clusters.add(cluster)
        return cluster

    def finish(self) -> Iterator[tuple[Place, Table, pa.Table]]:
        """What each file shall hold, in the order in which it came."""
        for place, buffer in self._tables.items():
            yield place, buffer.table, buffer.finish()


def day(time_s: float) -> str:
    """The date of a Unix time, in UTC.

    >>> day(0.0), day(1e11)
    ('1970-01-01', '5138-11-16')
    """
    return datetime.datetime.fromtimestamp(time_s, datetime.UTC).date().isoformat()


def _maker(table: Table) -> Callable[[Kind], ColumnBuffer]:
    return raw_columns if table.topic is not None and table.topic.encoding == "msgpack" else values
