"""Databases to write to: a file of SQLite, and a real PostgreSQL, a database and a role a test."""

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from archive.database import address
from experiments import postgresql_server
from experiments.postgresql_server import PostgresServer
from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.archive.database.asked import Database


@pytest.fixture
def own_embedded() -> Iterator[BrokerSettings]:
    """An embedded broker that nobody else writes to, with the topics made."""
    with embedded.start() as running:
        settings = BrokerSettings().with_brokers(running.address)
        ensure_topics(settings)
        yield settings


@pytest.fixture(scope="session")
def new_postgres(free_port: Callable[[], int]) -> Iterator[Callable[..., PostgresServer]]:
    """Starts a PostgreSQL of one's own, which may be stopped, with these settings."""
    if postgresql_server.programs() is None:
        pytest.skip(f"no PostgreSQL here; fix: {postgresql_server.MEND}")
    with contextlib.ExitStack() as stack:

        def make(**settings: str) -> PostgresServer:
            server = PostgresServer(free_port(), **settings)
            stack.callback(server.close)
            return server.start()

        yield make


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., PostgresServer]) -> PostgresServer:
    """A PostgreSQL that tests share: do not stop it."""
    return new_postgres()


@pytest.fixture(scope="session")
def new_schema(postgres: PostgresServer) -> Callable[[], str]:
    """The address of a new schema in one database of it, which takes less time than a database."""
    shared, made = postgres.database(), count()

    def make() -> str:
        name = f"schema{next(made)}"
        with psycopg.connect(shared, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        return f"{shared}?options=-csearch_path%3D{name}"

    return make


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.e2e)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database, of each kind in turn."""
    return address.in_folder(tmp_path) if request.param == "sqlite" else request.getfixturevalue("new_schema")()


@pytest.fixture
def database(url: str) -> Database:
    """A new database with its tables."""
    return Database(url).prepare()


@pytest.fixture
def opened() -> Callable[[str], Database]:
    """Opens the database at an address."""
    return Database
