"""Where the database is: what is told of it, and what it is opened with.

Rule of this file: no connection is made here. What is shown holds no login, whatever the address does.
"""

from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import conninfo

from paceline.settings import DATABASE, SettingError
from paceline.visible import visible

#: What a connection to PostgreSQL has unless the address says otherwise: it notices within half a minute when the
#: other side is gone, and says in ``pg_stat_activity`` who it is.
LIBPQ_DEFAULTS = {
    "application_name": "paceline-archive",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
#: The file that jobs and findings are in where no database is named.
FILE = "database.sqlite"


class Address(NamedTuple):
    """A database: ``shown`` is what people see; a ``file`` of SQLite, or ``options`` of libpq, which hold the login."""

    shown: str
    file: Path | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:  # Whoever logs it, or what it is in, tells no password.
        return f"Address({self.shown})"


def address(url: str) -> Address:
    """The database at ``url``, as the setting PACELINE_DATABASE has it.

    Raises:
        SettingError: it is none.

    >>> address("sqlite:////var/lib/paceline/database.sqlite").shown
    'sqlite:////var/lib/paceline/database.sqlite'
    >>> address("postgresql://ada:secret@db.example:5433/paceline?sslmode=verify-full").shown
    'postgresql://db.example:5433/paceline'
    """
    DATABASE.read({DATABASE.name: url})  # Refuses what is no address.
    if url.startswith("sqlite:"):
        file = Path(url.removeprefix("sqlite:///"))
        return Address(visible(f"sqlite:///{file}"), file)
    try:
        told = {key: str(value) for key, value in conninfo.conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError:  # What libpq says of it may hold a part of the password.
        raise _refused("not an address as libpq reads it, or with an option that it does not know") from None
    ports = filter(None, told.get("port", "").split(","))
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports):
        raise _refused("no port has that number")
    return Address(_shown(told), options=tuple((LIBPQ_DEFAULTS | told).items()))


def _refused(why: str) -> SettingError:
    return SettingError(f"{DATABASE.name}=(secret): {why}; allowed: {DATABASE.allowed}")


def in_folder(folder: Path) -> str:
    """The address of the embedded database in ``folder``.

    >>> in_folder(Path("/var/lib/paceline/archive"))
    'sqlite:////var/lib/paceline/archive/database.sqlite'
    """
    return f"sqlite:///{folder / FILE}"


def _shown(told: dict[str, str]) -> str:
    hosts = told.get("host", told.get("hostaddr", "localhost")).split(",")
    ports = told.get("port", "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    where = ",".join(host + (f":{port}" if port else "") for host, port in zip(hosts, ports, strict=True))
    return visible(f"postgresql://{where}/{told.get('dbname', told.get('user', ''))}")
