"""Where control is, and the token that lets one change something there.

Rule of this file: a token that control made lies in a file that its owner alone can read; one in the settings wins.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from paceline.settings import CONTROL_TOKEN, CONTROL_URL, SESSIONS_DIR, SettingError
from paceline.visible import without_login

#: Bytes of a token that is made; what is read of the file at most.
_TOKEN_BYTES, _LONGEST = 24, 1000


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where control keeps what it is not told a folder for: by the XDG rules, of the user who runs it."""
    base = environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "paceline"


def sessions_folder(environ: Mapping[str, str]) -> Path:
    """Where the recorded sessions are."""
    named = SESSIONS_DIR.read(environ)
    return Path(named) if named else state_folder(environ) / "sessions"


def token_file(environ: Mapping[str, str]) -> Path:
    """Where a token is that control made."""
    return state_folder(environ) / "control.token"


def url(environ: Mapping[str, str]) -> str:
    """Where control is.

    Raises:
        SettingError: the setting is no address.
    """
    named = CONTROL_URL.read(environ).rstrip("/")
    try:
        parts = urlsplit(named)
        well = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
    if not well:
        raise SettingError(f"{CONTROL_URL.name}={without_login(named)!r}: no address; allowed: {CONTROL_URL.allowed}")
    return named


def token(environ: Mapping[str, str]) -> str:
    """The token to send: that of the settings, else the one that a control of this user made here; empty without.

    Raises:
        SettingError: the setting's file cannot be read, or others may write or read the token that was made.
    """
    return CONTROL_TOKEN.read(environ) or _made(token_file(environ))


def own_token(environ: Mapping[str, str]) -> str:
    """The token that control asks for: that of the settings, else one that is made once and kept.

    Raises:
        SettingError: it can neither be read nor made.
    """
    if told := token(environ):
        return told
    path = token_file(environ)
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Two controls that start at once: the second finds the first one's.
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(made + "\n")
        try:
            os.link(temporary, path)
        except FileExistsError:
            return _made(path)
        finally:
            temporary.unlink()
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}; set {CONTROL_TOKEN.name} or its _FILE") from error
    return made


def _made(path: Path) -> str:
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            held = file.read(_LONGEST)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}; set {CONTROL_TOKEN.name} or its _FILE") from error
    if seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) & 0o077:
        raise SettingError(f"{path}: not ours alone to read; run `chmod 600 {path}`, or remove it and restart control")
    return held.decode(errors="replace").strip()
