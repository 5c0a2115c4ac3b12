"""The command that installs what is missing here, from where this Paceline was installed itself.

Rule of this file: every message that names such a command gets it from here. No package index is known to have
Paceline, so a wheel, a checkout or an address is named wherever pip has written down which it was (PEP 610).
"""

import json
import shlex
from collections.abc import Sequence
from importlib import metadata
from typing import Any
from urllib.parse import unquote, urlsplit

from paceline.visible import without_login

#: No such record of pip is longer; a longer one is not read.
MOST_CHARACTERS = 64 * 1024


def install(*extras: str) -> str:
    """``pip install …`` for this Paceline with ``extras``, as one types it."""
    return command(_record(), extras)


def command(record: str | None, extras: Sequence[str]) -> str:
    """The same by pip's ``record`` of where the distribution came from (``direct_url.json``), if there is one.

    >>> command('{"url": "file:///w/paceline-0.1.0-py3-none-any.whl", "archive_info": {}}', ["streams", "top"])
    "pip install '/w/paceline-0.1.0-py3-none-any.whl[streams,top]'"
    >>> command('{"url": "file:///w/paceline", "dir_info": {"editable": true}}', ["up"])
    "pip install -e '/w/paceline[up]'"
    >>> command(None, ["up"])
    "pip install 'paceline[up]'"
    """
    wanted = f"[{','.join(extras)}]"
    told = _read(record)
    url, folder = told.get("url"), told.get("dir_info")
    parts = _parts(url) if isinstance(url, str) else None
    if parts is None or not isinstance(url, str):
        return f"pip install 'paceline{wanted}'"
    scheme, path = parts
    if scheme == "file":
        editable = "-e " if isinstance(folder, dict) and folder.get("editable") is True else ""
        return f"pip install {editable}{shlex.quote(path + wanted)}"
    kind = told.get("vcs_info")
    system = f"{kind['vcs']}+" if isinstance(kind, dict) and kind.get("vcs") in ("git", "hg", "svn", "bzr") else ""
    return f"pip install {shlex.quote(f'paceline{wanted} @ {system}{without_login(url)}')}"


def _record() -> str | None:
    try:
        return metadata.distribution("paceline").read_text("direct_url.json")
    except (metadata.PackageNotFoundError, OSError, UnicodeDecodeError):
        return None


def _read(record: str | None) -> dict[str, Any]:
    if record is None or len(record) > MOST_CHARACTERS:
        return {}
    try:
        told = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _parts(url: str) -> tuple[str, str] | None:
    """Scheme and path of ``url``; None where no command can be made of it."""
    try:
        parts = urlsplit(url)
        path = unquote(parts.path)
    except ValueError:
        return None
    if not url.isprintable() or not path.isprintable():
        return None
    if parts.scheme == "file":
        return ("file", path) if path.startswith("/") else None
    return (parts.scheme, path) if parts.scheme in ("https", "http", "ssh") and parts.netloc else None
