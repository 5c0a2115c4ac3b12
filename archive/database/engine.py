"""The connection to the database: what each of the two kinds is opened with.

Rule of this file: a door. SQLite locks as a transaction begins, so that two writers wait for each other and none is
told in its middle that it was too late.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
from psycopg.types.json import set_json_dumps
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from .address import Address

#: How long SQLite waits for another writer.
BUSY_S = 15.0
#: A power cut may undo the last commits of SQLite, rows and positions together: they are read again.
_PRAGMAS = ("busy_timeout = 15000", "journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON")


def engine(at: Address) -> Engine:
    """How connections to ``at`` are made; none is yet.

    Raises:
        OSError: the file of SQLite cannot be made.
    """
    options: dict[str, Any] = {"poolclass": NullPool, "hide_parameters": True, "json_serializer": _json}
    if at.file is None:
        made = create_engine("postgresql+psycopg://", creator=_postgresql(at), **options)
        event.listen(made, "connect", _writes_json)
        return made
    _make(at)
    made = create_engine(URL.create("sqlite", database=str(at.file)), **options)
    event.listen(made, "connect", _opened)
    event.listen(made, "begin", _locked)
    return made


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _postgresql(at: Address) -> Callable[[], psycopg.Connection]:
    options: dict[str, Any] = dict(at.options)
    return lambda: psycopg.connect(**options)


def _writes_json(connection: Any, _record: object) -> None:
    set_json_dumps(_json, connection)


def _make(at: Address) -> None:
    """A file that is new is for its owner alone; SQLite makes what lies beside it in the same way."""
    assert at.file is not None
    os.close(os.open(at.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _opened(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # Transactions begin where we say so.
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _locked(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
