"""The tables: made once, the same by migrations and in code, and never taken from a later version or from others."""

import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, Text

from archive.database import schema
from archive.database.errors import DatabaseError
from archive.database.tables import metadata
from tests.archive.database.asked import Database
from tests.derived_events import finding

Opened = Callable[[str], Database]
PREPARE = """
import sys
from tests.archive.database.asked import Database
sys.stdin.readline()
Database(sys.argv[1]).prepare()
"""


def differences(database: Database, wanted: MetaData) -> list[object]:
    with database.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": schema.VERSION_TABLE, "compare_type": True}
        )
        return list(compare_metadata(context, wanted))


def test_migrations_make_what_the_code_has(database: Database) -> None:
    assert differences(database, metadata) == []


def test_a_forgotten_migration_would_be_seen(database: Database) -> None:
    """A new column, and one of another type: the comparison above can fail."""
    wanted = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(wanted)
    wanted.tables["finding"].append_column(Column("new", Integer))
    wanted.tables["position"].c.next_offset.type = Text()
    assert len(differences(database, wanted)) == 2


def test_the_revision_is_the_newest_and_starting_again_changes_nothing(database: Database) -> None:
    database.write(finding())
    database.prepare()
    with database.begin() as connection:
        assert schema.held(connection) == schema.revisions()[-1:]
    assert database.ask("SELECT count(*) FROM finding") == [(1,)]


@pytest.mark.slow
def test_several_that_start_at_once_make_the_tables_once(url: str, opened: Opened) -> None:
    """Each in a process of its own, as they would be."""
    starting = [
        subprocess.Popen([sys.executable, "-c", PREPARE, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in starting:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in starting:
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()
    assert differences(opened(url), metadata) == []


@pytest.mark.parametrize("revision", ["9999", "of tomorrow'; --"])
def test_a_later_version_is_refused_and_left_as_it_is(database: Database, revision: str) -> None:
    """Never downgraded, and said which it is, which this one reads, and what mends it."""
    database.ask(f"UPDATE {schema.VERSION_TABLE} SET version_num = :told", told=revision)
    database.ask("ALTER TABLE finding ADD COLUMN of_tomorrow INTEGER")
    with pytest.raises(DatabaseError, match="start the later version that made them, or name another") as refused:
        database.prepare()
    assert f"revision {revision}, and this version of Paceline reads {', '.join(schema.revisions())}" in str(
        refused.value
    )
    assert database.ask("SELECT count(of_tomorrow) FROM finding") == [(0,)]
    assert database.ask(f"SELECT version_num FROM {schema.VERSION_TABLE}") == [(revision,)]


def test_tables_of_others_are_refused_and_left_as_they_are(url: str, opened: Opened) -> None:
    """A database of another product may have a table ``job``."""
    database = opened(url)
    database.ask("CREATE TABLE job (salary INTEGER)")
    with pytest.raises(DatabaseError, match="it has tables job that Paceline did not make; name a database"):
        database.prepare()
    assert database.ask("SELECT count(salary) FROM job") == [(0,)]


def test_other_tables_and_another_alembic_may_be_there(url: str, opened: Opened) -> None:
    """Where names do not meet, a database is shared."""
    database = opened(url)
    database.ask("CREATE TABLE alembic_version (version_num VARCHAR(32))")
    database.ask("INSERT INTO alembic_version VALUES ('abcdef')")
    database.prepare()
    assert database.ask("SELECT * FROM alembic_version") == [("abcdef",)]


def test_a_migration_that_ends_in_its_middle_leaves_nothing(url: str, opened: Opened) -> None:
    """Tables and version are of one transaction: the next start makes them."""
    database = opened(url)
    with database.begin() as connection:
        schema.prepare(connection, "here")
        connection.get_transaction().rollback()
    with database.begin() as connection:
        assert schema.held(connection) == ()
    assert differences(database.prepare(), metadata) == []


def test_the_file_is_for_its_owner_alone(tmp_path: Path, opened: Opened) -> None:
    """Those that SQLite makes beside it, too; one that was there keeps its mode."""
    database = opened(f"sqlite:///{tmp_path / 'new'}").prepare()
    with database.begin():
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"new": 0o600, "new-wal": 0o600, "new-shm": 0o600}
    (tmp_path / "old").touch(0o640)
    opened(f"sqlite:///{tmp_path / 'old'}").prepare()
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640


def test_sqlite_is_opened_as_it_must_be(tmp_path: Path, opened: Opened) -> None:
    """Readers do not wait for the writer, a writer waits for another, and rows that belong to a row go with it."""
    database = opened(f"sqlite:///{tmp_path / 'new'}").prepare()
    for pragma, value in {"journal_mode": "wal", "busy_timeout": 15000, "foreign_keys": 1}.items():
        assert database.ask(f"PRAGMA {pragma}") == [(value,)]


def test_every_table_has_a_key() -> None:
    """So that what comes twice is one row."""
    keyless = [table.name for table in metadata.sorted_tables if not table.primary_key.columns]
    assert keyless == []
    assert isinstance(metadata.tables["job"], Table)
