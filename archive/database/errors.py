"""Why the database cannot be used, in one line for a person: the cause, and what mends it.

Rule of this file: words only; no connection is made here. What is shown is the first line of what the database says,
without statement and values: these hold what jobs are called, and may hold more.
"""

import contextlib
from collections.abc import Iterator

import psycopg
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from paceline.visible import visible, without_logins

from .address import Address

_LOGIN = "check user and password in PACELINE_DATABASE, and what the server's pg_hba.conf lets in"
_RIGHTS = "give its role the rights that docs/history.md names"
_ROOM = "make room on the disk that it is on"
_THERE = "check host and port in PACELINE_DATABASE, and whether the server runs"
_WRITABLE = "name one that can be written in PACELINE_DATABASE, or have this one written again"
#: SQLSTATE, or how it begins -> the mend.
_CHANGED = "its tables were changed by hand: put them back, or name another database in PACELINE_DATABASE"
_STATES = {
    "42P01": _CHANGED,
    "42703": _CHANGED,
    "42501": _RIGHTS,
    "25006": _WRITABLE,
    "53100": _ROOM,
    "53300": "raise max_connections on the server",
}
#: Part of what is said -> the mend.
_WORDS = {
    "password authentication failed": _LOGIN,
    "no password supplied": _LOGIN,
    "pg_hba.conf": _LOGIN,
    "role ": _LOGIN,
    "does not exist": "create the database (docs/history.md)",
    "certificate": "set sslrootcert, sslcert and sslkey in PACELINE_DATABASE as libpq has them",
    "SSL": "set sslmode in PACELINE_DATABASE as the server wants it",
    "refused": _THERE,
    "timeout": _THERE,
    "timed out": _THERE,
    "resolve": _THERE,
    "readonly": _WRITABLE,
    "is full": _ROOM,
    "unable to open": "make its folder, and let this user write there",
    "not a database": "name another file in PACELINE_DATABASE, or move this one away",
    "malformed": "restore it, or move it away: what the topics still hold is read again",
    "locked": "end what else has it open for writing",
}
_OTHER = "see what the database itself logged; it is tried again"
_LONGEST = 300
#: Classes of SQLSTATE that speak of one row and not of the database: its values, its constraints, its size.
_OF_A_ROW = ("22", "23", "54")


class DatabaseError(RuntimeError):
    """The database cannot be used; ``cause`` and ``mend`` are for a person."""

    def __init__(self, shown: str, cause: str, mend: str) -> None:
        super().__init__(f"database at {shown}: {cause}; {mend}")
        self.shown, self.cause, self.mend = shown, cause, mend


@contextlib.contextmanager
def explained(at: Address, *more: type[Exception]) -> Iterator[None]:
    """What the database raises in this block, and ``more``, comes out as a ``DatabaseError``."""
    kinds: tuple[type[Exception], ...] = (SQLAlchemyError, psycopg.Error, *more)
    try:
        yield
    except kinds as error:
        cause = said(error)
        raise DatabaseError(at.shown, cause, _mend(state(error), cause)) from error


def of_a_row(error: DBAPIError) -> bool:
    """Whether it is a row that the database refuses, and others would be taken."""
    held = state(error)
    return held.startswith(_OF_A_ROW) if held else isinstance(error, DataError | IntegrityError)


def state(error: BaseException) -> str:
    """The SQLSTATE; nothing where there is none."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(origin, "sqlstate", None) or "")


def said(error: BaseException) -> str:
    """What the database says, in a line."""
    origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = str(origin).strip().splitlines()
    return visible(without_logins(lines[0] if lines else type(origin).__name__))[:_LONGEST]


def _mend(held: str, cause: str) -> str:
    if held in _STATES:
        return _STATES[held]
    return next((mend for word, mend in _WORDS.items() if word in cause), _OTHER)
