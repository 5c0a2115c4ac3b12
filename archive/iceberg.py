"""An archive's files as tables of Apache Iceberg, so that Spark, Trino and others read them where they lie.

Rule of this file: the one that imports PyIceberg. No row is written again: a commit of a table names files of the
archive that are new and lets go of those that are there no more, in one snapshot, so that its files are always those of
one manifest. What is to be done is told by comparing the two, whatever ended the process in between. Columns are added
and never taken away. Partitions there are none, for a file may hold several clusters: readers pass over files by the
lowest and highest value of each column.
"""

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties

from paceline.history.manifest import Manifest
from paceline.history.store import Store, StoreError
from paceline.history.table import Table
from paceline.history.tables import BY_NAME

from .column_buffers import schema
from .writer import GRACE_S

log = logging.getLogger("paceline.archive")
#: The namespace of the tables, and the folder of the archive that has what Iceberg itself writes.
NAMESPACE, FOLDER = "paceline", "iceberg"
#: The property of a snapshot that tells which manifest of the archive it is.
VERSION = "paceline.archive-version"
#: Manifests of Iceberg's that are joined into one, and older descriptions of a table that are kept.
_JOINED, _DESCRIPTIONS = 20, 10

_PROPERTIES = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: str(_JOINED),
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(_DESCRIPTIONS),
}


class IcebergTables:
    """The tables of the archive in ``store``, in a catalog of Iceberg's."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store, self._catalog = store, catalog
        self._root = store.files.address("").rstrip("/")
        self._scheme = "" if "://" in self._root else "file://"
        self._held: dict[str, dict[str, DataFile]] = {}
        #: The manifest that the tables are now, 0 before the first.
        self.version = 0

    @classmethod
    def open(cls, store: Store, uri: str, environ: Mapping[str, str]) -> "IcebergTables":
        """Those of the catalog at ``uri``; of one of their own in the archive's folder where it is empty.

        Raises:
            StoreError: there is no such catalog, or no way to it.
        """
        check(store, uri)
        warehouse = store.files.address(FOLDER)
        properties = {"warehouse": warehouse if "://" in warehouse else f"file://{warehouse}"}
        if endpoint := environ.get("AWS_ENDPOINT_URL"):
            properties["s3.endpoint"] = endpoint
        try:
            properties["uri"] = uri or _own_catalog(store)
            catalog = load_catalog(NAMESPACE, **properties)
            catalog.create_namespace_if_not_exists(NAMESPACE)
        except Exception as error:  # Each kind of catalog has errors of its own.
            raise StoreError(f"the Iceberg catalog at {uri or store.where}: {_line(error)}; check --iceberg") from error
        return cls(store, catalog)

    def follow(self, manifest: Manifest) -> int:
        """Bring the tables to the files of ``manifest``; how many tables had to change.

        Raises:
            StoreError: one could not; those before it have been, and the next time goes on from there.
        """
        wanted: dict[str, set[str]] = {name: set() for name in self._held}
        for file in manifest.files:
            if file.table in BY_NAME:
                wanted.setdefault(file.table, set()).add(file.path)
        changed = 0
        for name, paths in wanted.items():
            try:
                changed += self._bring(BY_NAME[name], paths, manifest.version)
            except Exception as error:  # Catalogs and clients of buckets have errors of their own.
                self._held.pop(name, None)
                raise StoreError(f"Iceberg's table {NAMESPACE}.{name}: {_line(error)}") from error
        self.version = manifest.version
        return changed

    def _bring(self, table: Table, paths: set[str], version: int) -> bool:
        known = self._held.get(table.name)
        if known is not None and known.keys() == paths:
            return False
        iceberg = self._table(table)
        held = self._held[table.name] = _files(iceberg, self._path)
        if held.keys() == paths:
            return False
        added = [self._scheme + self._store.files.address(path) for path in sorted(paths - held.keys())]
        gone = [file for path, file in held.items() if path not in paths]
        self._held[table.name] = _swap(iceberg, added, gone, version, self._path) | {
            path: file for path, file in held.items() if path in paths
        }
        return True

    def _table(self, table: Table) -> IcebergTable:
        """The table, with every column that this version knows."""
        name, columns = (NAMESPACE, table.name), schema(table)
        try:
            found = self._catalog.load_table(name)
        except NoSuchTableError:
            return self._catalog.create_table(name, schema=columns, properties=_PROPERTIES)
        if not set(columns.names) <= {field.name for field in found.schema().fields}:
            with found.update_schema() as update:
                update.union_by_name(columns)
        return found

    def _path(self, address: str) -> str:
        """The archive's path of a file that Iceberg names."""
        return address.removeprefix(self._scheme).removeprefix(self._root).lstrip("/")

    def tidy(self, now_s: float) -> int:
        """Forget the snapshots whose files may be gone, and delete what Iceberg wrote for them; how many files.

        Raises:
            StoreError: the catalog or the store does not answer.
        """
        before = datetime.datetime.fromtimestamp(max(0.0, now_s - GRACE_S), datetime.UTC)
        try:
            return sum(_expire(self._catalog.load_table((NAMESPACE, name)), before) for name in self._held)
        except Exception as error:  # As in `follow`.
            raise StoreError(f"Iceberg's snapshots: {_line(error)}") from error


class IcebergFollower:
    """Keeps a catalog's tables up to the archive whenever the catalog answers; the archive does not wait for it."""

    def __init__(self, store: Store, uri: str, environ: Mapping[str, str]) -> None:
        """Take the address of a catalog, which is asked later.

        Raises:
            StoreError: nothing can ever be there.
        """
        check(store, uri)
        self._open: Callable[[], IcebergTables] = lambda: IcebergTables.open(store, uri, environ)
        self._tables: IcebergTables | None = None
        #: Why the tables are not up to date, empty where they are.
        self.failure = ""

    @property
    def version(self) -> int:
        """The manifest that the tables are now, 0 where that is not known."""
        return 0 if self._tables is None else self._tables.version

    def follow(self, manifest: Manifest) -> None:
        """Bring the tables to ``manifest``, or say why that cannot be."""
        if self.version != manifest.version:
            self._try(lambda tables: tables.follow(manifest))

    def tidy(self, now_s: float) -> None:
        """Delete what Iceberg needs no more."""
        self._try(lambda tables: tables.tidy(now_s))

    def _try(self, what: Callable[[IcebergTables], int]) -> None:
        try:
            if self._tables is None:
                self._tables = self._open()
            what(self._tables)
        except StoreError as error:
            if str(error) != self.failure:
                log.warning("%s; it is tried again at the next commit", error)
            self.failure = str(error)
        else:
            if self.failure:
                log.info("Iceberg's tables are up to date again")
            self.failure = ""


def _own_catalog(store: Store) -> str:
    address = store.files.address(f"{FOLDER}/catalog.db")
    Path(address).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    return f"sqlite:///{address}"


def check(store: Store, uri: str) -> None:
    """Look at the address of a catalog for the archive in ``store``; empty is its own.

    Raises:
        StoreError: it is none, or has a secret in it.
    """
    if not uri:
        if "://" in store.files.address(FOLDER):
            raise StoreError(
                f"the archive at {store.where}: SQLite does not work in a bucket; fix: --iceberg CATALOG-URI, as "
                "sqlite:////var/lib/paceline/catalog.db, postgresql+psycopg://USER@HOST/DB or https://REST-CATALOG"
            )
        return
    try:
        parts = urlsplit(uri)
        secret = parts.password
    except ValueError as error:
        raise StoreError(f"--iceberg: no address ({error})") from error
    if secret:
        raise StoreError("--iceberg: no password in an address; fix: PGPASSWORD or ~/.pgpass, or PyIceberg's settings")
    if parts.scheme not in ("sqlite", "postgresql+psycopg", "http", "https"):
        raise StoreError(f"--iceberg {parts.scheme}:…: allowed: sqlite:///FILE, postgresql+psycopg://…, https://…")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__


def _files(iceberg: IcebergTable, path_of: Callable[[str], str]) -> dict[str, DataFile]:
    """The files that the table has now, by the archive's path."""
    snapshot = iceberg.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(iceberg.io)
    return {
        path_of(entry.data_file.file_path): entry.data_file
        for one in manifests
        for entry in one.fetch_manifest_entry(iceberg.io, discard_deleted=True)
    }


def _swap(
    iceberg: IcebergTable, added: list[str], gone: Iterable[DataFile], version: int, path_of: Callable[[str], str]
) -> dict[str, DataFile]:
    """Commit that files are added and others gone, in one snapshot; the added ones, by the archive's path."""
    gone = list(gone)
    with iceberg.transaction() as transaction:
        for address in added:
            _widen(iceberg, transaction, address)
        if iceberg.metadata.name_mapping() is None:
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        snapshot = transaction.update_snapshot(snapshot_properties={VERSION: str(version)})
        files = [parquet_file_to_data_file(iceberg.io, transaction.table_metadata, address) for address in added]
        with snapshot.overwrite() if gone else snapshot.merge_append() as update:
            for file in files:
                update.append_data_file(file)
            for file in gone:
                update.delete_data_file(file)
    return {path_of(file.file_path): file for file in files}


def _widen(iceberg: IcebergTable, transaction: Any, address: str) -> None:
    """Add the columns that a file of a later version has."""
    with iceberg.io.new_input(address).open() as stream:
        columns = pq.read_metadata(stream).schema.to_arrow_schema()
    if not set(columns.names) <= {field.name for field in transaction.table_metadata.schema().fields}:
        with transaction.update_schema() as update:
            update.union_by_name(columns)


def _expire(iceberg: IcebergTable, before: datetime.datetime) -> int:
    written = _written(iceberg)
    iceberg.maintenance.expire_snapshots().older_than(before).commit()
    iceberg.refresh()
    left = written - _written(iceberg)
    for path in left:
        iceberg.io.delete(path)
    return len(left)


def _written(iceberg: IcebergTable) -> set[str]:
    """What Iceberg wrote for the snapshots of a table: lists of manifests, and manifests."""
    paths: set[str] = set()
    for snapshot in iceberg.snapshots():
        paths.add(snapshot.manifest_list)
        paths |= {one.manifest_path for one in snapshot.manifests(iceberg.io)}
    return paths
