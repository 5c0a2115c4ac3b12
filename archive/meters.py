"""The service's own metrics; they begin with ``paceline_archive_``, and their labels are bounded.

Rule of this file: it only reads, on the threads that answer.
"""

import time
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

from paceline.exposition import Values, family
from paceline.meters import Meter

from .archiver import Archiver
from .database.meters import DatabaseMeters
from .database.mirror import DatabaseMirror

READY = Meter("paceline_archive_ready", "gauge", "1 while /readyz is 200.")
RESTARTS = Meter("paceline_archive_restarts", "counter", "Starts of the archiver after it had failed.")
LAG = Meter("paceline_archive_lag_messages", "gauge", "Messages not read yet.", ("topic",))
MESSAGES = Meter("paceline_archive_messages", "counter", "Messages read.", ("topic",))
UNUSABLE = Meter("paceline_archive_unusable_messages", "counter", "Messages that could not be decoded.", ("topic",))
GAPS = Meter("paceline_archive_gaps", "counter", "Times that messages were gone before they were read.")
ROWS = Meter("paceline_archive_rows", "counter", "Rows committed.")
COMMITS = Meter("paceline_archive_commits", "counter", "Commits that brought rows.")
AGE = Meter("paceline_archive_since_commit_seconds", "gauge", "How long ago a commit was tried.")
MERGED = Meter("paceline_archive_merged_files", "counter", "Files that became part of a larger one.")
EXPIRED = Meter("paceline_archive_expired_files", "counter", "Files let go of: they were too old.")
FILES = Meter("paceline_archive_files", "gauge", "Files that hold rows.")
BYTES = Meter("paceline_archive_bytes", "gauge", "What they take.")
SOURCE_ROWS = Meter("paceline_archive_source_rows", "counter", "Rows of another source than the bus.", ("source",))
SOURCE_FAILURES = Meter("paceline_archive_source_failures", "counter", "Times that it could not be read.", ("source",))
SOURCE_AGE = Meter(
    "paceline_archive_source_age_seconds", "gauge", "How long ago all of it was read the last time.", ("source",)
)
BEHIND = Meter(
    "paceline_archive_iceberg_behind_versions",
    "gauge",
    "Versions of the archive that Iceberg's tables do not know yet.",
)
#: All of them, for the documentation.
METERS = (
    READY,
    RESTARTS,
    LAG,
    MESSAGES,
    UNUSABLE,
    GAPS,
    ROWS,
    COMMITS,
    AGE,
    MERGED,
    EXPIRED,
    FILES,
    BYTES,
    SOURCE_ROWS,
    SOURCE_FAILURES,
    SOURCE_AGE,
    BEHIND,
)


class ArchiveMeters:
    """What is told of an archiver, and of who writes the database, where there is one."""

    def __init__(self, archiver: Archiver, mirror: DatabaseMirror | None = None) -> None:
        self._archiver, self._mirror = archiver, mirror

    def waits(self) -> str | None:
        """What is waited for, None while all goes on."""
        return self._archiver.waits() or (None if self._mirror is None else self._mirror.waits())

    def families(self) -> Iterator[Metric]:
        """Every metric, with its values now."""
        archiver, done = self._archiver, self._archiver.totals()
        files, size = archiver.size()
        values: Mapping[Meter, Values] = {
            READY: {(): int(self.waits() is None)},
            RESTARTS: {(): archiver.thread.restarts},
            LAG: {(topic,): behind for topic, behind in dict(archiver.lag).items()},
            MESSAGES: {(topic,): count for topic, count in dict(archiver.messages).items()},
            UNUSABLE: {(topic,): count for topic, count in archiver.unusable.items()},
            GAPS: {(): archiver.gaps},
            ROWS: {(): done.get("rows", 0)},
            COMMITS: {(): done.get("commits", 0)},
            AGE: {(): time.monotonic() - archiver.committed_s},
            MERGED: {(): done.get("merged", 0)},
            EXPIRED: {(): done.get("expired", 0)},
            FILES: {(): files},
            BYTES: {(): size},
            SOURCE_ROWS: {(feeder.source.name,): feeder.rows for feeder in archiver.feeders},
            SOURCE_FAILURES: {(feeder.source.name,): feeder.failures for feeder in archiver.feeders},
            SOURCE_AGE: {
                (feeder.source.name,): time.time() - feeder.well_s
                for feeder in archiver.feeders
                if feeder.well_s is not None
            },
            BEHIND: {(): archiver.behind},
        }
        for meter in METERS:
            yield family(meter, values[meter])
        if self._mirror is not None:
            yield from DatabaseMeters(self._mirror).families()
