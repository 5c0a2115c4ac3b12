"""A PostgreSQL of one's own: Debian's programs, an unprivileged user, a port and a folder that go with it.

Rule of this file: starting, asking and ending; nothing is measured here. Its data is not for keeping: nothing is
synced to the disk.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from paceline import child

MEND = "sudo apt-get install postgresql"
_READY_S = 120.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "5s",
    "lc_messages": "C",
}


def programs() -> Path | None:
    """Where PostgreSQL's programs are, the newest where there are several; None without any."""
    named = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return Path(named).parent if named else found[-1].parent if found else None


class PostgresServer:
    """One server; ``kill`` and ``start`` keep its data and its port. Who comes by the network needs a password."""

    def __init__(self, port: int, **settings: str) -> None:
        where = programs()
        assert where is not None, f"no PostgreSQL here; fix: {MEND}"
        self._programs, self.port, self._settings = where, port, _SETTINGS | settings
        # Not in a folder of the caller's, which this user may not enter.
        self.folder = Path(tempfile.mkdtemp(prefix="paceline-postgresql-"))
        self._user = _unprivileged()
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None
        self._made = 0
        subprocess.run(
            self._as_user("initdb", "--no-sync", "--pgdata", str(self.folder / "data"), "--username=admin",
                          "--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256"),
            check=True, capture_output=True, cwd=self.folder,
        )  # fmt: skip

    def _as_user(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        if self._user is None:
            return command
        who = [f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups", "--pdeathsig=QUIT"]
        return ["setpriv", *who, *command]

    def start(self) -> "PostgresServer":
        """Start it, and wait until it answers."""
        settings = self._settings | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            command = self._as_user("postgres", "-D", str(self.folder / "data"), *options)
            self.process = child.spawn(command, log, {**os.environ, "LC_ALL": "C.UTF-8"})
        end = time.monotonic() + _READY_S
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                self.ask("SELECT 1")
                return self
            said = (self.folder / "log").read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, f"PostgreSQL did not start: {said}"
            assert time.monotonic() < end, f"PostgreSQL is not ready in time: {said}"
            time.sleep(0.05)

    def ask(self, statement: str, database: str = "postgres", *values: Any) -> list[tuple[Any, ...]]:
        """What it answers to its administrator."""
        with psycopg.connect(
            host=str(self.folder), port=self.port, user="admin", dbname=database, autocommit=True
        ) as connection:
            answer = connection.execute(statement.encode(), values or None)
            return answer.fetchall() if answer.description else []

    def database(self) -> str:
        """A new database of a new role that owns it and nothing else; its address, with the password in it."""
        self._made += 1
        name = f"history{self._made}"
        with psycopg.connect(
            host=str(self.folder), port=self.port, user="admin", dbname="postgres", autocommit=True
        ) as c:
            c.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'p/w@: {}'").format(sql.Identifier(name), sql.SQL(name)))
            c.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(sql.Identifier(name)))
        return f"postgresql://{name}:p%2Fw%40%3A%20{name}@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it: connections are closed, nothing is waited for."""
        self._end(signal.SIGINT)

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom it runs as where we are root, which PostgreSQL refuses; None where we are not."""
    if os.getuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")
