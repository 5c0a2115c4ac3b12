"""The tables of a database made, brought to this version, or refused.

Rule of this file: one at a time, under a lock that the transaction holds, so that two that start at once are safe. A
database of a later version is never changed, and one that others have made is never taken over.
"""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, inspect, select, text

from .errors import DatabaseError
from .tables import metadata

#: Ours, and nobody else's: another product may keep Alembic's own in the same database.
VERSION_TABLE = "paceline_version"
_MIGRATIONS = Path(__file__).parent / "migrations"
#: The advisory lock of PostgreSQL that whoever migrates holds: "paceline" in hexadecimal.
_LOCK = 0x706163656C696E65
_LOCK_WAIT = "60s"
#: Alembic has one migration at a time in a process.
_alone = threading.Lock()


def revisions() -> tuple[str, ...]:
    """The revisions that this version knows, oldest first; the last one is its own."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(reversed([script.revision for script in scripts.walk_revisions()]))


def prepare(connection: Connection, shown: str) -> None:
    """Bring the tables to this version; ``connection`` is inside a transaction.

    Raises:
        DatabaseError: it is of a later version, or of others.
        SQLAlchemyError: the database cannot be used.
    """
    if held(connection) == revisions()[-1:]:
        return
    _lock(connection)
    refuse(shown, held(connection), set(inspect(connection).get_table_names()), revisions())
    config = _config()
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    with _alone:
        command.upgrade(config, "head")


def held(connection: Connection) -> tuple[str, ...]:
    """The revisions that the database says it is of: none, or one."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return tuple(sorted(context.get_current_heads()))


def refuse(shown: str, told: tuple[str, ...], tables: set[str], known: tuple[str, ...]) -> None:
    """Refuse a database that says it is ``told``, and has ``tables``, where ``known`` is what this version reads.

    Raises:
        DatabaseError: so it is.

    >>> refuse("sqlite:///a", ("0009",), {"job"}, ("0001",))
    Traceback (most recent call last):
    ...
    archive.database.errors.DatabaseError: database at sqlite:///a: its tables are of revision 0009, and this \
version of Paceline reads 0001; start the later version that made them, or name another database in PACELINE_DATABASE
    """
    later = [one for one in told if one not in known]
    if later or len(told) > 1:
        raise DatabaseError(
            shown,
            f"its tables are of revision {' and '.join(told)}, and this version of Paceline reads {', '.join(known)}",
            "start the later version that made them, or name another database in PACELINE_DATABASE",
        )
    foreign = sorted(tables & set(metadata.tables)) if not told else []
    if foreign:
        raise DatabaseError(
            shown,
            f"it has tables {', '.join(foreign)} that Paceline did not make",
            "name a database or a schema of its own in PACELINE_DATABASE",
        )


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'"))
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
