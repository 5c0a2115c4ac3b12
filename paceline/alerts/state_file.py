"""A door: what was reported, kept in a file from one start of the command to the next.

Rule of this file: written whole or not at all, readable by its owner alone, used by one process at a time. A file that
cannot be read as such is put aside, not overwritten: what was told is reported again then.
"""

import fcntl
import os
from pathlib import Path
from typing import IO, Any

import msgspec

MOST_BYTES = 64 * 1024 * 1024


class StateFileError(Exception):
    """The file cannot be used; the line says why, and the fix."""


class StateFile:
    """The file at ``path``, held until ``close``."""

    def __init__(self, path: Path) -> None:
        """Make its folder, and keep others from it.

        Raises:
            StateFileError: it cannot be written, or another process holds it.
        """
        self.path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock: IO[bytes] = path.with_name(path.name + ".lock").open("ab")
        except OSError as error:
            raise StateFileError(f"{path}: {error.strerror}; name another file with --state") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StateFileError(f"{path}: another `paceline alerts` uses it; give this one a --state FILE") from None

    def read(self) -> dict[str, Any]:
        """What was written last; nothing where there is no file.

        Raises:
            StateFileError: it holds no state; it has been put aside.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateFileError(f"{self.path}: {error.strerror}") from error
        try:
            held = msgspec.json.decode(data)
            if isinstance(held, dict) and len(data) <= MOST_BYTES:
                return held
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        raise self.put_aside()

    def put_aside(self) -> StateFileError:
        """Keep the file under another name, since it holds no state of ours; the error says so."""
        aside = self.path.with_name(self.path.name + ".damaged")
        self.path.replace(aside)
        return StateFileError(f"{self.path} held no state and is now {aside}; open findings are sent again")

    def write(self, state: dict[str, Any]) -> None:
        """Put ``state`` into the file.

        Raises:
            StateFileError: the disk is full, or the folder gone.
        """
        new = self.path.with_name(self.path.name + ".new")
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(state))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise StateFileError(f"{self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Let others use it."""
        self._lock.close()


def default_path(environ: dict[str, str]) -> Path:
    """Where it lies unless a place is named: the user's folder for state, of the XDG specification."""
    base = environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return folder / "paceline" / "alerts.json"
