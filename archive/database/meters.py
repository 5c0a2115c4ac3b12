"""How writing to the database goes, for ``/metrics`` of ``paceline archive``.

Rule of this file: it only reads, on the threads that answer; no label holds a name from outside.
"""

import time
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

from paceline.exposition import Values, family
from paceline.meters import Meter

from .mirror import DatabaseMirror

ROWS = Meter("paceline_archive_database_rows", "counter", "Rows that were new or changed, by table.", ("table",))
LAG = Meter("paceline_archive_database_lag_messages", "gauge", "Messages not in the database yet.", ("topic",))
RESTARTS = Meter("paceline_archive_database_restarts", "counter", "The thread failed and was started again.")
AGE = Meter("paceline_archive_database_since_commit_seconds", "gauge", "How long ago the last commit was.")
UNUSABLE = Meter(
    "paceline_archive_database_unusable_messages", "counter", "Messages that could not be used.", ("topic", "reason")
)
GONE = Meter("paceline_archive_database_gone_messages", "counter", "Messages that were gone before they were read.")
#: All of them, for the documentation.
METERS = (ROWS, LAG, RESTARTS, AGE, UNUSABLE, GONE)


class DatabaseMeters:
    """What is told of one mirror."""

    def __init__(self, mirror: DatabaseMirror) -> None:
        self._mirror = mirror

    def families(self) -> Iterator[Metric]:
        """Every metric, with its values now."""
        mirror = self._mirror
        values: Mapping[Meter, Values] = {
            ROWS: {(table,): count for table, count in dict(mirror.rows).items()},
            LAG: {(topic,): behind for topic, behind in dict(mirror.lag).items()},
            RESTARTS: {(): mirror.thread.restarts},
            AGE: {(): time.monotonic() - mirror.committed_s},
            UNUSABLE: {(topic, why): count for (topic, why), count in dict(mirror.unusable).items()},
            GONE: {(): mirror.gone},
        }
        for meter in METERS:
            yield family(meter, values[meter])
