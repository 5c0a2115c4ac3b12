"""Commits: what makes rows, merges and deletions part of an archive, or not at all.

Rule of this file: files first, then the manifest that names them. A file that no manifest names is deleted at the next
start; one that a manifest names no more is deleted once nobody can be reading it.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
import pyarrow as pa

from paceline.history import manifest as manifests
from paceline.history.manifest import KEPT, DataFile, Gap, Gone, Manifest, data_path, manifest_path
from paceline.history.store import Store, StoreError
from paceline.history.table import Table

from . import row_files
from .addition import Addition
from .buffers import Buffers, Place

#: How long a file is left that a manifest names no more: longer than any question takes.
GRACE_S = 900.0
#: Gaps that are listed.
MOST_GAPS = 1000


class Position(NamedTuple):
    """Up to where topics have been read: by (topic, partition) the next offset, and the ids of the topics."""

    places: Mapping[tuple[str, int], int]
    topic_ids: Mapping[str, str]


class Writer:
    """The one who writes an archive."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self.manifest = store.newest() or Manifest(version=0, time_s=clock())
        self.rows = self.bytes = self.commits = 0

    def tidy(self) -> int:
        """Delete the files that were never committed, and cannot be any more; how many.

        A file is named after the version that it was written for. Whoever else may be writing does so for the next
        one, whose files are left alone; for an older one nobody can commit any more.

        Raises:
            StoreError: the store does not answer.
        """
        named = {file.path for file in self.manifest.files} | {gone.path for gone in self.manifest.gone}
        orphans = [
            path
            for path in self._store.data_paths()
            if path not in named and manifests.written_for(path) <= self.manifest.version
        ]
        for path in orphans:
            self._store.remove(path)
        return len(orphans)

    def commit(
        self, buffers: Buffers, position: Position, gaps: Iterable[Gap] = (), unusable: Mapping[str, int] | None = None
    ) -> None:
        """Make what ``buffers`` hold, and that topics were read up to ``position``, part of the archive.

        Raises:
            StoreError: it could not; the archive is as it was.
        """
        files = [self.put(place, table, rows) for place, table, rows in buffers.finish()]
        held = self.manifest
        gaps = list(gaps)
        counts = dict(held.unusable)
        for topic, count in (unusable or {}).items():
            counts[topic] = counts.get(topic, 0) + count
        self._become(
            msgspec.structs.replace(
                held,
                offsets={manifests.offset_name(*place): offset for place, offset in sorted(position.places.items())},
                topic_ids=dict(position.topic_ids),
                files=[*held.files, *files],
                gaps=[*held.gaps, *gaps][-MOST_GAPS:],
                gap_count=held.gap_count + len(gaps),
                unusable=counts,
            )
        )
        self.rows += sum(file.rows for file in files)
        self.bytes += sum(file.bytes for file in files)
        self.commits += 1

    def put(self, place: Place, table: Table, rows: pa.Table, **also: int | bool) -> DataFile:
        """Write ``rows`` to a file that is not committed yet; ``also`` is what else the manifest shall say of it.

        Raises:
            StoreError: it cannot be written.
        """
        rows = row_files.once(table, row_files.ordered(table, rows))
        data = row_files.packed(rows)
        name = f"{self.manifest.version + 1}-{secrets.token_hex(8)}"
        path = data_path(place.table, place.date, place.cluster, name)
        try:
            self._store.write(path, data)
        except FileExistsError as error:
            raise StoreError(f"the archive at {self._store.where}: {path} already exists") from error
        made = row_files.summed(table, rows, path, place.date, place.cluster, len(data))
        return msgspec.structs.replace(made, **also)

    def add(self, addition: Addition) -> bool:
        """Make rows of another source than the bus part of the archive; False where a file that they stand for is gone.

        Raises:
            StoreError: it could not; the archive is as it was.
        """
        named = {file.path for file in self.manifest.files}
        if any(file.path not in named for file in addition.instead_of):
            return False
        filled = addition.filled
        files = [self.put(place, table, rows, filled=filled, coarse=filled) for place, table, rows in addition.parts]
        if files or addition.instead_of:
            self.replace(addition.instead_of, files)
        self.rows += 0 if addition.instead_of else sum(file.rows for file in files)
        self.bytes += sum(file.bytes for file in files)
        return True

    def replace(self, old: Iterable[DataFile], new: Iterable[DataFile]) -> None:
        """Let ``new`` stand in the place of ``old``.

        Raises:
            StoreError: it could not; the archive is as it was.
        """
        leaving = {file.path for file in old}
        now_s, held = self._clock(), self.manifest
        self._become(
            msgspec.structs.replace(
                held,
                files=[*(file for file in held.files if file.path not in leaving), *new],
                gone=[*held.gone, *(Gone(path=path, since_s=now_s) for path in sorted(leaving))],
            )
        )

    def sweep(self) -> int:
        """Delete what has been named no more for long enough, and manifests that are old; how many files of rows.

        Raises:
            StoreError: the store does not answer.
        """
        now_s, held = self._clock(), self.manifest
        due = [gone for gone in held.gone if not 0.0 <= now_s - gone.since_s < GRACE_S]
        for gone in due:
            self._store.remove(gone.path)
        for version in self._store.versions()[:-KEPT]:
            self._store.remove(manifest_path(version))
        if due:
            left = [gone for gone in held.gone if gone not in due]
            self._become(msgspec.structs.replace(held, gone=left))
        return len(due)

    def _become(self, manifest: Manifest) -> None:
        following = msgspec.structs.replace(manifest, version=self.manifest.version + 1, time_s=self._clock())
        self._store.commit(following)
        self.manifest = following
