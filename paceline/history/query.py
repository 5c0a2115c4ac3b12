"""Questions to an archive, answered by DuckDB in this process.

Rule of this file: the one that imports DuckDB. A connection sees the files of one manifest and nothing else of this
machine: neither other files nor the network, whatever the SQL says.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import duckdb
import msgspec

from paceline.timed_event import TimedEvent

from . import rows, views
from .manifest import SEVERAL, DataFile, Manifest
from .store import Store, StoreError, open_store
from .table import Table
from .tables import TABLES
from .views import Scope

#: Rows of an answer, unless more are asked for.
MOST_ROWS = 1_000_000
MEMORY = "2GB"
_BATCH = 10_000


class QueryError(Exception):
    """A question that cannot be answered: what DuckDB says, on one line."""


class Answer(NamedTuple):
    """Rows, and whether there would have been more."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    cut: bool = False


class History:
    """An archive as it is now."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest

    @classmethod
    def open(cls, url: str, environ: Mapping[str, str]) -> "History":
        """The archive at ``url``.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        store = open_store(url, environ)
        manifest = store.newest()
        if manifest is None:
            raise StoreError(f"no archive at {store.where}; fix: paceline archive --to {store.where}")
        return cls(store, manifest)

    def files(self, table: Table, scope: Scope) -> list[DataFile]:
        """The files that can hold rows of ``scope``."""
        word = scope.words(table).get(table.order[0], "")
        low, high = word, word
        if not word and scope.nodes and table.order[0] == "node":
            low, high = min(scope.nodes), max(scope.nodes)
        lasting = table.name in views.LASTING
        return [
            file
            for file in self.manifest.files
            if file.table == table.name
            and file.first_s < scope.until_s
            and (lasting or file.last_s >= scope.since_s)
            and (not scope.cluster or file.cluster in (scope.cluster, SEVERAL))
            and (not high or not file.high or (file.low <= high and low <= file.high))
        ]

    def connect(self, scope: Scope, names: Sequence[str] = views.NAMES, memory: str = MEMORY) -> "Connection":
        """A connection that sees ``scope`` through the views called ``names``, in so much memory and then on disk."""
        needed = {name for one in names for name in views.NEEDS.get(one, (one,))}
        tables = [table for table in TABLES if table.name in needed]
        whole = [name for name in views.VIEWS if needed.issuperset(views.NEEDS[name])]
        return Connection(self, scope, tables, whole, memory)

    def events(self, table: Table, scope: Scope) -> Iterator[TimedEvent]:
        """The events of a table of whole events, in the order of their time.

        Of findings and suggestions every revision comes. What a later version wrote is passed over.

        Raises:
            QueryError, StoreError: the archive cannot be read.
            TypeError: the table is not one of whole events.
        """
        names = ", ".join(f'"{name}"' for name in table.columns)
        place, topic = list(table.columns).index(table.time), table.topic
        if topic is None:
            raise TypeError(f"{table.name}: no topic tells it")
        with self.connect(scope, (table.name,)) as connection:
            for row in connection.each(f'SELECT {names} FROM {table.name} ORDER BY "{table.time}"'):
                with contextlib.suppress(msgspec.ValidationError):
                    event = rows.event_of(table, dict(zip(table.columns, row, strict=True)))
                    yield TimedEvent(row[place], topic, event)


class Connection:
    """A connection to DuckDB with the views of a scope; a context manager."""

    def __init__(
        self, history: History, scope: Scope, tables: Sequence[Table], names: Sequence[str], memory: str = MEMORY
    ) -> None:
        self._spill = tempfile.TemporaryDirectory(prefix="paceline-history-")
        self._where = history.store.where
        self._duck = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        try:
            self._duck.execute(f"SET memory_limit = {views.quoted(memory)}")
            self._prepare(history, scope, tables, names)
        except BaseException:
            self.close()
            raise

    def _prepare(self, history: History, scope: Scope, tables: Sequence[Table], names: Sequence[str]) -> None:
        files = history.store.files
        filesystem = files.filesystem()
        if filesystem is not None:
            self._duck.register_filesystem(filesystem)
        addresses = [[files.address(file.path) for file in history.files(table, scope)] for table in tables]
        every = ", ".join(views.quoted(address) for of_table in addresses for address in of_table)
        self._duck.execute(f"SET temp_directory = {views.quoted(self._spill.name)}")
        # A view is bound when it is made and again when it is asked: what each file holds is read once.
        self._duck.execute("SET parquet_metadata_cache = true")
        self._duck.execute(f"SET allowed_paths = [{every}]")
        self._duck.execute("SET enable_external_access = false")
        self._duck.execute("SET lock_configuration = true")
        self._duck.execute("CREATE SCHEMA none")
        self._duck.execute(views.scope_table(scope))
        with self._explained():
            for table, of_table in zip(tables, addresses, strict=True):
                for statement in views.table_view(table, of_table, scope):
                    self._duck.execute(statement)
            for name in names:
                self._duck.execute(f"CREATE VIEW {name} AS {views.VIEWS[name][1]}")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, with all that it had on disk."""
        self._duck.close()
        self._spill.cleanup()

    def interrupt(self) -> None:
        """Stop what is being answered, from another thread: it ends with a QueryError."""
        self._duck.interrupt()

    def ask(self, sql: str, parameters: Sequence[Any] = (), most: int = MOST_ROWS) -> Answer:
        """What ``sql`` gives, ``most`` rows of it.

        Raises:
            QueryError: it is no SQL that DuckDB knows, or not to be answered.
        """
        with self._explained():
            told = self._duck.execute(sql, list(parameters))
            columns = [str(column[0]) for column in told.description or ()]
            found = told.fetchmany(most + 1)
        return Answer(columns, found[:most], len(found) > most)

    def each(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of ``sql`` one by one.

        Raises:
            QueryError: as in ``ask``.
        """
        with self._explained():
            told = self._duck.execute(sql, list(parameters))
        while True:
            with self._explained():
                found = told.fetchmany(_BATCH)
            if not found:
                return
            yield from found

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, OSError) as error:
            words = " ".join(str(error).split())
            raise QueryError(f"the archive at {self._where}: {words[:500]}") from error
